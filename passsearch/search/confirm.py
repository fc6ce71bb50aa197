"""The confirmation of a winner on samples that did not choose it: fresh compiles in fresh processes, repeated.

Repetitions end when the verdict is clear. Their intervals hold together, so looking at each of them is no bias.
"""

import logging
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any
from zlib import crc32

from passsearch.core import Candidate, Failure
from passsearch.errors import UserError
from passsearch.evaluate import (
    Conditions,
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
    MIN_GAIN,
    Consumption,
    Ratio,
    is_improvement,
    level_of_looks,
    log_ratio,
    mean_ratio,
    noise_floor,
    process_ratio,
    ratio_of_medians,
)

CLEAR = 1.05
"""Ratio of compile times up to which two candidates compile equally fast, for a reader."""

LEAST_REPETITIONS = 2
"""Number of repetitions without which there is no interval."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConsumptionTurn:
    """Consumption of baseline, twin and candidate that ran in turns."""

    baseline: Consumption
    twin: Consumption
    candidate: Consumption

    def has(self, objective: str) -> bool:
        """Return whether an objective was read of all three."""
        return all(artifact.has(objective) for artifact in (self.baseline, self.twin, self.candidate))


@dataclass(frozen=True)
class Confirmation:
    """The result of fresh compiles in fresh processes.

    Attributes:
        throughput: Throughput of the candidate over the baseline's; ``None`` where nothing runs.
        compile_time: Number of times the candidate compiles faster.
        compile_twin: Number of times another compile of the baseline is faster than the first; ``None`` where compile
            time is not the objective.
        twin: Throughput of another compile of the baseline over the baseline's, which shows what the machine calls
            equal; ``None`` where nothing runs.
        repetitions: Number of fresh compiles of either.
        processes: Number of new processes that timed them.
        reproducible: True if every compile of a candidate gave the same binary, byte for byte.
        same_binary: True if candidate and baseline are one binary, so that neither can be faster.
        compile_s: Compile times of the candidate, one per repetition.
        baseline_compile_s: Compile times of the baseline.
        parts_s: Parts of the candidate's compile times by ``COMPILE_PARTS``, median over the repetitions.
        baseline_parts_s: Parts of the baseline's compile times.
        apply_s: Time to apply the candidate's pipeline, which is part of ``compile_s``.
        latency_s: Samples of the candidate, by process.
        baseline_latency_s: Samples of the baseline.
        conditions: Conditions of each process.
        seconds: Wall time of all compiles and all timing, starts of processes included.
        consumption: Consumption by repetition; empty where the device has no meter.
    """

    throughput: Ratio | None
    compile_time: Ratio
    compile_twin: Ratio | None
    twin: Ratio | None
    repetitions: int
    processes: int
    reproducible: bool
    same_binary: bool
    compile_s: tuple[float, ...]
    baseline_compile_s: tuple[float, ...]
    parts_s: Mapping[str, float]
    baseline_parts_s: Mapping[str, float]
    apply_s: tuple[float, ...]
    latency_s: tuple[Samples, ...]
    baseline_latency_s: tuple[Samples, ...]
    conditions: Sequence[Conditions]
    seconds: float
    consumption: Sequence[ConsumptionTurn] = ()

    def ratio(self, objective: str) -> Ratio | None:
        """Return how many times better the candidate is; ``None`` for what is not measured again."""
        if objective in CONSUMPTION_OBJECTIVES:
            return self._consumption_ratio(objective, lambda turn: turn.candidate)
        # Peak memory is read when outputs are compared, and a confirmation does not compare them again.
        return {"compile_time": self.compile_time, "memory": None}.get(objective, self.throughput)

    def floor(self, objective: str) -> float:
        """Return the share by which the baseline may differ from itself in an objective.

        It is infinite for what was not read.
        """
        twin = self.compile_twin if objective == "compile_time" else self.twin
        if objective in CONSUMPTION_OBJECTIVES:
            twin = self._consumption_ratio(objective, lambda turn: turn.twin)
        return noise_floor(twin) if twin else math.inf

    def _consumption_ratio(self, objective: str, other: Callable[[ConsumptionTurn], Consumption]) -> Ratio | None:
        # One process measures the consumption in each repetition, so a repetition is one value.
        if not self.consumption or not all(turn.has(objective) for turn in self.consumption):
            return None
        return mean_ratio([turn.baseline.log_ratio(other(turn), objective=objective) for turn in self.consumption])

    def keeps(self, objective: str, least: float) -> bool:
        """Return whether a gain in another objective leaves this share of the throughput; one binary loses none."""
        # The lower end and not the ratio: to keep throughput must be as certain as to gain something else.
        if objective in ("throughput", "latency") or self.same_binary:
            return True
        return least <= 0 if self.throughput is None else self.throughput.interval.low >= least

    def improves(self, objective: str, *, keep_throughput: float) -> bool:
        """Return whether the candidate is better in an objective, beyond the noise and with enough throughput.

        If candidate and baseline are one binary, only the compile time can improve.

        Args:
            objective: Name of the objective.
            keep_throughput: Least throughput, as a share of the baseline's, where throughput is not the objective.
        """
        # A difference that processes read between two copies of one binary is noise, whatever its interval says.
        ratio = self.ratio(objective)
        if ratio is None or (self.same_binary and objective != "compile_time"):
            return False
        return self.keeps(objective, keep_throughput) and is_improvement(ratio, floor=self.floor(objective))

    def is_decided(self, objective: str, *, keep_throughput: float, least_floor: float) -> bool:
        """Return whether further repetitions are of no use: they would change neither the verdict nor its meaning.

        Args:
            objective: Name of the objective.
            keep_throughput: Least throughput, as a share of the baseline's, where throughput is not the objective.
            least_floor: Noise floor below which "no better" says that no gain worth having was overlooked.
        """
        ratio = self.ratio(objective)
        if ratio is None or self.improves(objective, keep_throughput=keep_throughput):
            return True
        if self.same_binary and objective != "compile_time":
            return True
        # What looks no better than the least gain is given up, although more repetitions might find it better: that
        # can lose a win, and can make none.
        if ratio.value > 1 + MIN_GAIN:
            return False
        # Compiles are too few and too noisy for such a floor, so they end when it is clear which of two is faster.
        return _is_clear(ratio) if objective == "compile_time" else self._is_certain(ratio, objective, least_floor)

    def _is_certain(self, ratio: Ratio, objective: str, least_floor: float) -> bool:
        """Return whether the interval has no gain that counts, or the noise is too small to hide one."""
        return ratio.interval.high <= 1 + MIN_GAIN or self.floor(objective) < least_floor

    @property
    def summary(self) -> Conditions:
        """Conditions of all processes in one: those of the first, with means of what changes from one to the next."""
        if not self.conditions:
            return {}
        # The first process alone would hide a disturbance of a later one.
        names = ("steal_percent", "foreign_percent", "rounds_dropped")
        rows: Any = self.conditions
        return {**rows[0], **{name: round(fmean(row[name] for row in rows), 2) for name in names}}

    @property
    def throughput_of_medians(self) -> Ratio | None:
        """Throughput ratio by the processes' median samples, beside that by their fastest ones."""
        pairs = list(zip(self.baseline_latency_s, self.latency_s, strict=True))
        return ratio_of_medians(pairs) if pairs else None

    @property
    def noise_floor(self) -> float:
        """Share by which the baseline may differ from itself; infinite where nothing runs."""
        return noise_floor(self.twin) if self.twin else math.inf


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
        # Part of folder names too, for which pipelines are too long.
        return f"{crc32(f'{self.candidate.pipeline}|{self.candidate.build.to_json()}'.encode()):08x}"

    @property
    def is_consumed(self) -> bool:
        """True if power or energy is the objective, so that it is read in every repetition."""
        return self.objective in CONSUMPTION_OBJECTIVES


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
    """
    pairing = _Pairing(baseline, candidate, twin, objective)
    results: list[_Repetition] = []
    most = max(repetitions, evaluator.plans.most_repetitions)
    level = level_of_looks(most - repetitions + 1)
    while len(results) < most:
        progress(f"confirming: fresh compile {len(results) + 1} of {repetitions} to {most}")
        _log.info("confirming %s: repetition %d", candidate.pipeline, len(results) + 1)
        processes = sum(len(earlier.timed.processes) for earlier in results)
        result = _repeat(evaluator, pairing, turn=len(results), processes=processes)
        if isinstance(result, Failure):
            _log.info("the confirmation ends: %s in %s, %s", result.kind, result.stage, result.reason)
            return result
        results.append(result)
        _log.debug("it took %.1f s in %d processes", result.seconds, len(result.timed.processes))
        confirmation = _summary(results, level=level)
        least_floor = evaluator.plans.least_floor
        decided = confirmation.is_decided(objective, keep_throughput=keep_throughput, least_floor=least_floor)
        if decided and len(results) >= repetitions:
            break
        if left_s() < result.seconds and len(results) >= LEAST_REPETITIONS:
            _log.info("no time is left for a further repetition")
            break
    _log.info("confirmed %s: %s", objective, confirmation.ratio(objective))
    return confirmation


def _is_clear(compile_time: Ratio) -> bool:
    """Return whether it is clear which of two compiles faster, or that both are about equally fast."""
    low, high = compile_time.interval.low, compile_time.interval.high
    return low > 1 or high < 1 or (low > 1 / CLEAR and high < CLEAR)


def _repeat(evaluator: Evaluator, pairing: _Pairing, *, turn: int, processes: int) -> _Repetition | Failure:
    """Compile and time once more; ``processes`` is the number of earlier timing processes."""
    compiles = _compile_all(evaluator, pairing, turn=turn)
    if isinstance(compiles, Failure):
        return compiles
    baseline, candidate = compiles[:2]
    artifacts = TimedArtifacts(baseline.folder, (candidate.folder,), twin=pairing.twin)
    # The interval narrows with the number of processes. Where compiling is slow, more processes cost little beside it.
    compile_s = baseline.wall_s + candidate.wall_s
    # Other orders of visits and depths of the stack than those of the shortlist, whose seed is that of the run plus 1.
    plan = replace(evaluator.plans.final_rounds, seed=1000 + turn)
    key = f"{turn}-{pairing.slug}"
    timed = evaluator.time_fresh(TimingRequest(key, artifacts, plan, least_s=compile_s, turn=processes))
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


def _compile_all(evaluator: Evaluator, pairing: _Pairing, *, turn: int) -> list[FreshCompile] | Failure:
    """Compile baseline and candidate, and the baseline's twin where compile time is the objective."""
    name = f"fresh-{turn}-{pairing.slug}"
    jobs = [(f"{name}-baseline", pairing.baseline), (f"{name}-best", pairing.candidate)]
    jobs += [(f"{name}-twin", pairing.baseline)] if pairing.objective == "compile_time" else []
    kinds = ("timed", "consumed") if pairing.is_consumed else ("timed",)
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
    # Three windows of 5 s for each of three artifacts take 57 s. Only an objective is worth that in every repetition.
    if turn > 0 and not pairing.is_consumed:
        return None
    plans = evaluator.plans
    windows = replace(plans.final_windows if pairing.is_consumed else plans.search_windows, seed=turn)
    return evaluator.measure_consumption(f"{turn}-{pairing.slug}", artifacts.folders, plan=windows)


