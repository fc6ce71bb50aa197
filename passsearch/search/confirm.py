"""The confirmation of a winner on samples that did not choose it: fresh compiles in fresh processes, repeated.

Repetitions end when the verdict is clear. Their intervals hold together, so looking at each of them is no bias.
"""

import logging
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from zlib import crc32

from passsearch.core import Candidate, Failure
from passsearch.errors import UserError
from passsearch.evaluate import (
    ACCIDENTS,
    Consumed,
    Evaluator,
    FreshCompile,
    ProcessSamples,
    Samples,
    TimedArtifacts,
    TimedSamples,
    TimingRequest,
)
from passsearch.measure import (
    CONSUMPTION_OBJECTIVES,
    Ratio,
    level_of_looks,
    log_ratio,
    log_ratio_of_medians,
    mean_ratio,
)
from passsearch.search.confirmation import CaseGain, Confirmation, ConsumptionTurn

LEAST_REPETITIONS = 2
"""Number of repetitions without which there is no interval."""

COMPILE_PAIRS = 4
"""Number of pairs of compiles to which a confirmation adds where time is left. Two say next to nothing about compile
time: Student's t of two pairs is 12.7 standard errors wide, that of four 3.2."""

_NO_CASES = ProcessSamples((), (), (), {})

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Repetition:
    """One fresh compile of baseline and candidate, timed in several processes.

    The compile twin is a second compile of the baseline; there is one where compile time is the objective.
    """

    baseline: FreshCompile
    candidate: FreshCompile
    compile_twin: FreshCompile | None
    timed: TimedSamples
    consumed: Consumed | None

    @property
    def seconds(self) -> float:
        parts = (self.baseline, self.candidate, self.compile_twin, self.timed, self.consumed)
        return sum(part.wall_s for part in parts if part is not None)


@dataclass(frozen=True)
class _Pairing:
    """The two candidates of a confirmation, and what is read of them.

    Attributes:
        baseline: The baseline.
        candidate: The winner of the search.
        twin: Folder of an earlier build of the baseline.
        objective: Objective of the run.
    """

    baseline: Candidate
    candidate: Candidate
    twin: Path
    objective: str

    @property
    def slug(self) -> str:
        """Name of the candidate in the log."""
        return _slug(self.candidate)

    @property
    def is_consumed(self) -> bool:
        """True if power or energy is the objective, so that it is read in every repetition."""
        return self.objective in CONSUMPTION_OBJECTIVES


def _slug(candidate: Candidate) -> str:
    # Part of folder names too, for which pipelines are too long.
    return f"{crc32(f'{candidate.pipeline}|{candidate.build.to_json()}'.encode()):08x}"


def timing_key(candidate: Candidate, turn: int) -> str:
    """Return the key in the log of one repetition's times."""
    return f"{turn}-{_slug(candidate)}"


def require_repetitions(repetitions: int) -> None:
    """Refuse a number of repetitions that has no interval.

    Raises:
        UserError: Fewer than 2.
    """
    if repetitions < LEAST_REPETITIONS:
        raise UserError(f"Confirming takes 2 repetitions or more (`tune` also takes 0 for none); got {repetitions}.")


