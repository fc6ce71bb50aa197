"""A network beside the other engines that the user has, in words."""

from collections.abc import Iterator, Mapping

from passsearch.report.formatting import MISSING, format_number, format_ratio, is_above, is_below
from passsearch.results import BUSY_PERCENT, FailedRival, Rival, RivalComparison, RunResult, StatedRatio
from passsearch.toolchain import target_kind

_NAMES = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "torch": "PyTorch (eager)",
    "inductor": "PyTorch's Inductor",
}


def engine_name(name: str) -> str:
    """Return the name of an engine as its makers write it."""
    return _NAMES.get(name, name)


def fastest_first(rivals: Mapping[str, Rival]) -> list[tuple[str, Rival]]:
    """Return rivals in the order of the network's throughput over theirs, so that one that is ahead is said first."""
    return sorted(rivals.items(), key=lambda item: item[1].lowest.ratio or 0.0)


def _comparison(name: str, rival: Rival) -> str:
    """Return both ratios to a rival, both latencies, and whether they decide which one is faster."""
    fastest, medians = map(format_ratio, rival.ratios)
    own, other = (f"{format_number(latency.median * 1e3)} ms" for latency in (rival.latency_s, rival.rival_latency_s))
    doubt = _doubt(rival)
    return (
        f"{fastest} times the throughput of {engine_name(name)} by the fastest runs, {medians} by medians "
        f"({own} beside {other}){f': {doubt}' if doubt else ''}"
    )


def _doubt(rival: Rival) -> str:
    """Return that it is undecided which one is faster; empty where it is decided."""
    if rival.is_disputed:
        return "undecided, because the two disagree on which is faster"
    return "" if rival.is_ahead or rival.is_behind else "undecided"


def engine_ahead(rivals: Mapping[str, Rival]) -> str:
    """Return the name of the fastest engine that is certainly faster than the network; empty if none is."""
    ahead = (name for name, rival in fastest_first(rivals) if rival.is_ahead)
    return next(map(engine_name, ahead), "")


def rivals_sentence(result: RunResult) -> str:
    """Return the throughput of the winner over that of every engine beside it, as a sentence; empty without any."""
    compared = result.rivals
    if compared is None or not compared.measured:
        return ""
    rivals, doubt = compared.measured, "one process" if compared.processes == 1 else ""
    network, ahead = result.model.name or "the network", engine_ahead(rivals)
    return f"{f'{ahead} is faster: ' if ahead else ''}{network} has {stated_ratios(rivals, doubt=doubt)}. "


def stated_ratios(rivals: Mapping[str, Rival], *, doubt: str = "") -> str:
    """Return the network's throughput over that of every engine.

    Args:
        rivals: The engines.
        doubt: Why no ratio decides which one is faster; by default, each ratio says whether it does.
    """
    return " and ".join(_stated(name, rival, doubt=doubt or _doubt(rival)) for name, rival in fastest_first(rivals))


def _stated(name: str, rival: Rival, *, doubt: str) -> str:
    """Return the ratio of the fastest runs, that of the medians where it says something else, and the doubt."""
    fastest, medians = rival.ratios
    is_same = _says(fastest) == _says(medians) and not rival.is_disputed
    other = "" if is_same else f"{format_ratio(medians)} by medians"
    aside = "; ".join(filter(None, [other, doubt]))
    text = f"{format_ratio(fastest)} times the throughput of {engine_name(name)}"
    return f"{text} ({aside})" if aside else text


def _says(ratio: StatedRatio) -> str:
    return "faster" if is_above(ratio, 1) else "slower" if is_below(ratio, 1) else "undecided"


def no_rival_note(result: RunResult) -> str:
    """Return why a gain over the compiler's own baseline stands alone; empty where it does not, and on a GPU."""
    compared = result.rivals
    if (compared and compared.measured) or target_kind(result.target) != "llvm":
        return ""
    # Earlier versions measured none.
    failed = "" if compared is None else "; ".join(text for _, text in _unmeasured(compared))
    reason = failed or "the run is of an earlier version"
    return f" No other engine was measured: {reason}."


def _unmeasured(compared: RivalComparison) -> Iterator[tuple[str, str]]:
    """Yield titles and reasons of what was not measured."""
    if compared.reason:
        yield "not compared", compared.reason
    for name, rival in compared.engines.items():
        if isinstance(rival, FailedRival):
            yield f"not compared with {engine_name(name)}", rival.failure


def hardest_rival(compared: RivalComparison | None) -> str:
    """Return the engine over which the winner has the lowest throughput, with the lower of its two ratios."""
    hardest = compared.hardest if compared else None
    return f"{engine_name(hardest[0])} {format_ratio(hardest[1].lowest)}" if hardest else MISSING


def rival_lines(compared: RivalComparison | None) -> Iterator[tuple[str, str]]:
    """Yield titles and texts on the engines beside the winner."""
    if compared is None:
        return
    yield from beside_lines(compared.measured)
    if compared.measured and compared.processes == 1:
        yield "warning", "one process beside the other engines has no interval; a longer --timeout leaves time for more"
    if compared.measured and compared.others_percent >= BUSY_PERCENT:
        yield busy_warning(compared.others_percent)
    yield from _unmeasured(compared)


def beside_lines(rivals: Mapping[str, Rival]) -> Iterator[tuple[str, str]]:
    """Yield the engines, and both ratios and both latencies of each."""
    for name, rival in fastest_first(rivals):
        version = f" {rival.version}" if rival.version else ""
        yield f"beside {engine_name(name)}{version}", _comparison(name, rival)


def busy_warning(percent: float) -> tuple[str, str]:
    """Return the warning that others used the cores during the comparison."""
    text = f"other processes took {percent:.0f} % of the cores' time during the comparison, and a busy machine has "
    return "warning", f"{text}other ratios than an idle one"
