"""Error of outputs and time of an inference by the precision of weights, with the choice of a search."""

from passsearch.core import SHARE
from passsearch.report.charts.chart import ACCENT, BEST, OTHER, Axis, Chart, Point, Series, drawable
from passsearch.results import PrecisionDecision


def precision_chart(decision: PrecisionDecision) -> Chart:
    """Return predicted time against error: choices by layer at some budgets, single storages, and what was chosen."""
    points: dict[str, list[tuple[float | None, float, str]]] = {}
    points["by layer"] = [(each.error, each.predicted_s, "by layer") for each in decision.points]
    points["one for all"] = [(each.error, each.predicted_s, each.text) for each in decision.uniform]
    points["chosen"] = [(decision.error, decision.predicted_s, "chosen")] if decision.pipeline else []
    drawn = {name: tuple(filter(None, (_point(*row) for row in rows))) for name, rows in points.items()}
    series = (
        Series("", drawn["by layer"], kind="line", colour=ACCENT),
        Series("by layer, at several budgets", drawn["by layer"], colour=ACCENT),
        Series("one storage for all layers", drawn["one for all"], colour=OTHER),
        Series("chosen", drawn["chosen"], colour=BEST),
    )
    is_share = decision.unit == SHARE
    dashed = "the budget" if is_share else f"the bound by a budget of {100 * decision.budget:g} % in {decision.unit}"
    mark = decision.budget if is_share else decision.bound
    error = Axis(f"error, as a share of the largest output (dashed: {dashed})", is_log=True, mark=mark)
    time = Axis("predicted time of the kernels in ms", mark=1e3 * decision.begin_s)
    title = "Error and time by the precision of weights"
    return Chart(title if is_share else f"{title}, by {decision.unit}", error, time, series)


def _point(error: float | None, seconds: float, name: str) -> Point | None:
    x, y = drawable(error), drawable(1e3 * seconds)
    return None if x is None or y is None else Point(x, y, f"{name}: {y:.3g} ms at an error of {x:.2g}")