def confirm(
    evaluator: Evaluator,
    candidate: Candidate,
    *,
    baseline: Candidate,
    twin: Path,
    repetitions: int,
    objective: str,
    progress: Callable[[str], None],
    keep_throughput: float = 0.0,
    left_s: Callable[[], float] = lambda: math.inf,
    is_recorded: Callable[[str], bool] = lambda key: False,
) -> Confirmation | Failure:
    """Compile baseline and candidate, each in a process of its own, and time them in other processes; repeat.

    The repetitions end when the verdict is clear, after ``MeasurementPlans.most_repetitions``, or when the time is up.
    Where no gain is visible, the verdict is clear once the noise floor is below ``MeasurementPlans.least_floor``.

    Args:
        evaluator: Evaluates the candidates.
        candidate: The winner of the search.
        baseline: The candidate it is compared with.
        twin: Folder of an earlier build of the baseline, timed beside every fresh one.
        repetitions: Fewest repetitions if the time suffices; at least 2, or there is no interval.
        objective: Objective of the run. Power and energy are read in every repetition if it is one of them, else once.
        progress: Callback; gets the current repetition in words.
        keep_throughput: Least throughput, as a share of the baseline's, where throughput is not the objective.
        left_s: Returns the seconds until the run's time limit. Two repetitions are made in any case.
        is_recorded: Returns whether the repetition with this ``timing_key`` is in the log, and so takes no time.
    """
    pairing = _Pairing(baseline, candidate, twin, objective)
    results: list[_Repetition] = []
    most = max(repetitions, evaluator.plans.most_repetitions)
    level = level_of_looks(most - repetitions + 1)
    while len(results) < most:
        progress(f"confirming: fresh compile {len(results) + 1} of {repetitions} to {most}")
        _log.info("confirming %s: repetition %d", candidate.pipeline, len(results) + 1)
        processes = sum(len(earlier.timed.processes) for earlier in results)
        result = _repeat(evaluator, pairing, turn=len(results), processes=processes, left_s=left_s)
        if isinstance(result, Failure):
            _log.info("the confirmation ends: %s in %s, %s", result.kind, result.stage, result.reason)
            # A compile that reached another IR says that the candidate is not reproducible.
            if result.kind not in ACCIDENTS - {"unstable"} or not results:
                return result
            # An accident of the machine says nothing about the candidate, so it is no bias to end with it.
            if len(results) >= LEAST_REPETITIONS:
                break
            return replace(result, reason=f"{result.reason}; the same command continues")
        results.append(result)
        _log.debug("it took %.1f s in %d processes", result.seconds, len(result.timed.processes))
        confirmation = _summary(results, level=level)
        least_floor = evaluator.plans.least_floor
        decided = confirmation.is_decided(objective, keep_throughput=keep_throughput, least_floor=least_floor)
        if decided and len(results) >= repetitions:
            break
        is_free = is_recorded(timing_key(candidate, len(results)))
        if left_s() < result.seconds and len(results) >= LEAST_REPETITIONS and not is_free:
            _log.info("no time is left for a further repetition")
            break
    further = _compile_further(evaluator, pairing, results, progress=progress, left_s=left_s)
    if isinstance(further, Failure):
        return further
    if further:
        confirmation = _summary(results, further, level=level)
    _log.info("confirmed %s: %s", objective, confirmation.ratio(objective))
    return confirmation


def _compile_further(
    evaluator: Evaluator,
    pairing: _Pairing,
    results: Sequence[_Repetition],
    *,
    progress: Callable[[str], None],
    left_s: Callable[[], float],
) -> list[tuple[FreshCompile, FreshCompile]] | Failure:
    """Compile baseline and candidate in further pairs, which are not timed, as far as the time suffices.

    A compile that fails, or reaches another IR, is the failure of the candidate; an accident of the machine ends this.
    """
    if pairing.objective == "compile_time":
        return []  # its repetitions end when compile time is decided
    pair_s = max(result.baseline.wall_s + result.candidate.wall_s for result in results)
    pairs: list[tuple[FreshCompile, FreshCompile]] = []
    # The number follows from the time alone and never from what is measured, so it is no bias.
    while len(results) + len(pairs) < COMPILE_PAIRS and left_s() >= pair_s:
        progress(f"confirming: compile time, {len(results) + len(pairs) + 1} of {COMPILE_PAIRS}")
        compiles = _compile_all(evaluator, pairing, turn=len(results) + len(pairs), is_timed=False)
        if isinstance(compiles, Failure):
            _log.info("a further compile failed: %s", compiles.reason)
            if compiles.kind not in ACCIDENTS - {"unstable"}:
                return compiles
            break
        for compiled in compiles:
            shutil.rmtree(compiled.folder, ignore_errors=True)
        pairs.append((compiles[0], compiles[1]))
    return pairs


