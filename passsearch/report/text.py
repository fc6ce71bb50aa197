"""Results as text for a terminal."""

from collections.abc import Iterator, Mapping

from passsearch.core import CONSTANTS, UNKNOWN, UNKNOWN_CLASS
from passsearch.objectives import THROUGHPUT
from passsearch.report.bits import bits_lines
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
    is_beyond,
)
from passsearch.report.headline import headline_text
from passsearch.report.precision import precision_lines
from passsearch.report.rivals import rival_lines
from passsearch.report.rows import (
    Row,
    all_rows,
    column_titles,
    front_rows,
    level_rows,
    levels_title,
    load_note,
    recalled_note,
    result_rows,
    search_baseline,
)
from passsearch.report.sequence import sequence_text
from passsearch.report.table import paragraph, paragraph_lines, table, text_width
from passsearch.report.verdict import rejected_lines, verdict_text, warning_lines
from passsearch.results import (
    Candidate,
    ClassLabel,
    Comparison,
    Compiler,
    Device,
    Input,
    Model,
    Outputs,
    Reference,
    RunResult,
    SearchedSpace,
    StatedFailure,
    StatedRatio,
    contradicts,
)

SOURCES = {
    "baseline": "nobody: it is the baseline {name}",
    "sequence": "the catalog, as the sequence {name}, without passes that leave the IR as it is here",
    "composition": "the search, which decided on each region and kernel by the times of kernels",
    "explored state": "the search, among the states it explored (sampler {name})",
    "sampler": "the search's sampler {name}",
}
"""Sentences on the source of a winner, by its kind."""

FRONT_TITLE = "Pareto front: no other candidate is better in every objective (the search's own measurements)"


def result_text(result: RunResult, *, width: int | None = None) -> str:
    """Return a run's result: the gain in a sentence, network and device, a table, the verdict, the evidence.

    Args:
        result: The result.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    outcome = [("best", format_pipeline(result.best)), *attribution_lines(result)]
    outcome += [("verdict", verdict_text(result)), *rejected_lines(result), *warning_lines(result)]
    outcome += rival_lines(result.rivals)
    parts = [
        paragraph("", headline_text(result), width=width),
        paragraph_lines(setup_lines(result), width=width),
        _table(result, result_rows(result), width=width),
        _levels(result, width),
        paragraph_lines(outcome, width=width),
        _pareto_front(result, width),
        paragraph_lines(evidence_lines(result), width=width),
    ]
    return "\n\n".join(part for part in parts if part)


def candidate_text(candidate: Candidate) -> str:
    """Return one measured candidate in one line: its pipeline, latency and compile time."""
    latency, compile_s = format_latency_ms(candidate.latency_s), format_number(candidate.compile_s)
    return f"{format_pipeline(candidate)}: {latency} ms an inference, compiled in {compile_s} s"


def attribution_lines(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield who proposed the winner, what it gains over the catalog, and what compile times are spent on."""
    if source := result.best.source:
        yield "found by", SOURCES[source.kind].format(name=source.name)
    if sequence_text(result):
        yield "gain of the search", sequence_text(result)
    best, baseline = result.best.compile_parts_s, result.baseline.compile_parts_s
    if best and baseline:
        yield "compile seconds", f"best: {_parts(best)}; {result.baseline_name}: {_parts(baseline)}"
        yield "without constants", _without_constants(best, baseline)


