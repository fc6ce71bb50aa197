"""What got slower between two engines, versions or pipelines, to the kernel and to the pass."""

import logging
import math
from collections.abc import Mapping, Sequence
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
from passsearch.errors import EnvironmentFault, UserError
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

FIRST_SHARE = 0.4
"""Share of the time for the first measurement, after which no process begins if there are ``LEAST_PROCESSES``."""

KERNEL_PROCESSES, KERNEL_RUNS = 3, 10
"""Processes in which the profilers run, and inferences in each."""

EXCHANGE_PROCESSES, EXCHANGE_ROUNDS = 3, 4

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
    findings = RegressionFindings(_measured(question, specs, seed=0))
    before = findings.records[BEFORE]
    _require_result(question, findings)
    if isinstance(second, str) or findings.records[AFTER].failure:
        findings.verdict = "fails"
        findings.no_kernels = findings.no_exchanges = "the second side has no result"
        return findings
    after = findings.records[AFTER]
    findings.ratios = _all_ratios(before, after)
    slowdown = [findings.ratios["fastest"], findings.ratios["medians"]]
    if first.about.get("binary") and first.about.get("binary") == second.about.get("binary"):
        # What is one binary is equally fast, so a difference that was read is noise.
        findings.no_kernels = findings.no_exchanges = "both sides are the same binary"
    elif all(_above(ratio, 1 + question.threshold) for ratio in slowdown):
        _confirm(question, findings, [first, second])
    elif all(_below(ratio, 1 / (1 + question.threshold)) for ratio in slowdown):
        findings.verdict = "faster"
    return findings


def _confirm(question: RegressionQuestion, findings: RegressionFindings, specs: Sequence[EngineSpec]) -> None:
    """Measure again in new processes, and look for the reason where the slowdown is certain."""
    again = {each.spec.name: each for each in _measured(question, specs, seed=1).comparison.records}
    if any(record.failure for record in again.values()):
        raise EnvironmentFault(f"A side failed in a later process: {_failures(again)}; run the same command again.")
    findings.confirmation = _time_ratios(again[BEFORE], again[AFTER])
    if not all(_above(ratio, 1 + question.threshold) for ratio in findings.confirmation.values()):
        return
    findings.verdict = "slower"
    _find_kernels(question, findings, specs)
    _find_exchange(question, findings, specs)


def _failures(records: Mapping[str, EngineRecord]) -> str:
    return "; ".join(f"{name}: {record.failure}" for name, record in records.items() if record.failure)


def _require_result(question: RegressionQuestion, findings: RegressionFindings) -> None:
    if accident := next((each for each in findings.records.values() if each.is_accident), None):
        raise EnvironmentFault(f"The measurement failed: {accident.failure}; run the same command again.")
    if failure := findings.records[BEFORE].failure:
        raise UserError(f"`{question.names[0]}` has no result to compare with: {failure}.")


def _measured(question: RegressionQuestion, specs: Sequence[EngineSpec], *, seed: int) -> EngineTiming:
    """Return the timing of both sides in several processes; fewer where the time limit is short."""
    begin_s = question.time_limit.left_s()
    timing = question.timing(specs, question.plan(processes=PROCESSES, rounds=ROUNDS, seed=seed))
    for process in range(PROCESSES):
        used_s = begin_s - question.time_limit.left_s()
        if process >= LEAST_PROCESSES and used_s + used_s / process > FIRST_SHARE * begin_s:
            break
        question.progress("measuring again" if seed else "measuring", process, PROCESSES)
        try:
            timing.run_process()
        except EngineFailure as error:
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


def _find_kernels(question: RegressionQuestion, findings: RegressionFindings, specs: Sequence[EngineSpec]) -> None:
    """Run the profilers of both sides, in several processes, and match their kernels."""
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
                findings.no_kernels = f"`{name}` shows no kernels: {reason or 'its profiler lists none'}"
                return
            runs[record.spec.name].append(record.kernels)
    before, after = (_typical_calls(runs[name]) for name in (BEFORE, AFTER))
    slower_s = _fastest_s(findings.records[AFTER]) - _fastest_s(findings.records[BEFORE])
    findings.kernels, findings.no_kernels = kernel_differences(before, after, whole_s=slower_s), ""
    findings.outside_s = slower_s - math.fsum(each.difference_s for each in findings.kernels)