def _repeat(
    evaluator: Evaluator, pairing: _Pairing, *, turn: int, processes: int, left_s: Callable[[], float]
) -> _Repetition | Failure:
    """Compile and time once more; ``processes`` is the number of earlier timing processes."""
    compiles = _compile_all(evaluator, pairing, turn=turn)
    if isinstance(compiles, Failure):
        return compiles
    baseline, candidate = compiles[:2]
    artifacts = TimedArtifacts(baseline.folder, (candidate.folder,), twin=pairing.twin)
    # The interval narrows with the number of processes. Where compiling is slow, more processes cost little beside it.
    compile_s = baseline.wall_s + candidate.wall_s
    # One binary is as fast as itself, so its times only show the noise.
    is_one = baseline.digest == candidate.digest and not pairing.is_consumed
    number = evaluator.plans.least_processes if is_one else None
    # The repetitions without which there is no interval share the time that is left.
    further = max(0, LEAST_REPETITIONS - turn - 1)
    most_s = (left_s() - further * compile_s) / (further + 1)
    # Other orders of visits and depths of the stack than those of the shortlist, whose seed is that of the run plus 1.
    plan = replace(evaluator.plans.final_rounds, seed=1000 + turn)
    key = timing_key(pairing.candidate, turn)
    request = TimingRequest(key, artifacts, plan, number, least_s=compile_s, most_s=most_s, turn=processes)
    timed = evaluator.time_fresh(request)
    consumed = _measure_consumption(evaluator, pairing, artifacts=artifacts, turn=turn)
    # Each folder can be as large as the network's parameters.
    for compiled in compiles:
        shutil.rmtree(compiled.folder, ignore_errors=True)
    if isinstance(timed, Failure):
        return timed
    if isinstance(consumed, Failure):
        if pairing.is_consumed:
            return consumed
        # No verdict rests on it, so the run's result is worth more than the missing columns of its table.
        _log.info("power and energy could not be read: %s", consumed.reason)
        consumed = None
    compile_twin = compiles[2] if len(compiles) > 2 else None
    return _Repetition(baseline, candidate, compile_twin, timed, consumed)


def _compile_all(
    evaluator: Evaluator, pairing: _Pairing, *, turn: int, is_timed: bool = True
) -> list[FreshCompile] | Failure:
    """Compile baseline and candidate, and the baseline's twin where compile time is the objective."""
    name = f"fresh-{turn}-{pairing.slug}"
    jobs = [(f"{name}-baseline", pairing.baseline), (f"{name}-best", pairing.candidate)]
    jobs += [(f"{name}-twin", pairing.baseline)] if pairing.objective == "compile_time" else []
    kinds = () if not is_timed else ("timed", "consumed") if pairing.is_consumed else ("timed",)
    compiled: dict[str, FreshCompile] = {}
    # A machine that gets slower meanwhile favours the compile that comes first, so the first changes every time.
    first = turn % len(jobs)
    for key, candidate in [*jobs[first:], *jobs[:first]]:
        result = evaluator.compile_fresh(key, candidate, timing_key=f"{turn}-{pairing.slug}", kinds=kinds)
        if isinstance(result, Failure):
            return result
        compiled[key] = result
    return [compiled[key] for key, _ in jobs]


def _measure_consumption(
    evaluator: Evaluator, pairing: _Pairing, *, artifacts: TimedArtifacts, turn: int
) -> Consumed | Failure | None:
    # Three windows of 5 s for each of three artifacts take 62 s. Only an objective is worth that in every repetition.
    if turn > 0 and not pairing.is_consumed:
        return None
    plans = evaluator.plans
    windows = replace(plans.final_windows if pairing.is_consumed else plans.search_windows, seed=turn)
    return evaluator.measure_consumption(f"{turn}-{pairing.slug}", artifacts.folders, plan=windows)


