"""Results and comparisons as text for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from passsearch.report.table import paragraph, table, text_width
from passsearch.report.wording import (
    MISSING,
    at,
    latency_ms,
    megabytes,
    number,
    passes_text,
    percent,
    ratio,
    spread,
    verdict_text,
)

_NUMBERS = ("latency ms", "per second", "artifact MB")


def result_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """A run's result: what was tuned, a table of baselines and the winner, the verdict, how it was reached.

    Args:
        document: The content of ``result.json``.
        width: Characters a line may have; the terminal's by default.
    """
    wide = width or text_width()
    head = [paragraph(name, text, width=wide) for name, text in _subject(document)]
    tail = [paragraph(name, text, width=wide) for name, text in _account(document)]
    best = paragraph("best", passes_text(document.get("best")), width=wide)
    verdict = paragraph("verdict", verdict_text(document), width=wide)
    parts = ["\n".join(head), _result_table(document, wide), f"{best}\n{verdict}", _pareto(document, wide), "\n".join(tail)]
    return "\n\n".join(part for part in parts if part)


def comparison_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """A comparison: one row per pipeline, its measurement or why there is none."""
    wide = width or text_width()
    baseline, rows = str(document.get("baseline") or "baseline"), document.get("rows") or []
    reference = next((row for row in rows if row.get("name") == baseline and "failure" not in row), None)
    lines = [_row(_label(row), row, row.get("ratio"), _times(reference, row)) for row in rows if "failure" not in row]
    head = [paragraph(name, text, width=wide) for name, text in _subject(document)]
    noise = f"{percent(document.get('noise_floor'))}; ratios are of one compile and one process each"
    tail = [paragraph("noise floor", noise, width=wide)]
    tail += [paragraph(_label(row), f"failed: {_failure(row['failure'])}", width=wide) for row in rows if "failure" in row]
    return "\n\n".join(["\n".join(head), _table(lines, baseline, wide), "\n".join(tail)])


def _subject(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    model, toolchain = document.get("model") or {}, document.get("toolchain") or {}
    yield "network", f"{model.get('name') or MISSING}, batch {number(model.get('batch'))} ({model.get('source') or MISSING})"
    for each in document.get("classes") or []:
        yield "class", f"{each.get('name')} ({'; '.join(each.get('evidence') or []) or MISSING})"
    yield "target", str(document.get("target") or MISSING)
    yield "device", _device(document.get("device") or {})
    version = toolchain.get("tvm_version") or MISSING
    yield "toolchain", f"{toolchain.get('name') or MISSING}, {toolchain.get('dialect') or MISSING}, TVM {version}"


def _device(device: Mapping[str, Any]) -> str:
    cores = f", {device['cores']} cores" if device.get("cores") else ""
    memory = f", {device['memory_bytes'] / 1e9:.1f} GB" if device.get("memory_bytes") else ""
    return f"{device.get('name') or MISSING}{cores}{memory}"


def _result_table(document: Mapping[str, Any], width: int) -> str:
    baseline, best = document.get("baseline") or {}, document.get("best") or {}
    searched = document.get("baselines") or []
    reference = next((each for each in searched if each.get("name") == baseline.get("name")), None)
    rows = []
    for each in searched:
        shown = baseline if each is reference else each
        times = {"ratio": 1.0} if each is reference else _times(reference, each)
        rows.append(_row(_label(each), shown, {"ratio": 1.0} if each is reference else each.get("ratio"), times))
    ratios = document.get("ratios")
    rows.append(_row("best", best, at(ratios, "throughput"), at(ratios, "compile_time")))
    return _table(rows, str(baseline.get("name") or "baseline"), width)


def _table(rows: Sequence[Sequence[str]], baseline: str, width: int) -> str:
    throughput, times = f"throughput / {baseline}", f"{baseline} / compile s"
    heads = ("", "latency ms", "per second", throughput, "compile s", times, "artifact MB")
    return table(heads, rows, width=width, right=heads[1:])


def _row(
    label: str, measured: Mapping[str, Any], throughput: Mapping[str, Any] | None, times: Mapping[str, Any] | None
) -> tuple[str, ...]:
    return (
        label,
        latency_ms(measured),
        number(measured.get("throughput_per_s"), 4),
        ratio(throughput),
        number(measured.get("compile_s")),
        ratio(times),
        megabytes(measured.get("artifact_bytes")),
    )


def _label(candidate: Mapping[str, Any]) -> str:
    level = at(candidate, "build", "opt_level")
    return str(candidate.get("name") or candidate.get("pipeline") or f"O{number(level)}")


def _times(reference: Mapping[str, Any] | None, measured: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How many times less time it took to compile, by one compile each: no interval."""
    first, second = at(reference, "compile_s"), measured.get("compile_s")
    return {"ratio": first / second} if first and second else None