def _summary(results: list[_Repetition], *, level: float) -> Confirmation:
    baseline_s = tuple(result.baseline.compile_s for result in results)
    candidate_s = tuple(result.candidate.compile_s for result in results)
    twin_s = [result.compile_twin.compile_s for result in results if result.compile_twin is not None]
    digests = {(result.baseline.digest, result.candidate.digest) for result in results}
    reproducible = len(digests) == 1
    processes = [process for result in results for process in result.timed.processes]
    return Confirmation(
        throughput=_ratio(results, lambda process: process.candidates[0], reproducible=reproducible, level=level),
        compile_time=_compile_ratio(baseline_s, candidate_s, level=level),
        compile_twin=_compile_ratio(baseline_s, twin_s, level=level) if twin_s else None,
        twin=_ratio(results, lambda process: process.twin, reproducible=reproducible, level=level),
        repetitions=len(results),
        processes=len(processes),
        reproducible=reproducible,
        same_binary=len({digest for pair in digests for digest in pair}) == 1,
        compile_s=candidate_s,
        baseline_compile_s=baseline_s,
        parts_s=_median_parts([result.candidate for result in results]),
        baseline_parts_s=_median_parts([result.baseline for result in results]),
        apply_s=tuple(result.candidate.apply_s for result in results),
        latency_s=tuple(process.candidates[0] for process in processes),
        baseline_latency_s=tuple(process.baseline for process in processes),
        conditions=[process.conditions for process in processes],
        seconds=sum(result.seconds for result in results),
        consumption=[ConsumptionTurn(*result.consumed.artifacts) for result in results if result.consumed],
    )


