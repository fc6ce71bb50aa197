"""What got slower between two engines, versions or pipelines, to the kernel and to the pass."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from passsearch.engines import (
    EngineFailure,
    EngineRecord,
    EngineSpec,
    EngineTiming,
    KernelCall,
    by_process,
    engine_row,
    fastest_calls,
    throughput_ratio,
)
from passsearch.errors import EnvironmentFault, PassSearchError, UserError
from passsearch.measure import mean_ratio
from passsearch.results import (
    Exchange,
    MeanLatency,
    RegressionSide,
    StatedRatio,
)
from passsearch.studies.regression_kernels import kernel_differences
from passsearch.studies.regression_records import (
    AFTER,
    BEFORE,
    RACE_S,
    RegressionFindings,
    RegressionQuestion,
    Variant,
)

PROCESSES, LEAST_PROCESSES, ROUNDS = 6, 3, 6
"""Processes of each side, fewest of them in a short time, and rounds in each."""

FIRST_SHARE = 0.3
"""Share of the time for the first measurement, after which no process begins if there are ``LEAST_PROCESSES``."""

KERNEL_PROCESSES, KERNEL_RUNS = 3, 10
"""Processes in which the profilers run, and inferences in each."""

EXCHANGE_PROCESSES, EXCHANGE_ROUNDS, EXCHANGE_GROUP = 3, 4, 4
"""Processes in which exchanges run, rounds in each, and exchanges beside each other: a group that is timed is kept."""

_log = logging.getLogger(__name__)


def find_regression(question: RegressionQuestion) -> RegressionFindings:
    """Measure both sides, and where the second is certainly slower, find the kernel and the exchange.

    A slowdown is certain if the intervals of the ratio by the fastest inferences and by the medians lie above the
    threshold, and do so again in as many further processes, which were not used to choose.

    Raises:
        UserError: The first side has no result, or no reference takes the network.
        EnvironmentFault: A signal from outside ended a process.
    """
    first, second = question.specs
    specs = [each for each in question.specs if isinstance(each, EngineSpec)]
    findings = RegressionFindings(_measured(question, specs))
    before = findings.records[BEFORE]
    _require_result(question, findings.records)
    if isinstance(second, str):
        findings.fail(second)
        return findings
    if failure := findings.records[AFTER].failure:
        findings.fail(failure)
        return findings
    after = findings.records[AFTER]
    findings.ratios = _all_ratios(before, after)
    slowdown = [findings.ratios["fastest"], findings.ratios["medians"]]
    if _is_same(first, second):
        # What is one binary is equally fast, so a difference that was read is noise.
        findings.no_kernels = findings.no_exchanges = "both sides are the same binary in the same runtime"
        findings.remarks = ("both sides are the same binary in the same runtime, so a difference is noise",)
    elif all(_above(ratio, 1 + question.threshold) for ratio in slowdown):
        _confirm(question, findings, [first, second])
    elif all(_below(ratio, 1 / (1 + question.threshold)) for ratio in slowdown):
        findings.verdict = "faster"
    return findings


def _is_same(first: EngineSpec, second: EngineSpec) -> bool:
    """Return whether both sides are one binary, run by one interpreter: another runtime may be slower with it."""
    binaries = [each.about.get("binary") for each in (first, second)]
    return bool(binaries[0]) and binaries[0] == binaries[1] and first.python == second.python


def _confirm(question: RegressionQuestion, findings: RegressionFindings, specs: Sequence[EngineSpec]) -> None:
    """Measure again in new processes, and look for the reason where the slowdown is certain."""
    timing = _measured(question, specs, processes=findings.processes)
    again = {each.spec.name: each for each in timing.comparison.records}
    _require_result(question, again)
    if failure := again[AFTER].failure:
        findings.fail(f"{failure}, in a later process")
        return
    findings.confirmation = _time_ratios(again[BEFORE], again[AFTER])
    if all(_above(ratio, 1 + question.threshold) for ratio in findings.confirmation.values()):
        findings.verdict = "slower"
        _explain(question, findings, specs)


def _explain(question: RegressionQuestion, findings: RegressionFindings, specs: Sequence[EngineSpec]) -> None:
    """Look for the kernels and the exchange; the verdict stays, whatever fails here."""
    findings.no_kernels = findings.no_exchanges = "the command was interrupted"
    try:
        findings.no_kernels = _reason(lambda: _find_kernels(question, findings, specs))
        findings.no_exchanges = _reason(lambda: _find_exchange(question, findings, specs))
    except KeyboardInterrupt:
        _log.warning("interrupted; the result has what is known")


def _reason(find: Callable[[], str]) -> str:
    try:
        return find()
    except (EngineFailure, PassSearchError, OSError) as error:
        return str(error)


def _require_result(question: RegressionQuestion, records: Mapping[str, EngineRecord]) -> None:
    if accident := next((each for each in records.values() if each.is_accident), None):
        raise EnvironmentFault(f"The measurement failed: {accident.failure}; run the same command again.")
    for name, text in zip((BEFORE, AFTER), question.names, strict=True):
        if name in records and records[name].is_mistake:
            raise UserError(f"`{text}`: {records[name].failure}.")
    if failure := records[BEFORE].failure:
        raise UserError(f"`{question.names[0]}` has no result to compare with: {failure}.")


def _measured(question: RegressionQuestion, specs: Sequence[EngineSpec], *, processes: int = 0) -> EngineTiming:
    """Return the timing of both sides in several processes; fewer where the time limit is short.

    Args:
        question: The question.
        specs: The sides.
        processes: Processes of the second measurement, whatever the time limit; 0 for the first one.
    """
    begin_s, seed = question.time_limit.left_s(), 1 if processes else 0
    timing = question.timing(specs, question.plan(processes=processes or PROCESSES, rounds=ROUNDS, seed=seed))
    for process in range(processes or PROCESSES):
        used_s = begin_s - question.time_limit.left_s()
        is_late = process >= LEAST_PROCESSES and used_s + used_s / process > FIRST_SHARE * begin_s
        if is_late and not processes:
            break
        question.progress("measuring again" if processes else "measuring", process, processes or PROCESSES)
        try:
            timing.run_process()
        except EngineFailure as error:
            if error.is_accident or seed:
                raise EnvironmentFault(f"The reference failed: {error}; run the same command again.") from error
            raise UserError(f"No reference takes this network, the last one failed: {error}.") from error
        # One side alone is only asked whether it has a result.
        if len(specs) == 1 or any(record.failure for record in timing.comparison.records):
            break
    return timing


def _time_ratios(before: EngineRecord, after: EngineRecord) -> dict[str, StatedRatio]:
    # The throughput of the first as a multiple of the second's is the time of the second over the first's.
    ratios = throughput_ratio(after, before)
    return {name: StatedRatio.from_json(ratios[f"by {name}"]) for name in ("fastest", "medians")}


def _all_ratios(before: EngineRecord, after: EngineRecord) -> dict[str, StatedRatio | None]:
    loads = [[float(answer["open_s"]) for answer in each.opened] for each in (before, after)]
    sizes = [[float(size) for size in each.memory_bytes] for each in (before, after)]
    further = {"load": _ratio(*loads), "memory_bytes": _ratio(*sizes)}
    return {**_time_ratios(before, after), **further}


def _ratio(before: Sequence[float], after: Sequence[float]) -> StatedRatio | None:
    pairs = [(one, other) for one, other in zip(before, after, strict=False) if one > 0 and other > 0]
    if not pairs:
        return None
    return StatedRatio.from_json(mean_ratio([math.log(other / one) for one, other in pairs]).to_json())


def _above(ratio: StatedRatio | None, value: float) -> bool:
    return bool(ratio and ratio.interval and ratio.interval[0] is not None and ratio.interval[0] > value)


def _below(ratio: StatedRatio | None, value: float) -> bool:
    return bool(ratio and ratio.interval and ratio.interval[1] is not None and ratio.interval[1] < value)


def _fastest_s(record: EngineRecord) -> float:
    return median(by_process(record)[1])


def _find_kernels(question: RegressionQuestion, findings: RegressionFindings, specs: Sequence[EngineSpec]) -> str:
    """Run the profilers of both sides, in several processes, and match their kernels; return why there are none."""
    runs: dict[str, list[list[KernelCall]]] = {BEFORE: [], AFTER: []}
    for process in range(KERNEL_PROCESSES):
        if process and question.time_limit.is_over:
            break
        question.progress("timing kernels", process, KERNEL_PROCESSES)
        plan = question.plan(processes=1, rounds=1, seed=10 + process, kernel_runs=KERNEL_RUNS)
        timing = question.timing(specs, plan)
        timing.run_process()
        for record in timing.comparison.records:
            reason = record.failure or record.no_kernels
            if reason or not record.kernels:
                name = question.names[record.spec.name == AFTER]
                return f"`{name}` shows no kernels: {reason or 'its profiler lists none'}"
            runs[record.spec.name].append(record.kernels)
    before, after = (_typical_calls(runs[name]) for name in (BEFORE, AFTER))
    slower_s = _fastest_s(findings.records[AFTER]) - _fastest_s(findings.records[BEFORE])
    findings.kernels = kernel_differences(before, after, whole_s=slower_s)
    findings.outside_s = slower_s - math.fsum(each.difference_s for each in findings.kernels)
    return ""


def _typical_calls(runs: Sequence[list[KernelCall]]) -> list[KernelCall]:
    """Return the fastest calls of several processes; those of the last where they made different ones."""
    names = [[call.name for call in calls] for calls in runs]
    return fastest_calls(runs) if all(each == names[0] for each in names) else list(runs[-1])


def _find_exchange(question: RegressionQuestion, findings: RegressionFindings, specs: Sequence[EngineSpec]) -> str:
    """Build the second side with one thing of the first at a time, and time some of them beside both sides.

    Returns:
        Why there are no exchanges; empty if there are some.
    """
    rows: list[Exchange] = []
    for begin in range(0, len(question.variants), EXCHANGE_GROUP):
        rows += _exchange_rows(question, specs, begin=begin)
        findings.exchanges = tuple(sorted(rows, key=lambda row: -(row.explained or -math.inf)))
    return "" if rows else question.no_variants


def _exchange_rows(question: RegressionQuestion, specs: Sequence[EngineSpec], *, begin: int) -> list[Exchange]:
    """Build and time the exchanges of one group."""
    group = dict(list(enumerate(question.variants))[begin : begin + EXCHANGE_GROUP])
    built, failures = _built(question, group)
    plan = question.plan(processes=EXCHANGE_PROCESSES, rounds=EXCHANGE_ROUNDS, seed=20 + begin)
    timing = question.timing([*specs, *built.values()], plan)
    for process in range(EXCHANGE_PROCESSES if built else 0):
        question.progress("timing exchanges", begin, len(question.variants))
        try:
            timing.run_process()
        except EngineFailure as error:  # of the reference
            if not process:
                failures |= dict.fromkeys(built, str(error))
            break
    records = {record.spec.name: record for record in timing.comparison.records}
    return [
        _failed_row(variant, failures[number]) if number in failures else _exchange_row(variant, records, built[number])
        for number, variant in group.items()
    ]


def _built(question: RegressionQuestion, group: Mapping[int, Variant]) -> tuple[dict[int, EngineSpec], dict[int, str]]:
    """Return the engines of some exchanges by number, or why there are none; the time limit bounds their number."""
    built: dict[int, EngineSpec] = {}
    failures: dict[int, str] = {}
    for number, variant in group.items():
        question.progress("building exchanges", number, len(question.variants))
        # What is built is timed too: some seconds in each process.
        needed_s = EXCHANGE_PROCESSES * RACE_S * (len(built) + 3) / 3
        if question.time_limit.left_s() < needed_s:
            failures[number] = "no time was left"
            continue
        try:
            built[number] = replace(variant.build(f"exchange-{number}"), name=f"exchange-{number}")
        except (EngineFailure, PassSearchError) as error:
            failures[number] = str(error)
    return built, failures


def _failed_row(variant: Variant, failure: str) -> Exchange:
    return Exchange(
        text=variant.text,
        kind=variant.kind,
        size=variant.size,
        ratio=None,
        explained=None,
        certain=False,
        failure=failure,
    )


def _exchange_row(variant: Variant, records: Mapping[str, EngineRecord], spec: EngineSpec) -> Exchange:
    record, before, after = records[spec.name], records[BEFORE], records[AFTER]
    if record.failure:
        return _failed_row(variant, record.failure)
    if beside := before.failure or after.failure:
        return _failed_row(variant, f"what it is compared with failed beside it: {beside}")
    ratio = StatedRatio.from_json(throughput_ratio(after, record)["by fastest"])
    whole = throughput_ratio(after, before)["by fastest"]["ratio"]
    explained = math.log(ratio.ratio) / math.log(whole) if ratio.ratio and whole > 1 else None
    return Exchange(
        text=variant.text,
        kind=variant.kind,
        size=variant.size,
        ratio=ratio,
        explained=explained,
        certain=_above(ratio, 1.0),
        failure="",
    )


def regression_side(
    question: RegressionQuestion, record: EngineRecord | None, name: str, *, failure: str
) -> RegressionSide:
    """Return what a result says of one side."""
    plan = question.plan(processes=PROCESSES, rounds=ROUNDS, seed=0)
    row = {} if record is None else engine_row(record, plan=plan)
    failure = failure or row.get("failure", "")
    # One that fails in the second measurement keeps what the first one has.
    is_measured = "latency_s" in row
    latency = MeanLatency.from_json(row["latency_s"]) if is_measured else None
    missing: dict[str, str] = {}
    if row.get("memory_bytes") is None:
        missing["memory_bytes"] = failure or "the system does not show the largest memory of a process (VmHWM)"
    if not is_measured:
        missing |= dict.fromkeys(("latency_s", "throughput_per_s", "compile_s"), failure)
    return RegressionSide(
        name=name,
        pipeline=row.get("pipeline"),
        versions=row.get("versions", {}),
        settings=row.get("settings", {}),
        threads=row.get("threads"),
        latency_s=latency,
        throughput_per_s=question.batch / _fastest_s(record) if record is not None and is_measured else None,
        compile_s=row.get("compile_s"),
        load_s=tuple(row["open_s"]) if is_measured else (),
        memory_bytes=row.get("memory_bytes"),
        artifact_bytes=row.get("artifact_bytes"),
        deviation=row.get("deviation"),
        failure=failure,
        unavailable=missing,
    )