def _summary(
    results: list[_Repetition], further: Sequence[tuple[FreshCompile, FreshCompile]] = (), *, level: float
) -> Confirmation:
    """Return the confirmation; ``further`` are pairs of compiles that were not timed."""
    pairs = [*((result.baseline, result.candidate) for result in results), *further]
    baseline_s, candidate_s = (tuple(pair[role].compile_s for pair in pairs) for role in (0, 1))
    twins = [result.compile_twin for result in results if result.compile_twin is not None]
    twin_s = [twin.compile_s for twin in twins]
    baselines = {each.digest for each in (*(baseline for baseline, _ in pairs), *twins)}
    candidates = {candidate.digest for _, candidate in pairs}
    reproducible = len(baselines) == len(candidates) == 1
    processes = [process for result in results for process in result.timed.processes]
    ratio = partial(_ratio, results, reproducible=reproducible, level=level)
    return Confirmation(
        throughput=ratio(_candidate),
        throughput_of_medians=ratio(_candidate, log_ratio_of=log_ratio_of_medians),
        compile_time=_compile_ratio(baseline_s, candidate_s, level=level),
        compile_twin=_compile_ratio(baseline_s, twin_s, level=level) if twin_s else None,
        twin=ratio(lambda process: process.twin),
        repetitions=len(results),
        processes=len(processes),
        reproducible=reproducible,
        same_binary=reproducible and baselines == candidates,
        compile_s=candidate_s,
        baseline_compile_s=baseline_s,
        parts_s=_median_parts([candidate for _, candidate in pairs]),
        baseline_parts_s=_median_parts([baseline for baseline, _ in pairs]),
        apply_s=tuple(candidate.apply_s for _, candidate in pairs),
        latency_s=tuple(process.candidates[0] for process in processes),
        baseline_latency_s=tuple(process.baseline for process in processes),
        conditions=[process.conditions for process in processes],
        seconds=sum(result.seconds for result in results) + sum(each.wall_s for pair in further for each in pair),
        level=level,
        consumption=[ConsumptionTurn(*result.consumed.artifacts) for result in results if result.consumed],
        cases=_case_gains(results, reproducible=reproducible, level=level),
    )


def _candidate(process: ProcessSamples) -> Samples:
    return process.candidates[0]


def _case_gains(results: list[_Repetition], *, reproducible: bool, level: float) -> tuple[CaseGain, ...]:
    """Return the gain in each case; none for a network with one case."""
    number = min(len(process.cases) for result in results for process in result.timed.processes or [_NO_CASES])
    gains = []
    for place in range(number):
        # The same processes, as if they had timed this case alone.
        own = [replace(result, timed=_only(result.timed, place)) for result in results]
        processes = [process for result in own for process in result.timed.processes]
        ratio = _ratio(own, _candidate, reproducible=reproducible, level=level)
        assert ratio is not None
        latencies = map(_candidate, processes), (process.baseline for process in processes)
        gains.append(CaseGain(ratio, *map(tuple, latencies)))
    return tuple(gains)


def _only(timed: TimedSamples, place: int) -> TimedSamples:
    return replace(timed, processes=tuple(process.cases[place] for process in timed.processes))


def _median_parts(compiles: Sequence[FreshCompile]) -> dict[str, float]:
    names = compiles[0].parts_s
    return {name: round(median(compiled.parts_s[name] for compiled in compiles), 4) for name in names}


def _compile_ratio(first_s: Sequence[float], second_s: Sequence[float], *, level: float) -> Ratio:
    """Return how many times faster the second compiles, from pairs."""
    # Student's t over a few pairs of compiles: benchmarks/interval_coverage.py compares it with bootstraps.
    return mean_ratio([math.log(first / second) for first, second in zip(first_s, second_s, strict=True)], level=level)


def _ratio(
    results: list[_Repetition],
    other: Callable[[ProcessSamples], Samples],
    *,
    reproducible: bool,
    level: float,
    log_ratio_of: Callable[[Samples, Samples], float] = log_ratio,
) -> Ratio | None:
    """Return a ratio over all processes where every compile made the same binary, else over the compiles.

    Source: Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM 2013: repeat at the highest level that
    varies. Compiles that give the same file, byte for byte, do not vary.
    """
    if not all(result.timed.processes for result in results):
        return None
    values = [
        [log_ratio_of(process.baseline, other(process)) for process in result.timed.processes] for result in results
    ]
    repetitions = [[value] for each in values for value in each] if reproducible else values
    return mean_ratio([fmean(each) for each in repetitions], level=level)
