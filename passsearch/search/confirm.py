"""The confirmation of a winner on samples that did not choose it: fresh compiles in fresh processes, repeated."""

import logging
import math
import shutil
from collections.abc import Callable, Sequence
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
    Consumption,
    Ratio,
    is_improvement,
    log_ratio,
    mean_ratio,
    noise_floor,
    process_ratio,
)

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
        twin: Throughput of another compile of the baseline over the baseline's, which shows what the machine calls
            equal; ``None`` where nothing runs.
        repetitions: Number of fresh compiles of either.
        processes: Number of new processes that timed them.
        reproducible: True if every compile of a candidate gave the same binary, byte for byte.
        same_binary: True if candidate and baseline are one binary, so that neither can be faster.
        compile_s: Compile times of the candidate, one per repetition.
        baseline_compile_s: Compile times of the baseline.
        apply_s: Time to apply the candidate's pipeline, which is part of ``compile_s``.
        latency_s: Samples of the candidate, all repetitions in a row.
        baseline_latency_s: Samples of the baseline.
        conditions: Conditions of each process.
        seconds: Wall time of all compiles and all timing, starts of processes included.
        consumption: Consumption by repetition; empty where the device has no meter.
    """

    throughput: Ratio | None
    compile_time: Ratio
    twin: Ratio | None
    repetitions: int
    processes: int
    reproducible: bool
    same_binary: bool
    compile_s: tuple[float, ...]
    baseline_compile_s: tuple[float, ...]
    apply_s: tuple[float, ...]
    latency_s: Samples
    baseline_latency_s: Samples
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

        It is 0 for compile times, which have no twin, and infinite for what was not read.
        """
        if objective == "compile_time":
            return 0.0
        twin = self.twin
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
    def noise_floor(self) -> float:
        """Share by which the baseline may differ from itself; infinite where nothing runs."""
        return noise_floor(self.twin) if self.twin else math.inf


@dataclass(frozen=True)
class _Repetition:
    """One fresh compile of baseline and candidate, timed in several processes."""

    baseline: FreshCompile
    candidate: FreshCompile
    timed: TimedSamples
    consumed: Consumed | None

    @property
    def seconds(self) -> float:
        consumed_s = self.consumed.wall_s if self.consumed else 0.0
        return self.baseline.wall_s + self.candidate.wall_s + self.timed.wall_s + consumed_s


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
    if repetitions < 2:
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
) -> Confirmation | Failure:
    """Compile baseline and candidate, each in a process of its own, and time them in other processes; repeat.

    Args:
        evaluator: Evaluates the candidates.
        candidate: The winner of the search.
        baseline: The candidate it is compared with.
        twin: Folder of an earlier build of the baseline, timed beside every fresh one.
        repetitions: At least 2, or there is no interval.
        objective: Objective of the run. Power and energy are read in every repetition if it is one of them, else once.
        progress: Callback; gets the current repetition in words.
    """
    pairing = _Pairing(baseline, candidate, twin, objective)
    results: list[_Repetition] = []
    for turn in range(repetitions):
        progress(f"confirming: fresh compile {turn + 1} of {repetitions}")
        _log.info("confirming %s: repetition %d of %d", candidate.pipeline, turn + 1, repetitions)
        result = _repeat(evaluator, pairing, turn=turn)
        if isinstance(result, Failure):
            _log.info("the confirmation ends: %s in %s, %s", result.kind, result.stage, result.reason)
            return result
        results.append(result)
        _log.debug("repetition %d took %.1f s in %d processes", turn + 1, result.seconds, len(result.timed.processes))
    confirmation = _summary(results)
    _log.info("confirmed %s: %s", objective, confirmation.ratio(objective))
    return confirmation


