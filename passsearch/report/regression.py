"""What got slower between two engines, versions or pipelines."""

from collections.abc import Iterator, Mapping

from passsearch.report.formatting import (
    MISSING,
    counted,
    format_interval,
    format_megabytes,
    format_number,
    format_percent,
)
from passsearch.report.table import LONGEST_NAME, paragraph, paragraph_lines, table, text_width
from passsearch.results import Exchange, KernelDifference, Regression, RegressionSide, StatedRatio

MOST_ROWS = 8
"""Kernels and exchanges that are shown; JSON has all."""

_KERNELS = ("kernel", "calls", "before ms", "after ms", "difference ms", "share")
_SIDES = ("", "latency ms", "items/s", "compile s", "load s", "MB", "deviation", "version")


def regression_text(document: Regression) -> str:
    """Return the answer, both sides, the kernels and the exchanges."""
    width = text_width()
    sides = table(_SIDES, [_side_cells(each) for each in (document.before, document.after)], width=width)
    parts = [paragraph("", _headline(document), width=width), sides, paragraph_lines(_remarks(document), width=width)]
    if document.kernels:
        rows = [_kernel_cells(each) for each in document.kernels[:MOST_ROWS] if each.difference_s > 0]
        parts.append(table(_KERNELS, rows, width=width, right=_KERNELS[1:]))
    if document.exchanges:
        titles = ("B with, of A", "times as fast", "explains")
        rows = [_exchange_cells(each) for each in document.exchanges[:MOST_ROWS]]
        parts.append(table(titles, rows, width=width, right=titles[1:]))
    return "\n\n".join(part for part in parts if part)


def _headline(document: Regression) -> str:
    names = _short(document.after.name), _short(document.before.name)
    if document.verdict == "fails":
        return f"{names[0]} fails where {names[1]} does not: {document.after.failure}."
    ratio = _format(document.ratios.get("fastest"))
    if document.verdict == "slower":
        text = f"{names[0]} is certainly slower than {names[1]}: {ratio} times the time of an inference."
        causes = [document.named.get("exchange"), document.named.get("kernel")]
        words = ("What makes the difference", "The kernel that lost most")
        found = [f"{word}: {cause}." for word, cause in zip(words, causes, strict=True) if cause]
        return " ".join([text, *found])
    if document.verdict == "faster":
        return f"{names[0]} is faster than {names[1]} in one measurement: {ratio} times the time of an inference."
    least = format_percent(document.threshold)
    return f"No slowdown of {names[0]} beyond {least} is certain: {ratio} times the time of {names[1]}."


def _short(name: str) -> str:
    """Return a name in quotes; of a pipeline that is written out, its begin."""
    return f"`{name}`" if len(name) <= LONGEST_NAME else f"`{name[:LONGEST_NAME]}…`"


def _format(ratio: StatedRatio | None) -> str:
    return MISSING if ratio is None else format_interval(ratio.ratio, ratio.interval, decimals=3)


def _side_cells(side: RegressionSide) -> tuple[str, ...]:
    latency = side.latency_s
    milliseconds = MISSING
    if latency is not None:
        ends = [end and 1e3 * end for end in latency.interval or ()]
        milliseconds = format_interval(1e3 * latency.median, ends, decimals=3)
    return (
        side.name,
        milliseconds,
        format_number(side.throughput_per_s),
        format_number(side.compile_s),
        format_number(min(side.load_s)) if side.load_s else MISSING,
        format_megabytes(side.memory_bytes),
        MISSING if side.deviation is None else f"{side.deviation:.1e}",
        ", ".join(str(version).partition("-")[0] for version in side.versions.values()),
    )


def _remarks(document: Regression) -> Iterator[tuple[str, str]]:
    yield "network", f"{document.model} ({document.source}), {counted(document.threads, 'thread')}"
    yield "outputs", f"compared with {document.reference}"
    shares = f"others took {format_percent(document.others_percent / 100)} of the cores"
    yield "evidence", f"{counted(document.processes, 'process', 'processes')} of each side in turns; {shares}"
    for remark in document.remarks:
        yield "note", remark
    yield from _further(document.ratios)
    if document.confirmation is not None:
        yield "measured again", f"{_format(document.confirmation['fastest'])} times the time, in as many new processes"
    if document.outside_s is not None:
        yield "outside kernels", f"{1e3 * document.outside_s:.3f} ms of the difference"
    if document.regressed:
        for title, reason in (("no kernels", document.no_kernels), ("no exchanges", document.no_exchanges)):
            if reason:
                yield title, reason


def _further(ratios: Mapping[str, StatedRatio | None]) -> Iterator[tuple[str, str]]:
    for name, title in (("load", "time to load"), ("memory_bytes", "memory added")):
        if ratios.get(name) is not None:
            yield title, f"{_format(ratios[name])} times"


def _kernel_cells(kernel: KernelDifference) -> tuple[str, ...]:
    calls = str(kernel.calls_after)
    if kernel.calls_before != kernel.calls_after:
        calls = f"{kernel.calls_before} → {kernel.calls_after}"
    values = [MISSING if value is None else f"{1e3 * value:.3f}" for value in (kernel.before_s, kernel.after_s)]
    share = MISSING if kernel.share is None else format_percent(kernel.share)
    return f"{kernel.operator} {kernel.shape or ''}".strip(), calls, *values, f"{1e3 * kernel.difference_s:.3f}", share


def _exchange_cells(exchange: Exchange) -> tuple[str, ...]:
    if exchange.failure:
        return exchange.text, MISSING, exchange.failure
    explained = MISSING if exchange.explained is None else format_percent(exchange.explained)
    return exchange.text, _format(exchange.ratio), explained if exchange.certain else f"{explained}, uncertain"
