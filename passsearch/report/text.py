"""Results as text for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from passsearch.core import CONSTANTS, UNKNOWN, UNKNOWN_CLASS
from passsearch.objectives import THROUGHPUT
from passsearch.report.composition import kernel_lines
from passsearch.report.formatting import (
    MISSING,
    format_count,
    format_latency_ms,
    format_number,
    format_percent,
    format_pipeline,
    format_ratio,
    format_time,
    lookup,
)
from passsearch.report.headline import headline_text
from passsearch.report.rows import (
    Row,
    baseline_name,
    column_titles,
    find_by_name,
    front_rows,
    level_rows,
    levels_title,
    load_note,
    recalled_note,
    result_rows,
)
from passsearch.report.sequence import sequence_text
from passsearch.report.table import paragraph, paragraph_lines, table, text_width
from passsearch.report.verdict import rejected_lines, verdict_text, warning_lines

SOURCES = {
    "baseline": "nobody: it is the baseline {name}",
    "sequence": "the catalog, as the sequence {name}, without passes that change nothing here",
    "composition": "the search, which decided on each region and kernel by the times of kernels",
    "explored state": "the search, among the states it explored (sampler {name})",
    "sampler": "the search's sampler {name}",
}
"""Sentences on the source of a winner, by its kind."""

FRONT_TITLE = "Pareto front: no other candidate is better in every objective (the search's own measurements)"


def result_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """Return a run's result: the gain in a sentence, network and device, a table, the verdict, the evidence.

    Args:
        document: The content of ``result.json``.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    outcome = [("best", format_pipeline(document.get("best"))), *attribution_lines(document)]
    outcome += [("verdict", verdict_text(document)), *rejected_lines(document), *warning_lines(document)]
    parts = [
        paragraph("", headline_text(document), width=width),
        paragraph_lines(setup_lines(document), width=width),
        _table(document, result_rows(document), width=width),
        _levels(document, width),
        paragraph_lines(outcome, width=width),
        _pareto_front(document, width),
        paragraph_lines(evidence_lines(document), width=width),
    ]
    return "\n\n".join(part for part in parts if part)


def candidate_text(document: Mapping[str, Any]) -> str:
    """Return one measured candidate in one line: its pipeline, latency and compile time."""
    latency, compile_s = format_latency_ms(document), format_number(document.get("compile_s"))
    return f"{format_pipeline(document)}: {latency} ms an inference, compiled in {compile_s} s"


def attribution_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield who proposed the winner, what it gains over the catalog, and what compile times are spent on."""
    source = lookup(document, "best", "source")
    if source:
        yield "found by", SOURCES[source["kind"]].format(name=source["name"])
    if sequence_text(document):
        yield "gain of the search", sequence_text(document)
    rows = [(name, lookup(document, key, "compile_parts_s")) for name, key in _compiled_rows(document)]
    if all(parts for _, parts in rows):
        yield "compile seconds", "; ".join(f"{name}: {_parts(parts)}" for name, parts in rows)
        yield "without constants", _without_constants(*(parts for _, parts in rows))


def _compiled_rows(document: Mapping[str, Any]) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("best", "best"), (baseline_name(document), "baseline")


def _parts(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{part} {value:.1f}" for part, value in parts.items())


def _without_constants(best: Mapping[str, float], baseline: Mapping[str, float]) -> str:
    """Return the gain in compile time that is of passes: the time to evaluate constants is left out on both sides."""
    best_s, baseline_s = (sum(value for part, value in row.items() if part != CONSTANTS) for row in (best, baseline))
    return f"{baseline_s:.1f} s against {best_s:.1f} s, {baseline_s / best_s:.2f} times"


def setup_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield titles and texts on the network, the target, the device and the toolchain."""
    model = document.get("model") or {}
    yield "network", f"{_text(model, 'name')}, batch {format_count(model.get('batch'))} ({_text(model, 'source')})"
    yield from _tuned_functions(model)
    for architecture_class in document.get("classes") or []:
        yield "class", f"{_text(architecture_class, 'name')} ({_class_evidence(architecture_class)})"
    yield "target", _text(document, "target")
    yield "device", device_text(document.get("device") or {})
    if document.get("measured_at"):
        yield "date", format_time(document["measured_at"])
    # A comparison may have several toolchains, a result has exactly one.
    for toolchain in document.get("toolchains") or [document.get("toolchain") or {}]:
        yield "toolchain", _toolchain(toolchain)


