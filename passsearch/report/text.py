"""Results and comparisons as text for a terminal."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from passsearch.report.rows import (
    Row,
    baseline_name,
    comparison_rows,
    front_rows,
    heads,
    label,
    named,
    result_rows,
)
from passsearch.report.table import paragraph, table, text_width
from passsearch.report.wording import MISSING, at, count, latency_ms, number, passes_text, percent, ratio, verdict_text

FRONT = "front: no other candidate is better in every objective (the search's own measurements)"


def result_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """A run's result: what was tuned, a table of baselines and the winner, the verdict, how it was reached.

    Args:
        document: The content of ``result.json``.
        width: Characters a line may have; the terminal's by default.
    """
    wide = width or text_width()
    outcome = [("best", passes_text(document.get("best"))), ("verdict", verdict_text(document))]
    parts = [
        _paragraphs(subject(document), wide),
        _grid(document, result_rows(document), width=wide),
        _paragraphs(outcome, wide),
        _front(document, wide),
        _paragraphs(account(document), wide),
    ]
    return "\n\n".join(part for part in parts if part)


def comparison_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """A comparison: one row per pipeline, its measurement or why there is none."""
    wide = width or text_width()
    cache = f", {document['cache']} caches" if document.get("cache") else ""
    noise = f"{percent(document.get('noise_floor'))}; ratios are of one compile each, medians over processes{cache}"
    failed = [row for row in document.get("rows") or [] if "failure" in row]
    tail = [("noise floor", noise), *((label(row), f"failed: {_failure(row['failure'])}") for row in failed)]
    grid = _grid(document, comparison_rows(document), width=wide)
    parts = [_paragraphs(subject(document), wide), grid, _pairs(document, wide), _paragraphs(tail, wide)]
    return "\n\n".join(part for part in parts if part)


def _pairs(document: Mapping[str, Any], width: int) -> str:
    rows = [
        (f"{each['second']} / {each['first']}", ratio(each), each["verdict"]) for each in document.get("pairs") or []
    ]
    title = "throughput, intervals corrected for the number of pairs"
    return table((title, "ratio", "verdict"), rows, width=width, right=("ratio",)) if rows else ""


def subject(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What was compiled by what for what: names and texts."""
    model = document.get("model") or {}
    yield "network", f"{_text(model, 'name')}, batch {count(model.get('batch'))} ({_text(model, 'source')})"
    for each in document.get("classes") or []:
        yield "class", f"{_text(each, 'name')} ({'; '.join(each.get('evidence') or []) or MISSING})"
    yield "target", _text(document, "target")
    yield "device", _device(document.get("device") or {})
    for toolchain in document.get("toolchains") or [document.get("toolchain") or {}]:
        yield "toolchain", ", ".join(_text(toolchain, key) for key in ("name", "dialect")) + _tvm(toolchain)