def _pareto(document: Mapping[str, Any], width: int) -> str:
    front = document.get("pareto") or []
    if len(front) < 2:
        return ""
    baseline = document.get("baseline") or {}
    searched = next((each for each in document.get("baselines") or [] if each.get("name") == baseline.get("name")), None)
    rows = [_row(str(number_), each, each.get("ratio"), _times(searched, each)) for number_, each in enumerate(front, 1)]
    pipelines = [paragraph(str(number_), passes_text(each), width=width) for number_, each in enumerate(front, 1)]
    grid = _table(rows, str(baseline.get("name") or "baseline"), width)
    return "\n".join(["front (no other candidate is better in every objective; not confirmed):", grid, *pipelines])


def _account(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    repetitions = at(document, "verdict", "repetitions")
    if repetitions:
        shown = f"best and {at(document, 'baseline', 'name')}: {repetitions} fresh compiles, each timed in a fresh process"
        yield "evidence", f"{shown}; intervals at {percent(at(document, 'verdict', 'level'))}; other rows: one compile each"
    yield "space", _space(document.get("space") or {})
    yield "failures", _failures(document)
    if document.get("seconds"):
        yield "seconds", _seconds(document["seconds"])
    yield from _unread(at(document, "best", "unavailable") or {})
    if document.get("interrupted"):
        yield "interrupted", "this is what was known then; the same command continues the run"


def _space(space: Mapping[str, Any]) -> str:
    counted = {"sequences_asked": "sequences asked", "states": "states", "states_measured": "measured"}
    counted |= {"duplicates": "duplicates", "invalid": "invalid"}
    closed = {True: "closed: nothing is left to try", False: "not closed"}.get(space.get("closed"), MISSING)  # type: ignore[arg-type]
    return ", ".join(f"{_count(space.get(key))} {words}" for key, words in counted.items()) + f"; {closed}"


def _count(value: int | None) -> str:
    return MISSING if value is None else str(value)


def _failures(document: Mapping[str, Any]) -> str:
    kinds = document.get("failures") or {}
    if not kinds:
        return "none"
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    firsts = {each.get("kind"): each for each in reversed(document.get("failed") or [])}
    return "; ".join([counts, *(f"first {kind}: {_failure(firsts[kind])}" for kind in sorted(kinds) if kind in firsts)])


def _failure(failure: Mapping[str, Any]) -> str:
    where = " ".join(str(failure[key]) for key in ("stage", "step") if failure.get(key))
    return f"{failure.get('kind')} in {where or MISSING}: {failure.get('reason') or MISSING}"


def _seconds(seconds: Mapping[str, float]) -> str:
    total = seconds.get("total")
    parts = [f"{name} {spread(value, None)}{_share(value, total)}" for name, value in seconds.items() if name != "total"]
    return ", ".join([*parts, f"total {number(total)}"])


def _share(value: float, total: float | None) -> str:
    return f" ({percent(value / total)})" if total else ""


def _unread(unavailable: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for reason in dict.fromkeys(unavailable.values()):
        metrics = ", ".join(metric for metric, why in unavailable.items() if why == reason)
        yield "not read", f"{metrics} ({reason})"