def _median_parts(compiles: Sequence[FreshCompile]) -> dict[str, float]:
    names = compiles[0].parts_s
    return {name: round(median(compiled.parts_s[name] for compiled in compiles), 4) for name in names}


def _compile_ratio(first_s: Sequence[float], second_s: Sequence[float], *, level: float) -> Ratio:
    """Return how many times faster the second compiles, from pairs."""
    # Student's t over a few pairs of compiles: benchmarks/interval_coverage.py compares it with bootstraps.
    return mean_ratio([math.log(first / second) for first, second in zip(first_s, second_s, strict=True)], level=level)


def _ratio(
    results: list[_Repetition], other: Callable[[ProcessSamples], Samples], *, reproducible: bool, level: float
) -> Ratio | None:
    """Return a ratio over all processes where every compile made the same binary, else over the compiles.

    Source: Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM 2013: repeat at the highest level that
    varies. Compiles that give the same file, byte for byte, do not vary.
    """
    if not all(result.timed.processes for result in results):
        return None
    pairs = [[(process.baseline, other(process)) for process in result.timed.processes] for result in results]
    if reproducible:
        return process_ratio([pair for repetition in pairs for pair in repetition], level=level)
    return mean_ratio([fmean(log_ratio(*pair) for pair in repetition) for repetition in pairs], level=level)
