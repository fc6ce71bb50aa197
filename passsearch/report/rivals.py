"""A network beside the other engines that the user has, in words."""

from collections.abc import Iterator, Mapping, Sequence

from passsearch.report.formatting import MISSING, format_number, format_ratio, is_above, is_below
from passsearch.report.verdict import BUSY_PERCENT
from passsearch.results import FailedRival, Rival, RivalComparison, RunResult, StatedRatio
from passsearch.toolchain import target_kind

_NAMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch", "inductor": "PyTorch's Inductor"}


def engine_name(name: str) -> str:
    """Return the name of an engine as its makers write it."""
    return _NAMES.get(name, name)


def slowest_first(rivals: Mapping[str, Rival]) -> list[tuple[str, Rival]]:
    """Return rivals in the order of the network's throughput over theirs, so that one that is ahead is said first."""
    return sorted(rivals.items(), key=lambda item: item[1].lowest)


def rival_comparison(name: str, rival: Rival) -> str:
    """Return both ratios to a rival, both latencies, and whether they decide which one is faster."""
    fastest, medians = map(format_ratio, _ratios(rival))
    own, other = (f"{format_number(latency.median * 1e3)} ms" for latency in (rival.latency_s, rival.rival_latency_s))
    return (
        f"{fastest} times the throughput of {engine_name(name)} by the fastest runs, {medians} by medians "
        f"({own} beside {other}){_doubt(rival)}"
    )


def _doubt(rival: Rival) -> str:
    """Return that it is undecided which one is faster; empty where it is decided."""
    ratios = _ratios(rival)
    if len({(ratio.ratio or 0) > 1 for ratio in ratios}) > 1:
        return ": undecided, because the two disagree on which is faster"
    return "" if any(is_above(ratio, 1) or is_below(ratio, 1) for ratio in ratios) else ": undecided"


def _ratios(rival: Rival) -> Sequence[StatedRatio]:
    return rival.ratio, rival.ratio_of_medians


def engine_ahead(rivals: Mapping[str, Rival]) -> str:
    """Return the name of the fastest engine that is certainly faster than the network; empty if none is."""
    ahead = (name for name, rival in slowest_first(rivals) if rival.is_ahead and not _doubt(rival))
    return next(map(engine_name, ahead), "")


def rivals_sentence(result: RunResult) -> str:
    """Return the throughput of the winner over that of every engine beside it, as a sentence; empty without any."""
    rivals = result.rivals.measured if result.rivals else {}
    if not rivals:
        return ""
    network, ahead = result.model.name or "the network", engine_ahead(rivals)
    ratios = [_stated(name, rival) for name, rival in slowest_first(rivals)]
    return f"{f'{ahead} is faster: ' if ahead else ''}{network} has {' and '.join(ratios)}. "


def _stated(name: str, rival: Rival) -> str:
    """Return the ratio of the fastest runs, and that of the medians where it says something else."""
    fastest, medians = rival.ratio, rival.ratio_of_medians
    text = f"{format_ratio(fastest)} times the throughput of {engine_name(name)}"
    if _says(fastest) == _says(medians):
        return text
    return f"{text} ({format_ratio(medians)} by medians)"


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
    """Return the engine over which the winner has the lowest throughput, with the ratio of the fastest runs."""
    hardest = compared.hardest if compared else None
    return f"{engine_name(hardest[0])} {format_ratio(hardest[1].ratio)}" if hardest else MISSING


def rival_lines(compared: RivalComparison | None) -> Iterator[tuple[str, str]]:
    """Yield titles and texts on the engines beside the winner."""
    if compared is None:
        return
    for name, rival in slowest_first(compared.measured):
        version = f" {rival.version}" if rival.version else ""
        yield f"beside {engine_name(name)}{version}", rival_comparison(name, rival)
    if compared.measured and compared.processes == 1:
        yield "warning", "one process beside the other engines has no interval; a longer --timeout leaves time for more"
    if compared.measured and compared.others_percent >= BUSY_PERCENT:
        yield busy_warning(compared.others_percent)
    yield from _unmeasured(compared)


def busy_warning(percent: float) -> tuple[str, str]:
    """Return the warning that others used the cores during the comparison."""
    text = f"other processes took {percent:.0f} % of the cores' time during the comparison, and a busy machine has "
    return "warning", f"{text}other ratios than an idle one"
