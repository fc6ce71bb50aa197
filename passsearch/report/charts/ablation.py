"""An ablation: what every pass of the winner is worth."""

from collections.abc import Mapping
from typing import Any

from passsearch.errors import UserError
from passsearch.objectives import COMPILE_TIME, THROUGHPUT
from passsearch.report.charts.chart import Chart
from passsearch.report.charts.ratios import ratio_chart
from passsearch.report.run_record import RunRecord
from passsearch.results import StatedRatio

METRICS = {objective.name: objective.title for objective in (THROUGHPUT, COMPILE_TIME)}
KINDS = {"ladder": "passes added one by one", "without": "each pass left out once"}


def ablation_chart(record: RunRecord, *, metric: str = THROUGHPUT.name, kind: str = "ladder") -> Chart:
    """Return one metric of the winner with its passes added, or left out, one by one.

    Args:
        record: The run.
        metric: ``throughput`` or ``compile_time``.
        kind: ``ladder``, which adds passes one by one, or ``without``, which leaves out one each.

    Raises:
        UserError: The run has no ablation, or the arguments are impossible.
    """
    for what, value, allowed in (("metric", metric, METRICS), ("kind", kind, KINDS)):
        if value not in allowed:
            raise UserError(f"Unknown {what} of an ablation `{value}`; choose from: {', '.join(allowed)}.")
    if record.ablation is None:
        raise UserError(f"This run has no ablation; make it: passsearch ablate {record.folder or 'RUN'}")
    rows = [row for row in ablation_rows(record.ablation) if row.get("kind") == kind]
    compared = "with it over without it" if kind == "without" else f"over that of {record.ablation.get('baseline')}"
    labels = [(str(row.get("pass") or "no pass"), _ratio(row, metric, kind=kind)) for row in rows]
    title = f"{METRICS[metric].capitalize()}: {KINDS[kind]}"
    return ratio_chart(title, f"times better, {compared}", labels)


def pass_gain(row: Mapping[str, Any], metric: str) -> StatedRatio | None:
    """Return the ratio of a metric with a pass to that without it, with its interval; ``None`` if not measured."""
    gains = row.get("gain")
    ratio = gains.get(metric) if isinstance(gains, Mapping) else None
    return StatedRatio.from_json(ratio) if ratio else None


def _ratio(row: Mapping[str, Any], metric: str, *, kind: str) -> StatedRatio | None:
    if kind == "without":
        return pass_gain(row, metric)
    return StatedRatio.from_json(row[metric]) if row.get(metric) else None


def ablation_rows(ablation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of an ablation."""
    rows = ablation.get("rows")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