def _repeat(evaluator: Evaluator, pairing: _Pairing, *, turn: int) -> _Repetition | Failure:
    compiles = _compile_both(evaluator, pairing, turn=turn)
    if isinstance(compiles, Failure):
        return compiles
    baseline, candidate = compiles
    artifacts = TimedArtifacts(baseline.folder, (candidate.folder,), twin=pairing.twin)
    # The interval narrows with the number of processes. Where compiling is slow, more processes cost little beside it.
    compile_s = baseline.wall_s + candidate.wall_s
    # Other orders of visits and depths of the stack than those of the shortlist, whose seed is that of the run plus 1.
    plan = replace(evaluator.plans.final_rounds, seed=1000 + turn)
    timed = evaluator.time_fresh(TimingRequest(f"{turn}-{pairing.slug}", artifacts, plan, least_s=compile_s))
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
    return _Repetition(baseline, candidate, timed, consumed)


def _compile_both(evaluator: Evaluator, pairing: _Pairing, *, turn: int) -> tuple[FreshCompile, FreshCompile] | Failure:
    """Compile baseline and candidate; the order changes with every repetition."""
    # A machine that gets slower meanwhile favours the compile that comes first.
    name = f"fresh-{turn}-{pairing.slug}"
    jobs = [(f"{name}-baseline", pairing.baseline), (f"{name}-best", pairing.candidate)]
    kinds = ("timed", "consumed") if pairing.is_consumed else ("timed",)
    compiled: dict[str, FreshCompile] = {}
    for key, candidate in jobs if turn % 2 == 0 else reversed(jobs):
        result = evaluator.compile_fresh(key, candidate, timing_key=f"{turn}-{pairing.slug}", kinds=kinds)
        if isinstance(result, Failure):
            return result
        compiled[key] = result
    return compiled[jobs[0][0]], compiled[jobs[1][0]]


def _measure_consumption(
    evaluator: Evaluator, pairing: _Pairing, *, artifacts: TimedArtifacts, turn: int
) -> Consumed | Failure | None:
    # Three windows of 5 s for each of three artifacts take 57 s. Only an objective is worth that in every repetition.
    if turn > 0 and not pairing.is_consumed:
        return None
    plans = evaluator.plans
    windows = replace(plans.final_windows if pairing.is_consumed else plans.search_windows, seed=turn)
    return evaluator.measure_consumption(f"{turn}-{pairing.slug}", artifacts.folders, plan=windows)


def _summary(results: list[_Repetition]) -> Confirmation:
    baseline_s = tuple(result.baseline.compile_s for result in results)
    candidate_s = tuple(result.candidate.compile_s for result in results)
    digests = {(result.baseline.digest, result.candidate.digest) for result in results}
    reproducible = len(digests) == 1
    processes = [process for result in results for process in result.timed.processes]
    return Confirmation(
        throughput=_ratio(results, lambda process: process.candidates[0], reproducible=reproducible),
        # Student's t over a few pairs of compiles: benchmarks/interval_coverage.py compares it with bootstraps.
        compile_time=mean_ratio([math.log(a / b) for a, b in zip(baseline_s, candidate_s, strict=True)]),
        twin=_ratio(results, lambda process: process.twin, reproducible=reproducible),
        repetitions=len(results),
        processes=len(processes),
        reproducible=reproducible,
        same_binary=len({digest for pair in digests for digest in pair}) == 1,
        compile_s=candidate_s,
        baseline_compile_s=baseline_s,
        apply_s=tuple(result.candidate.apply_s for result in results),
        latency_s=tuple(value for process in processes for value in process.candidates[0]),
        baseline_latency_s=tuple(value for process in processes for value in process.baseline),
        conditions=[process.conditions for process in processes],
        seconds=sum(result.seconds for result in results),
        consumption=[ConsumptionTurn(*result.consumed.artifacts) for result in results if result.consumed],
    )


def _ratio(
    results: list[_Repetition], other: Callable[[ProcessSamples], Samples], *, reproducible: bool
) -> Ratio | None:
    """Return a ratio over all processes where every compile made the same binary, else over the compiles.

    Source: Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM 2013: repeat at the highest level that
    varies. Compiles that give the same file, byte for byte, do not vary.
    """
    if not all(result.timed.processes for result in results):
        return None
    pairs = [[(process.baseline, other(process)) for process in result.timed.processes] for result in results]
    if reproducible:
        return process_ratio([pair for repetition in pairs for pair in repetition])
    return mean_ratio([median(log_ratio(*pair) for pair in repetition) for repetition in pairs])
