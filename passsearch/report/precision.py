"""What a search decided on the precision of weights: lines of text, and a table of the layers."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from passsearch.core import ACCURACY, SHARE, TOP1
from passsearch.report.formatting import MISSING, counted, format_percent
from passsearch.results import LayerPrecision, NoPrecision, PrecisionDecision, PrecisionWorth

FLOAT32 = "float32"

MOST_WORTHS = 10
"""Most layers of which a text says what their precision is worth."""

_UNITS = {
    SHARE: "of the largest output",
    TOP1: "of the rows with another class than the reference's",
    ACCURACY: "fewer of the rows classified right",
}
"""What an error is a share of, by unit of the budget."""

LAYER_TITLES = ("layer", "weights", "precision", "saves", "error", "share of the error", "instead")
"""Titles of the table of layers."""


def precision_lines(found: NoPrecision | PrecisionDecision | None) -> Iterator[tuple[str, str]]:
    """Yield what was decided on the precision of weights, or why nothing was."""
    if isinstance(found, NoPrecision):
        yield "precision", f"none was decided: {found.failure.reason}"
    if not isinstance(found, PrecisionDecision):
        return
    yield "precision", _decision(found)
    yield from _classes(found)
    if found.pipeline:
        yield "speed by precision", _speed(found)
    yield "certificate of precision", _certificate(found)
    yield "one precision for all", _uniform(found)
    yield from _grouped(found.layers)


def layer_rows(decision: PrecisionDecision) -> list[tuple[str, ...]]:
    """Return a row of the table for each layer."""
    return [
        (
            f"{each.kernel}:{each.call}",
            each.weights,
            each.text,
            _ms(each.saved_s),
            _error(each),
            format_percent(each.error_share),
            each.reason or _others(each),
        )
        for each in decision.layers
    ]


def worth_lines(found: PrecisionWorth) -> Iterator[tuple[str, str]]:
    """Yield what the precision of each layer is worth, the one that saves most first."""
    error = _worth_error(found.error, found.predicted_error)
    yield (
        "precision of layers",
        f"{counted(len(found.layers), 'layer')} in fewer bits; kernels take {_ms(found.predicted_s)} and outputs "
        f"deviate by {error} of the largest. Each layer alone in float32 again:",
    )
    if found.failure:
        yield "not measured", f"deviations that are only predicted: {found.failure}"
    for each in sorted(found.layers, key=lambda each: -each.saved_s)[:MOST_WORTHS]:
        more = f"{_ms(each.saved_s)} ({format_percent(each.saved_s / found.predicted_s)}) more"
        error = _worth_error(each.error, each.predicted_error)
        yield f"{each.kernel}:{each.call}", f"{each.weights} in {each.text}; without, {more} and a deviation of {error}"
    if (rest := len(found.layers) - MOST_WORTHS) > 0:
        yield "other layers", f"{rest}, which save less, are in the JSON"


def _worth_error(error: float | None, predicted: float) -> str:
    return f"{predicted:.2g} (predicted)" if error is None else f"{error:.2g} ({predicted:.2g} predicted)"


def _decision(found: PrecisionDecision) -> str:
    narrow = [each for each in found.layers if each.storage != FLOAT32]
    inputs = (
        f"on {counted(found.samples, 'sample')} of the user"
        if found.samples
        else "on random inputs, which say less than samples of your own (--samples FILE.npz)"
    )
    if not narrow:
        unit = _UNITS[found.unit]
        nearest = (
            "" if found.nearest is None else f"; the nearest point has {_amount(found.nearest, found.unit)} {unit}"
        )
        reason = f" ({found.refusal})" if found.refusal else ""
        budget = f"a budget of {_amount(found.budget, found.unit)} {unit}"
        return f"all weights stay float32: nothing within {budget} is faster{nearest}{reason}; measured {inputs}"
    counts: dict[str, int] = {}
    for each in narrow:
        counts[each.text] = counts.get(each.text, 0) + 1
    kinds = ", ".join(f"{number} in {text}" for text, number in sorted(counts.items()))
    allowed = f"{found.budget:g} allowed, " if found.unit == SHARE else ""
    return (
        f"{len(narrow)} of {counted(len(found.layers), 'layer')} in fewer bits ({kinds}); outputs deviate from "
        f"{found.compared_with} by {found.error:.2g} of the largest ({allowed}"
        f"{found.predicted_error:.2g} predicted), {inputs}"
    )


def _classes(found: PrecisionDecision) -> Iterator[tuple[str, str]]:
    """Yield what a budget of classes came to, and whether the inputs can tell it."""
    if found.unit == SHARE:
        return
    unit, allowed = _UNITS[found.unit], _amount(found.budget, found.unit)
    if found.loss is not None:
        most = found.predicted_loss
        at_most = "" if most is None else f", {_amount(most, found.unit)} predicted at most"
        amount, rows = _amount(found.loss, found.unit), counted(found.rows, "row")
        yield "classes", f"{amount} {unit} ({allowed} allowed{at_most}), of {rows}"
    if found.rows and 0 < found.budget < 1 / found.rows:
        few = f"{counted(found.rows, 'row')} tell shares of {_amount(1 / found.rows, found.unit)} only"
        yield "too few samples", f"{few}, so a budget of {allowed} allows none; give more by --samples FILE.npz"


def error_text(found: PrecisionDecision) -> str:
    """Return the error of a decision in the unit of its budget."""
    error = found.error if found.loss is None else found.loss
    return f"{_amount(error, found.unit)} {_UNITS[found.unit]}"


def _amount(share: float, unit: str) -> str:
    return f"{share:.2g}" if unit == SHARE else f"{100 * share:.3g} %"


def _speed(found: PrecisionDecision) -> str:
    measured = MISSING if found.gain is None else f"{found.gain:.2f}"
    return f"{measured} times float32's throughput, {found.predicted_gain:.2f} predicted"


def _certificate(found: PrecisionDecision) -> str:
    rest = max(0.0, 1 - found.bound_s / found.predicted_s)
    bound = "faster" if rest < 5e-4 else f"more than {format_percent(rest)} faster"
    within = "the budget" if found.unit == SHARE or found.bound is None else f"an error of {found.bound:.2g}"
    return f"nothing within {within} is predicted to be {bound}, by the times of kernels in their places"


def _uniform(found: PrecisionDecision) -> str:
    """Return how much faster the choice is than the best single storage within the budget."""
    losses = [(each, each.error if found.unit == SHARE else each.loss) for each in found.uniform]
    within = [each for each, loss in losses if loss is not None and loss <= found.budget]
    best = min(within, key=lambda each: each.predicted_s, default=None)
    rows = ", ".join(
        f"{each.text} {found.begin_s / each.predicted_s:.2f} times at an error of "
        + (MISSING if each.error is None else f"{each.error:.2g}")
        + ("" if found.unit == SHARE or loss is None else f" and {_amount(loss, found.unit)} {_UNITS[found.unit]}")
        for each, loss in losses
    )
    if best is None or best.predicted_s >= found.begin_s:
        return f"none is faster within the budget; {rows}"
    more = best.predicted_s / found.predicted_s - 1
    gain = f"{format_percent(more)} faster than {best.text}" if more > 0 else f"no faster than {best.text}"
    return f"deciding by layer is predicted to be {gain}, the best within the budget; {rows}"


def _grouped(layers: Sequence[LayerPrecision]) -> Iterator[tuple[str, str]]:
    """Yield a line for the layers of one kernel with one decision, so that equal layers take one line."""
    ordered = sorted(layers, key=lambda each: (each.kernel, each.text, each.reason))
    for (kernel, text, reason), members in groupby(ordered, key=lambda each: (each.kernel, each.text, each.reason)):
        own = list(members)
        calls = ", ".join(_ranges([each.call for each in own]))
        share = format_percent(sum(each.error_share for each in own))
        saved = _ms(sum(each.saved_s for each in own))
        parts = (f"saves {saved}, {share} of the error",) if text != FLOAT32 else (reason, _others(own[0]))
        what = "; ".join(filter(None, parts))
        yield f"{kernel} {calls}", f"{own[0].weights} in {text}: {what}"


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Yield sorted numbers, those that follow each other as a range."""
    for _, group in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in group]
        yield str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}"


def _others(layer: LayerPrecision) -> str:
    """Return what other storages would save and cost."""
    return "; ".join(
        f"{each.text} saves {_ms(each.saved_s)}" + ("" if each.error is None else f" at {each.error:.1g}")
        for each in layer.others
    )


def _error(layer: LayerPrecision) -> str:
    return MISSING if layer.error is None else f"{layer.error:.1e}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