def _parts(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{part} {value:.1f}" for part, value in parts.items())


def _without_constants(best: Mapping[str, float], baseline: Mapping[str, float]) -> str:
    """Return the gain in compile time that is of passes: the time to evaluate constants is left out on both sides."""
    best_s, baseline_s = (sum(value for part, value in row.items() if part != CONSTANTS) for row in (best, baseline))
    return f"{format_number(baseline_s)} s against {format_number(best_s)} s, {baseline_s / best_s:.2f} times"


def setup_lines(document: RunResult | Comparison) -> Iterator[tuple[str, str]]:
    """Yield titles and texts on the network, the target, the device and the toolchain."""
    model = document.model
    yield "network", f"{model.name or MISSING}, batch {format_count(model.batch)} ({model.source or MISSING})"
    yield from _tuned_functions(model)
    for architecture_class in () if isinstance(document, Comparison) else document.classes:
        yield "class", f"{architecture_class.name or MISSING} ({_class_evidence(architecture_class)})"
    yield "target", document.target or MISSING
    yield "device", device_text(document.device)
    if document.measured_at:
        yield "date", format_time(document.measured_at)
    # A comparison may have several toolchains, a result has exactly one.
    several = document.toolchains if isinstance(document, Comparison) else ()
    for toolchain in several or [document.toolchain]:
        yield "toolchain", _toolchain(toolchain)


def _class_evidence(architecture_class: ClassLabel) -> str:
    """Return why a network belongs to a class; what it lacks for every other one is in the analysis."""
    if architecture_class.name == UNKNOWN_CLASS:
        return "every valid pass is searched; `passsearch analyze` says what each class needs"
    return "; ".join(architecture_class.evidence) or MISSING


def _tuned_functions(model: Model) -> Iterator[tuple[str, str]]:
    """Yield what of the network was tuned, where it has more than a ``main`` of one size."""
    others = model.other_functions
    if model.cases:
        cases = [f"{case.name} ({format_percent(case.weight)} of the calls)" for case in model.cases]
        yield "cases", ", ".join(cases)
    elif others or model.function not in (None, "main"):
        yield "function", model.function or MISSING
    if others:
        yield "not tuned", f"{', '.join(others)} (in the same file; --function NAME tunes another)"


def _case_lines(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield what the winner gains in each case; the table has the mean over the cases."""
    for case in result.cases:
        best, baseline = map(format_latency_ms, (case.latency_s, case.baseline_latency_s))
        gain = f"{format_ratio(case.throughput)} times the throughput, {best} ms against {baseline} ms"
        yield f"case {case.name}", gain if case.throughput else "not confirmed"


def evidence_lines(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield titles and texts on how the result was measured and how the search went."""
    yield from _case_lines(result)
    if result.verdict.repetitions:
        yield "evidence", _evidence(result)
        yield from _estimators(result)
    if outputs := result.best.outputs:
        yield "outputs", _outputs(outputs)
        yield from _reference(result.reference)
        yield from special_lines(outputs)
    yield from bits_lines(result)
    yield from _input_lines(result.model.inputs or {})
    if note := recalled_note(result):
        yield "*", note
    if note := load_note(all_rows(result)):
        yield f"latency {MISSING}", note
    yield "space", _space(result.space)
    if result.space.idle:
        yield "passes without effect", f"{', '.join(result.space.idle)} (applied, but no IR changed)"
    if names := ", ".join(result.space.untried):
        yield "passes not tried", f"{names} (the search ended before; give it more --trials or --timeout)"
    yield from kernel_lines(result)
    yield from precision_lines(result.precision)
    yield from failure_lines(result)
    if result.seconds:
        yield "seconds", _seconds(result.seconds)
    yield from _unavailable(result.best.unavailable or {})
    if result.interrupted:
        yield "interrupted", "this is the result so far; the same command continues the run"


def special_lines(outputs: Outputs) -> Iterator[tuple[str, str]]:
    """Yield what became of values that are NaN or infinite in the reference, by edge input."""
    same = _same_in_import(outputs)
    for counts, verb, end in ((outputs.dropped, "drops", same), (outputs.spread, "adds", "")):
        if counts:
            cases = ", ".join(f"{count} on inputs `{case}`" for case, count in counts.items())
            yield "not finite", f"best {verb} values that are NaN or infinite: {cases}{end}"


def _same_in_import(outputs: Outputs) -> str:
    """Return, in words, that the import alone drops as many NaN, and by which operators; empty if it does not."""
    if not outputs.dropped_by_import:
        return ""
    operators = ", ".join(outputs.dropped_by)
    return ", as the import does without passes" + (f" ({operators})" if operators else "")


def _input_lines(inputs: Mapping[str, Input]) -> Iterator[tuple[str, str]]:
    """Yield the inputs on which outputs were compared with the values 0 and 1 only."""
    unknown = [name for name, kind in inputs.items() if kind.range and kind.range.source == UNKNOWN]
    if unknown:
        yield "inputs", f"only 0 and 1 were tried for {', '.join(unknown)}; give others by --samples FILE.npz"


def failure_lines(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield the failed candidates by kind, and the folders that reproduce wrong results."""
    yield "failures", _failures(result)
    for reproducer in result.reproducers:
        yield "reproducer", f"{', '.join(reproducer.passes)} in {reproducer.folder}: {reproducer.reason}"


def _table(result: RunResult, rows: list[Row], *, width: int) -> str:
    titles = column_titles(result)
    return table(titles, [row.cells(result) for row in rows], width=width, right=titles[1:])


def _levels(result: RunResult, width: int) -> str:
    rows = level_rows(result)
    return f"{levels_title(result)}:\n{_table(result, rows, width=width)}" if rows else ""


def _pareto_front(result: RunResult, width: int) -> str:
    rows = front_rows(result)
    if not rows:
        return ""
    pipelines = [(row.label, format_pipeline(row.candidate)) for row in rows]
    return "\n".join([f"{FRONT_TITLE}:", _table(result, rows, width=width), paragraph_lines(pipelines, width=width)])


def _toolchain(toolchain: Compiler) -> str:
    versions = f"TVM {toolchain.tvm_version or MISSING}, Python {toolchain.python or MISSING}"
    return f"{toolchain.name or MISSING}, {toolchain.dialect or MISSING}, {versions}"


def device_text(device: Device) -> str:
    """Return name, cores and memory of a device."""
    cores = f", {device.cores} cores" if device.cores else ""
    memory = f", {device.memory_bytes / 1e9:.1f} GB" if device.memory_bytes else ""
    return f"{device.name or MISSING}{cores}{memory}"


def _evidence(result: RunResult) -> str:
    """Return how the ratios were measured: those of the winner are confirmed, those of other rows are not."""
    verdict = result.verdict
    compiles, level = f"{verdict.repetitions} fresh compiles each", format_percent(verdict.level)
    baseline, processes = result.baseline_name, verdict.processes
    # Zero processes: the target cannot run on this machine, so only compile time was measured.
    has_others = bool(level_rows(result) or front_rows(result))
    if processes == 0:
        others = "; other rows: one compile" if has_others else ""
        return f"best and {baseline}: {compiles}, nothing was run, intervals at {level}{others}"
    count = f"{processes} new processes" if processes else "new processes"
    others = f"; other rows: ratios to {baseline} as the search measured it{_search_baseline(result)}"
    return (
        f"best and {baseline}: {compiles}, timed side by side in {count}{_sequence_evidence(result)}, intervals at "
        f"{level}{others if has_others else ''}"
    )


def _sequence_evidence(result: RunResult) -> str:
    """Return in how many processes the winner was timed beside the best sequence, or by itself."""
    latency, sequence = result.best.latency_s, result.sequence
    number = latency.processes if latency else None
    if sequence and sequence.is_timed:
        name = sequence.name
        return f", best and {name} in {format_count(number)} ({name} as the search built it, so without compile time)"
    # Beside a slow baseline the winner has few runs, so it has processes of its own.
    return f", best in {format_count(number)}" if number != result.verdict.processes else ""


def _search_baseline(result: RunResult) -> str:
    """Return the baseline's measurement from the search, to which the unconfirmed rows are relative."""
    row = search_baseline(result)
    return f" ({format_latency_ms(row.latency_s)} ms, compiled in {format_number(row.compile_s)} s)" if row else ""


def _estimators(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield both estimates of the throughput ratio where they, or the latencies in the table, contradict it."""
    fastest, ordinary = result.ratio_of(THROUGHPUT.name), result.ratio_of("throughput_of_medians")
    if text := contradiction_text(fastest, ordinary):
        yield "estimators", text
    elif ordinary and contradicts(result.baseline, result.best, fastest):
        medians = f"by medians, as the latencies are, {format_ratio(ordinary)}"
        yield "estimators", f"throughput by fastest runs {format_ratio(fastest)}, {medians}"


def contradiction_text(fastest: StatedRatio | None, ordinary: StatedRatio | None) -> str:
    """Return two estimates of one ratio if their intervals have nothing in common, else an empty text."""
    first, second = (ratio.interval if ratio and ratio.interval else (None, None) for ratio in (fastest, ordinary))
    if is_beyond(first, second) or is_beyond(second, first):
        return f"throughput by fastest runs {format_ratio(fastest)}, by medians {format_ratio(ordinary)}"
    return ""


def _reference(reference: Reference | None) -> Iterator[tuple[str, str]]:
    """Yield what outputs were compared with; nothing for a result from before it was recorded."""
    if reference is None:
        return
    if reference.runtime:
        yield "compared with", f"what {reference.runtime} computes ({reference.seconds:.2g} s)"
    else:
        yield (
            "compared with",
            f"the import, built without passes; that it is the source's network is unproven: {reference.reason}",
        )


def _outputs(outputs: Outputs) -> str:
    reasons = outputs.unavailable or {}
    if outputs.deviation is None:
        return f"not compared: {reasons.get('deviation') or MISSING}"
    deviation = f"best deviates by {outputs.deviation:.2g} of the largest value, {outputs.tolerance:.2g} is allowed"
    reason = reasons.get("top1_agreement")
    agreement = format_percent(outputs.top1_agreement) + (f" ({reason})" if reason else "")
    cases = outputs.cases  # results from before it was recorded do not say
    inputs = f" on {cases} {'input' if cases == 1 else 'inputs'}" if cases else ""
    unstable = "".join(
        f"; on inputs `{case}`, where rounding changes the reference itself, by {found.deviation:.2g} of "
        f"{found.tolerance:.2g}"
        for case, found in (outputs.unstable or {}).items()
    )
    return f"{deviation}{inputs}{unstable}; top-1 agreement: {agreement}"


def _space(space: SearchedSpace) -> str:
    asked, states = space.sequences_asked, space.states
    titles = {
        "sequence proposed" if asked == 1 else "sequences proposed": asked,
        "state" if states == 1 else "states": states,
        "measured": space.states_measured,
        "binary" if space.binaries == 1 else "binaries": space.binaries,
        "duplicate" if space.duplicates == 1 else "duplicates": space.duplicates,
        "invalid": space.invalid,
    }
    counts = ", ".join(f"{format_count(number)} {title}" for title, number in titles.items())
    if space.closed is None:
        return counts
    reason = f"; search ended: {space.ended}" if space.ended else ""
    return f"{counts}; {_closed(space)}{reason}"


def _closed(space: SearchedSpace) -> str:
    if space.closed:
        return "closed: no untried sequence can produce another IR"
    excluded = ", ".join(space.closed_without)
    return f"closed only without {excluded}" if excluded else "not closed"


def _failures(result: RunResult) -> str:
    counts = result.failures
    if not counts:
        return "none"
    # Reversed, so that of several failures of one kind the first overwrites the later ones.
    examples = {failure.kind: failure for failure in reversed(result.failed)}
    return "; ".join(_failure_kind(kind, count, example=examples.get(kind)) for kind, count in sorted(counts.items()))


def _failure_kind(kind: str, count: int, *, example: StatedFailure | None) -> str:
    if not example:
        return f"{count} {kind}"
    return f"{count} {kind} ({'first ' if count > 1 else ''}{_place_and_reason(example)})"


def failure_text(failure: StatedFailure) -> str:
    """Return kind, place and reason of a failure."""
    return f"{failure.kind or MISSING} {_place_and_reason(failure)}"


def _place_and_reason(failure: StatedFailure) -> str:
    place = " of ".join(text for text in (failure.stage, failure.step) if text)
    return f"in {place or MISSING}: {failure.reason or MISSING}"


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