def _typical_calls(runs: Sequence[list[KernelCall]]) -> list[KernelCall]:
    """Return the fastest calls of several processes; those of the last where they made different ones."""
    names = [[call.name for call in calls] for calls in runs]
    return fastest_calls(runs) if all(each == names[0] for each in names) else list(runs[-1])


def _find_exchange(question: RegressionQuestion, findings: RegressionFindings, specs: Sequence[EngineSpec]) -> None:
    """Build the second side with one thing of the first at a time, and time all of them beside both sides."""
    if not question.variants:
        findings.no_exchanges = question.no_variants
        return
    built, failures = _built(question)
    plan = question.plan(processes=EXCHANGE_PROCESSES, rounds=EXCHANGE_ROUNDS, seed=20)
    timing = question.timing([*specs, *built.values()], plan)
    for process in range(EXCHANGE_PROCESSES if built else 0):
        question.progress("timing exchanges", process, EXCHANGE_PROCESSES)
        timing.run_process()
    records = {record.spec.name: record for record in timing.comparison.records}
    rows = [
        _exchange_row(variant, records, built.get(number), failures.get(number, ""))
        for number, variant in enumerate(question.variants)
    ]
    findings.exchanges = tuple(sorted(rows, key=lambda row: -(row.explained or -math.inf)))
    findings.no_exchanges = ""


def _built(question: RegressionQuestion) -> tuple[dict[int, EngineSpec], dict[int, str]]:
    """Return the engines of the exchanges by number, or why there are none; the time limit bounds their number."""
    built: dict[int, EngineSpec] = {}
    failures: dict[int, str] = {}
    for number, variant in enumerate(question.variants):
        question.progress("building exchanges", number, len(question.variants))
        # What is built is timed too: some seconds in each process.
        needed_s = EXCHANGE_PROCESSES * RACE_S * (len(built) + 3) / 3
        if question.time_limit.left_s() < needed_s:
            failures[number] = "no time was left"
            continue
        try:
            built[number] = replace(variant.build(f"exchange-{number}"), name=f"exchange-{number}")
        except EngineFailure as error:
            failures[number] = str(error)
    return built, failures


def _exchange_row(
    variant: Variant, records: Mapping[str, EngineRecord], spec: EngineSpec | None, failure: str
) -> Exchange:
    record = records.get(spec.name) if spec else None
    if record is None or record.failure:
        failure = failure or (record.failure if record else "")
        return Exchange(
            text=variant.text, kind=variant.kind, ratio=None, explained=None, certain=False, failure=failure
        )
    before, after = records[BEFORE], records[AFTER]
    ratio = StatedRatio.from_json(throughput_ratio(after, record)["by fastest"])
    whole = throughput_ratio(after, before)["by fastest"]["ratio"]
    explained = math.log(ratio.ratio) / math.log(whole) if ratio.ratio and whole > 1 else None
    return Exchange(
        text=variant.text,
        kind=variant.kind,
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
    latency = None if failure else MeanLatency.from_json(row["latency_s"])
    missing: dict[str, str] = {}
    if row.get("memory_bytes") is None:
        missing["memory_bytes"] = failure or "the system does not show the largest memory of a process (VmHWM)"
    if failure:
        missing |= dict.fromkeys(("latency_s", "throughput_per_s", "compile_s"), failure)
    return RegressionSide(
        name=name,
        pipeline=row.get("pipeline"),
        versions=row.get("versions", {}),
        settings=row.get("settings", {}),
        threads=row.get("threads"),
        latency_s=latency,
        throughput_per_s=None if record is None or failure else question.batch / _fastest_s(record),
        compile_s=row.get("compile_s"),
        load_s=tuple(row.get("open_s") or ()) if not failure else (),
        memory_bytes=row.get("memory_bytes"),
        artifact_bytes=row.get("artifact_bytes"),
        deviation=row.get("deviation"),
        failure=failure,
        unavailable=missing,
    )