def _class_evidence(architecture_class: Mapping[str, Any]) -> str:
    """Return why a network belongs to a class; what it lacks for every other one is in the analysis."""
    if _text(architecture_class, "name") == UNKNOWN_CLASS:
        return "every valid pass is searched; `passsearch analyze` says what each class needs"
    return "; ".join(architecture_class.get("evidence") or []) or MISSING


def _tuned_functions(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what of the network was tuned, where it has more than a ``main`` of one size."""
    cases, others = model.get("cases") or [], model.get("other_functions") or []
    if cases:
        yield "cases", ", ".join(f"{case['name']} ({format_percent(case['weight'])} of the calls)" for case in cases)
    elif others or model.get("function") not in (None, "main"):
        yield "function", _text(model, "function")
    if others:
        yield "not tuned", f"{', '.join(others)} (in the same file; --function NAME tunes another)"


def _case_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the winner gains in each case; the table has the mean over the cases."""
    for case in document.get("cases") or []:
        best, baseline = (format_latency_ms({"latency_s": case[key]}) for key in ("latency_s", "baseline_latency_s"))
        ratio = case[THROUGHPUT.name]
        gain = f"{format_ratio(ratio)} times the throughput, {best} ms against {baseline} ms"
        yield f"case {case['name']}", gain if ratio else "not confirmed"


def evidence_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield titles and texts on how the result was measured and how the search went."""
    yield from _case_lines(document)
    if lookup(document, "verdict", "repetitions"):
        yield "evidence", _evidence(document)
        yield from _estimators(document)
    if lookup(document, "best", "outputs"):
        yield "outputs", _outputs(document["best"]["outputs"])
        yield from _reference(document.get("reference"))
        yield from special_lines(document["best"]["outputs"])
    yield from _input_lines(lookup(document, "model", "inputs") or {})
    note = recalled_note(document)
    if note:
        yield "*", note
    note = load_note(document)
    if note:
        yield f"latency {MISSING}", note
    yield "space", _space(document.get("space") or {})
    if lookup(document, "space", "idle"):
        yield "passes without effect", f"{', '.join(document['space']['idle'])} (applied, but no IR changed)"
    if lookup(document, "space", "untried"):
        names = ", ".join(document["space"]["untried"])
        yield "passes not tried", f"{names} (the search ended before; give it more --trials or --timeout)"
    yield from kernel_lines(document)
    yield from failure_lines(document)
    if document.get("seconds"):
        yield "seconds", _seconds(document["seconds"])
    yield from _unavailable(lookup(document, "best", "unavailable") or {})
    if document.get("interrupted"):
        yield "interrupted", "this is the result so far; the same command continues the run"


def special_lines(outputs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what became of values that are NaN or infinite in the reference, by edge input."""
    for key, verb in (("dropped", "drops"), ("spread", "adds")):
        counts = outputs.get(key) or {}
        if counts:
            cases = ", ".join(f"{count} on inputs `{case}`" for case, count in counts.items())
            same = _same_in_import(outputs) if key == "dropped" else ""
            yield "not finite", f"best {verb} values that are NaN or infinite: {cases}{same}"


def _same_in_import(outputs: Mapping[str, Any]) -> str:
    """Return that the import drops as many values, and by which operators; empty if it does not."""
    if not outputs.get("dropped_by_import"):
        return ""
    operators = ", ".join(outputs.get("dropped_by") or ())
    return ", as the import does without passes" + (f" ({operators})" if operators else "")


def _input_lines(inputs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the inputs on which outputs were compared with the values 0 and 1 only."""
    unknown = [name for name, kind in inputs.items() if lookup(kind, "range", "source") == UNKNOWN]
    if unknown:
        yield "inputs", f"only 0 and 1 were tried for {', '.join(unknown)}; give others by --samples FILE.npz"


def failure_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the failed candidates by kind, and the folders that reproduce wrong results."""
    yield "failures", _failures(document)
    for reproducer in document.get("reproducers") or []:
        yield "reproducer", f"{', '.join(reproducer['passes'])} in {reproducer['folder']}: {reproducer['reason']}"


def _table(document: Mapping[str, Any], rows: list[Row], *, width: int) -> str:
    titles = column_titles(document)
    return table(titles, [row.cells(document) for row in rows], width=width, right=titles[1:])


def _levels(document: Mapping[str, Any], width: int) -> str:
    rows = level_rows(document)
    return f"{levels_title(document)}:\n{_table(document, rows, width=width)}" if rows else ""


def _pareto_front(document: Mapping[str, Any], width: int) -> str:
    rows = front_rows(document)
    if not rows:
        return ""
    pipelines = [(row.label, format_pipeline(row.measurement)) for row in rows]
    return "\n".join([f"{FRONT_TITLE}:", _table(document, rows, width=width), paragraph_lines(pipelines, width=width)])


def _text(document: Mapping[str, Any], key: str) -> str:
    """Return one field of a document or of a part of it as text, ``MISSING`` if it is empty."""
    return str(document.get(key) or MISSING)


def _toolchain(toolchain: Mapping[str, Any]) -> str:
    versions = f"TVM {_text(toolchain, 'tvm_version')}, Python {_text(toolchain, 'python')}"
    return f"{_text(toolchain, 'name')}, {_text(toolchain, 'dialect')}, {versions}"


def device_text(device: Mapping[str, Any]) -> str:
    """Return name, cores and memory of a device."""
    cores = f", {device['cores']} cores" if device.get("cores") else ""
    memory = f", {device['memory_bytes'] / 1e9:.1f} GB" if device.get("memory_bytes") else ""
    return f"{_text(device, 'name')}{cores}{memory}"


def _evidence(document: Mapping[str, Any]) -> str:
    """Return how the ratios were measured: those of the winner are confirmed, those of other rows are not."""
    verdict = document["verdict"]
    compiles, level = f"{verdict['repetitions']} fresh compiles each", format_percent(verdict.get("level"))
    baseline, processes = baseline_name(document), verdict.get("processes")
    # Zero processes: the target cannot run on this machine, so only compile time was measured.
    if processes == 0:
        return f"best and {baseline}: {compiles}, nothing was run, intervals at {level}; other rows: one compile"
    count = f"{processes} new processes" if processes else "new processes"
    return (
        f"best and {baseline}: {compiles}, timed side by side in {count}{_sequence_evidence(document)}, intervals at "
        f"{level}; other rows: ratios to {baseline} as the search measured it{_search_baseline(document)}"
    )


def _sequence_evidence(document: Mapping[str, Any]) -> str:
    """Return in how many processes the winner was timed beside the best sequence, or by itself."""
    number, sequence = lookup(document, "best", "latency_s", "processes"), document.get("sequence")
    if lookup(sequence, "gain", "interval"):
        name = lookup(sequence, "name")
        return f", best and {name} in {format_count(number)} ({name} as the search built it, so without compile time)"
    # Beside a slow baseline the winner has few runs, so it has processes of its own.
    return f", best in {format_count(number)}" if number != lookup(document, "verdict", "processes") else ""


def _search_baseline(document: Mapping[str, Any]) -> str:
    """Return the baseline's measurement from the search, to which the unconfirmed rows are relative."""
    row = find_by_name(document.get("baselines") or [], baseline_name(document))
    return f" ({format_latency_ms(row)} ms, compiled in {format_number(row.get('compile_s'))} s)" if row else ""


def _estimators(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield both estimates of the throughput ratio where they contradict each other."""
    ratios = document.get("ratios")
    text = contradiction_text(lookup(ratios, THROUGHPUT.name), lookup(ratios, "throughput_of_medians"))
    if text:
        yield "estimators", text


def contradiction_text(fastest: Mapping[str, Any] | None, ordinary: Mapping[str, Any] | None) -> str:
    """Return two estimates of one ratio if their intervals have nothing in common, else an empty text."""
    ends = lookup(fastest, "interval"), lookup(ordinary, "interval")
    if all(ends) and (ends[0][0] > ends[1][1] or ends[1][0] > ends[0][1]):
        return f"throughput by fastest runs {format_ratio(fastest)}, by medians {format_ratio(ordinary)}"
    return ""


def _reference(reference: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield what outputs were compared with; nothing for a result from before it was recorded."""
    if reference is None:
        return
    if reference["runtime"]:
        yield "compared with", f"what {reference['runtime']} computes ({reference['seconds']:.2g} s)"
    else:
        reason = reference["reason"]
        yield (
            "compared with",
            f"the import, built without passes; that it is the source's network is unproven: {reason}",
        )


def _outputs(outputs: Mapping[str, Any]) -> str:
    if outputs["deviation"] is None:
        return f"not compared: {lookup(outputs, 'unavailable', 'deviation') or MISSING}"
    deviation = (
        f"best deviates by {outputs['deviation']:.2g} of the largest value, {outputs['tolerance']:.2g} is allowed"
    )
    reason = lookup(outputs, "unavailable", "top1_agreement")
    agreement = format_percent(outputs.get("top1_agreement")) + (f" ({reason})" if reason else "")
    cases = outputs.get("cases")  # results from before it was recorded do not say
    inputs = f" on {cases} {'input' if cases == 1 else 'inputs'}" if cases else ""
    unstable = "".join(
        f"; on inputs `{case}`, where rounding changes the reference itself, by {found['deviation']:.2g} of "
        f"{found['tolerance']:.2g}"
        for case, found in outputs.get("unstable", {}).items()
    )
    return f"{deviation}{inputs}{unstable}; top-1 agreement: {agreement}"


def _space(space: Mapping[str, Any]) -> str:
    titles = {
        "sequences_asked": "sequences proposed",
        "states": "states",
        "states_measured": "measured",
        "binaries": "binaries",
        "duplicates": "duplicates",
        "invalid": "invalid",
    }
    counts = ", ".join(f"{format_count(space.get(key))} {title}" for key, title in titles.items())
    if space.get("closed") is None:
        return counts
    reason = f"; search ended: {space['ended']}" if space.get("ended") else ""
    return f"{counts}; {_closed(space)}{reason}"


def _closed(space: Mapping[str, Any]) -> str:
    if space["closed"]:
        return "closed: no untried sequence can produce another IR"
    excluded = ", ".join(space.get("closed_without", ()))
    return f"closed only without {excluded}" if excluded else "not closed"


def _failures(document: Mapping[str, Any]) -> str:
    counts = document.get("failures") or {}
    if not counts:
        return "none"
    # Reversed, so that of several failures of one kind the first overwrites the later ones.
    examples = {failure.get("kind"): failure for failure in reversed(document.get("failed") or [])}
    return "; ".join(_failure_kind(kind, count, example=examples.get(kind)) for kind, count in sorted(counts.items()))


def _failure_kind(kind: str, count: int, *, example: Mapping[str, Any] | None) -> str:
    if not example:
        return f"{count} {kind}"
    return f"{count} {kind} ({'first ' if count > 1 else ''}{_place_and_reason(example)})"


def failure_text(failure: Mapping[str, Any]) -> str:
    """Return kind, place and reason of a failure."""
    return f"{_text(failure, 'kind')} {_place_and_reason(failure)}"


def _place_and_reason(failure: Mapping[str, Any]) -> str:
    place = " of ".join(str(failure[key]) for key in ("stage", "step") if failure.get(key))
    return f"in {place or MISSING}: {_text(failure, 'reason')}"


def _seconds(seconds: Mapping[str, float]) -> str:
    total = seconds.get("total")
    stages = [
        f"{stage} {stage_s:.1f}" + (f" ({format_percent(stage_s / total)})" if total else "")
        for stage, stage_s in seconds.items()
        if stage != "total"
    ]
    return ", ".join([*stages, f"total {format_number(total)}"])


def _unavailable(reasons: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield one line per reason, with the metrics it made unavailable."""
    for reason in dict.fromkeys(reasons.values()):
        metrics = ", ".join(metric for metric, metric_reason in reasons.items() if metric_reason == reason)
        yield "not available", f"{metrics} ({reason})"