def account(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How the result was reached and what it rests on: names and texts."""
    if at(document, "verdict", "repetitions"):
        yield "evidence", _evidence(document)
    if at(document, "best", "outputs"):
        yield "outputs", _outputs(document["best"]["outputs"])
    yield "space", _space(document.get("space") or {})
    yield "failures", _failures(document)
    for each in document.get("reproducers") or []:
        yield "reproducer", f"{', '.join(each['passes'])} in {each['folder']}: {each['reason']}"
    if document.get("seconds"):
        yield "seconds", _seconds(document["seconds"])
    yield from _unread(at(document, "best", "unavailable") or {})
    if document.get("interrupted"):
        yield "interrupted", "this is what was known then; the same command continues the run"


def _paragraphs(pairs: Iterable[tuple[str, str]], width: int) -> str:
    return "\n".join(paragraph(name, text, width=width) for name, text in pairs)


def _grid(document: Mapping[str, Any], rows: list[Row], *, width: int) -> str:
    titles = heads(document)
    return table(titles, [row.cells(document) for row in rows], width=width, right=titles[1:])


def _front(document: Mapping[str, Any], width: int) -> str:
    rows = front_rows(document)
    if not rows:
        return ""
    pipelines = [(row.label, passes_text(row.measured)) for row in rows]
    return "\n".join([f"{FRONT}:", _grid(document, rows, width=width), _paragraphs(pipelines, width)])


def _text(document: Mapping[str, Any], key: str) -> str:
    return str(document.get(key) or MISSING)


def _tvm(toolchain: Mapping[str, Any]) -> str:
    return f", TVM {_text(toolchain, 'tvm_version')}, Python {_text(toolchain, 'python')}"


def _device(device: Mapping[str, Any]) -> str:
    cores = f", {device['cores']} cores" if device.get("cores") else ""
    memory = f", {device['memory_bytes'] / 1e9:.1f} GB" if device.get("memory_bytes") else ""
    return f"{_text(device, 'name')}{cores}{memory}"


def _evidence(document: Mapping[str, Any]) -> str:
    verdict = document["verdict"]
    times, level = f"{verdict['repetitions']} fresh compiles each", percent(verdict.get("level"))
    name, number = baseline_name(document), verdict.get("processes")
    if number == 0:
        return f"best and {name}: {times}, nothing ran, intervals at {level}; other rows: one compile"
    processes = f"{number} new processes" if number else "new processes"
    return (
        f"best and {name}: {times}, timed side by side in {processes}, intervals at {level}; "
        f"other rows: one compile, one process, against {name} there{_there(document)}"
    )


def _there(document: Mapping[str, Any]) -> str:
    """What the baseline read where the rows that are not confirmed were measured."""
    row = named(document.get("baselines") or [], baseline_name(document))
    return f" ({latency_ms(row)} ms, compiled in {number(row.get('compile_s'))} s)" if row else ""


def _outputs(outputs: Mapping[str, Any]) -> str:
    if outputs["deviation"] is None:
        return f"not compared: {outputs['unavailable']['deviation']}"
    share = f"best deviates by {outputs['deviation']:.2g} of the largest, {outputs['tolerance']:.2g} is allowed"
    top1 = outputs.get("top1_agreement")
    reason = at(outputs, "unavailable", "top1_agreement")
    return f"{share}; top-1 agreement: {percent(top1)}" + (f" ({reason})" if reason else "")


def _space(space: Mapping[str, Any]) -> str:
    counted = {"sequences_asked": "sequences asked", "states": "states", "states_measured": "measured"}
    counted |= {"binaries": "binaries", "duplicates": "duplicates", "invalid": "invalid"}
    tally = ", ".join(f"{count(space.get(key))} {words}" for key, words in counted.items())
    if space.get("closed") is None:
        return tally
    ended = f"; ended: {space['ended']}" if space.get("ended") else ""
    without = ", ".join(space.get("closed_without", ()))
    closed = "closed: nothing is left to try" if space["closed"] else f"closed but for {without}" if without else ""
    return f"{tally}; {closed or 'not closed'}{ended}"


def _failures(document: Mapping[str, Any]) -> str:
    kinds = document.get("failures") or {}
    if not kinds:
        return "none"
    firsts = {each.get("kind"): each for each in reversed(document.get("failed") or [])}
    return "; ".join(_kind(kind, times, first=firsts.get(kind)) for kind, times in sorted(kinds.items()))


def _kind(kind: str, times: int, *, first: Mapping[str, Any] | None) -> str:
    return f"{times} {kind}" + (f" ({'first ' if times > 1 else ''}{_reason(first)})" if first else "")


def _failure(failure: Mapping[str, Any]) -> str:
    return f"{_text(failure, 'kind')} {_reason(failure)}"


def _reason(failure: Mapping[str, Any]) -> str:
    where = " of ".join(str(failure[key]) for key in ("stage", "step") if failure.get(key))
    return f"in {where or MISSING}: {_text(failure, 'reason')}"


def _seconds(seconds: Mapping[str, float]) -> str:
    total = seconds.get("total")
    stages = [
        f"{name} {value:.1f}" + (f" ({percent(value / total)})" if total else "")
        for name, value in seconds.items()
        if name != "total"
    ]
    return ", ".join([*stages, f"total {number(total)}"])


def _unread(unavailable: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for reason in dict.fromkeys(unavailable.values()):
        metrics = ", ".join(metric for metric, why in unavailable.items() if why == reason)
        yield "not read", f"{metrics} ({reason})"
