"""The repetitions of a confirmation, and the ratios over all of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, median
from zlib import crc32

from passsearch.core import Candidate
from passsearch.evaluate import Built, Consumed, FreshCompile, ProcessSamples, Samples, TimedArtifacts, TimedSamples
from passsearch.measure import (
    Ratio,
    log_ratio,
    log_ratio_at_end,
    log_ratio_of_medians,
    mean_ratio,
)
from passsearch.objectives import ConsumptionTurn, MeteredObjective, Objective
from passsearch.search.confirmation import CaseGain, Confirmation, SequenceGain
from passsearch.search.estimators import Estimates

_NO_CASES = ProcessSamples((), (), (), {})


@dataclass(frozen=True)
class Pairing:
    """The candidates of a confirmation, and what is read of them.

    Attributes:
        baseline: The baseline.
        candidate: The winner of the search.
        twin: An earlier build of the baseline, or of the winner where the baseline is slow.
        objective: Objective of the run. Power and energy are read in every repetition if it is one of them, else once.
        slow_processes: Number of processes that time a slow baseline (``slow_baseline_processes``), 0 if it is not. The
            noise of the ratio is then that of the winner's short runs, so the twin is the winner's.
        sequence: The best of the catalog's sequences, timed beside both; ``None`` for none.
    """

    baseline: Candidate
    candidate: Candidate
    twin: Built
    objective: Objective
    slow_processes: int = 0
    sequence: Built | None = None

    @property
    def has_slow_baseline(self) -> bool:
        """True if processes of their own time the baseline."""
        return self.slow_processes > 0

    @property
    def slug(self) -> str:
        """Name of the candidate in the log, and of its folders, for which pipelines are too long."""
        return _slug(f"{self.candidate.pipeline}|{self.candidate.build.to_json()}")

    @property
    def is_consumed(self) -> bool:
        """True if power or energy is the objective, so that it is read in every repetition."""
        return isinstance(self.objective, MeteredObjective)

    @property
    def earlier(self) -> tuple[Built, ...]:
        """Builds of the search that are timed beside the fresh ones."""
        return (self.twin, self.sequence) if self.sequence else (self.twin,)

    def artifacts(self, baseline: Path, candidate: Path) -> TimedArtifacts:
        """Return what is timed beside fresh builds in these folders."""
        candidates = (candidate, self.sequence.folder) if self.sequence else (candidate,)
        return TimedArtifacts(baseline, candidates, twin=self.twin.folder)

    def timing_key(self, turn: int) -> str:
        """Return the key in the log of one repetition's times."""
        slow = "-slow" if self.has_slow_baseline else ""
        return f"{turn}-{self.slug}{slow}" + (f"-{_slug(self.sequence.key)}" if self.sequence else "")


@dataclass(frozen=True)
class Repetition:
    """One fresh compile of baseline and candidate, timed in several processes.

    Attributes:
        baseline: Compile of the baseline.
        candidate: Compile of the candidate.
        compile_twin: A second compile of the baseline, where compile time is the objective.
        timed: Samples of the processes with the baseline.
        others: Samples of processes with the other artifacts only, where the baseline is slow; else ``None``.
        consumed: Power and energy, where they were read.
        is_apart: True if an inference of the baseline takes so long that the winner is compared with it by ``others``.
        sustained: Samples of one process with runs of some seconds without a pause, of the winner and, unless it is
            slow, the baseline; ``None`` where there are none.
    """

    baseline: FreshCompile
    candidate: FreshCompile
    compile_twin: FreshCompile | None
    timed: TimedSamples
    others: TimedSamples | None
    consumed: Consumed | None
    is_apart: bool = False
    sustained: TimedSamples | None = None

    @property
    def seconds(self) -> float:
        """Wall time of its compiles and of its timing."""
        timed = (self.timed, self.others, self.sustained)
        parts = (self.baseline, self.candidate, self.compile_twin, *timed, self.consumed)
        return sum(part.wall_s for part in parts if part is not None)

    @property
    def again_s(self) -> float:
        """Wall time that another repetition takes, which has no runs of some seconds."""
        return self.seconds - (self.sustained.wall_s if self.sustained else 0.0)

    @property
    def winner_processes(self) -> tuple[ProcessSamples, ...]:
        """Samples that say how fast the winner is: those beside a slow baseline are too few."""
        return (self.others or self.timed).processes

    @property
    def has_sequence(self) -> bool:
        """True if the sequence was timed, too."""
        return any(len(process.candidates) > 1 for process in self.winner_processes)


def _slug(text: str) -> str:
    return f"{crc32(text.encode()):08x}"


def summarize(
    pairing: Pairing,
    results: list[Repetition],
    further: Sequence[tuple[FreshCompile, FreshCompile]] = (),
    *,
    level: float,
) -> Confirmation:
    """Return what all repetitions say together.

    Args:
        pairing: The candidates.
        results: The repetitions.
        further: Pairs of compiles that were not timed.
        level: Confidence level of every interval.
    """
    pairs = [*((result.baseline, result.candidate) for result in results), *further]
    baseline_s, candidate_s = (tuple(pair[role].compile_s for pair in pairs) for role in (0, 1))
    twins = [result.compile_twin for result in results if result.compile_twin is not None]
    twin_s = [twin.compile_s for twin in twins]
    baselines = {each.digest for each in (*(baseline for baseline, _ in pairs), *twins)}
    candidates = {candidate.digest for _, candidate in pairs}
    reproducible = len(baselines) == len(candidates) == 1
    processes = [process for result in results for process in result.timed.processes]
    winner_processes = [process for result in results for process in result.winner_processes]
    others = [process for result in results if result.others for process in result.others.processes]
    ratio = partial(_ratio, results, reproducible=reproducible, level=level)
    return Confirmation(
        throughput=ratio(_baseline, _winner),
        throughput_of_medians=ratio(_baseline, _winner, log_ratio_of=log_ratio_of_medians),
        throughput_at_end=ratio(_baseline, _winner, log_ratio_of=log_ratio_at_end),
        sustained=_sustained(results),
        noise=_noise(results, pairing),
        least_gain=_least(results, _baseline, _winner),
        baseline_digests=frozenset(baselines),
        compile_time=_compile_ratio(baseline_s, candidate_s, level=level),
        compile_twin=_compile_ratio(baseline_s, twin_s, level=level) if twin_s else None,
        twin=ratio(_winner if pairing.has_slow_baseline else _baseline, _twin),
        repetitions=len(results),
        processes=len(processes),
        reproducible=reproducible,
        same_binary=reproducible and baselines == candidates,
        compile_s=candidate_s,
        baseline_compile_s=baseline_s,
        parts_s=_median_parts([candidate for _, candidate in pairs]),
        baseline_parts_s=_median_parts([baseline for baseline, _ in pairs]),
        apply_s=tuple(candidate.apply_s for _, candidate in pairs),
        latency_s=tuple(map(_winner, winner_processes)),
        baseline_latency_s=tuple(map(_baseline, processes)),
        conditions=[process.conditions for process in (*processes, *others)],
        seconds=sum(result.seconds for result in results) + sum(each.wall_s for pair in further for each in pair),
        level=level,
        consumption=[ConsumptionTurn(*result.consumed.artifacts) for result in results if result.consumed],
        cases=_case_gains(results, reproducible=reproducible, level=level),
        over_sequence=_over_sequence(results, reproducible=reproducible, level=level),
    )


def _least(
    results: list[Repetition], one: Callable[[ProcessSamples], Samples], other: Callable[[ProcessSamples], Samples]
) -> float:
    """Return the smallest ratio that a process has read, by any estimator; 0 where nothing runs."""
    estimators = (log_ratio, log_ratio_of_medians, log_ratio_at_end)
    values = [
        value
        for result in results
        for estimator in estimators
        for value in _log_ratios(result, one, other, log_ratio_of=estimator)
    ]
    return math.exp(min(values)) if values else 0.0


def _noise(results: list[Repetition], pairing: Pairing) -> float:
    """Return the largest difference, as a share, of two builds of one pipeline, or of one ratio in two processes."""
    one = _winner if pairing.has_slow_baseline else _baseline
    twins, winners = (
        [value for result in results for value in _log_ratios(result, *pair, log_ratio_of=log_ratio)]
        for pair in ((one, _twin), (_baseline, _winner))
    )
    spread = max(winners) - min(winners) if winners else 0.0
    return math.expm1(max([spread, *map(abs, twins)]))


def _sustained(results: list[Repetition]) -> float | None:
    """Return the throughput of the winner in runs of some seconds; ``None`` where there are none."""
    timed = [(result, result.sustained) for result in results if result.sustained and result.sustained.processes]
    if not timed:
        return None
    values = []
    for result, sustained in timed:
        for process in sustained.processes:
            # A slow baseline has no such runs. One of its inferences takes seconds anyway.
            baseline = process.baseline or [median(_baseline(each)) for each in result.timed.processes]
            # The last one: what is fast in its first calls only is over by then.
            values.append(math.log(baseline[-1] / _winner(process)[-1]))
    return math.exp(fmean(values))


def _baseline(process: ProcessSamples) -> Samples:
    return process.baseline


def _twin(process: ProcessSamples) -> Samples:
    return process.twin


def _winner(process: ProcessSamples) -> Samples:
    return process.candidates[0]


def _sequence(process: ProcessSamples) -> Samples:
    return process.candidates[1]


def _over_sequence(results: list[Repetition], *, reproducible: bool, level: float) -> SequenceGain | None:
    """Return what the winner gains over the sequence; ``None`` where two repetitions did not time it."""
    own = [result for result in results if result.has_sequence]
    if len(own) < 2:
        return None
    gains, throughputs = (
        _estimates(own, *pair, reproducible=reproducible, level=level)
        for pair in ((_sequence, _winner), (_baseline, _sequence))
    )
    least_gain = _least(own, _baseline, _sequence)
    latency_s = tuple(_sequence(each) for result in own for each in result.winner_processes)
    return SequenceGain(gains.fastest, throughputs.fastest, latency_s, gains, throughputs, least_gain)


def _estimates(
    results: list[Repetition],
    one: Callable[[ProcessSamples], Samples],
    other: Callable[[ProcessSamples], Samples],
    *,
    reproducible: bool,
    level: float,
) -> Estimates:
    """Return the throughput of ``other`` as a multiple of that of ``one``, by all estimators."""
    fastest, medians, at_end = (
        _ratio(results, one, other, reproducible=reproducible, level=level, log_ratio_of=estimator)
        for estimator in (log_ratio, log_ratio_of_medians, log_ratio_at_end)
    )
    assert fastest is not None
    return Estimates(fastest, medians, at_end)


def _case_gains(results: list[Repetition], *, reproducible: bool, level: float) -> tuple[CaseGain, ...]:
    """Return the gain in each case; none for a network with one case."""
    number = min(len(process.cases) for result in results for process in result.timed.processes or [_NO_CASES])
    gains = []
    for place in range(number):
        # The same processes, as if they had timed this case alone.
        own = [
            replace(result, timed=_only(result.timed, place), others=result.others and _only(result.others, place))
            for result in results
        ]
        ratio = _ratio(own, _baseline, _winner, reproducible=reproducible, level=level)
        assert ratio is not None
        winner_s = tuple(_winner(process) for result in own for process in result.winner_processes)
        baseline_s = tuple(_baseline(process) for result in own for process in result.timed.processes)
        gains.append(CaseGain(ratio, winner_s, baseline_s))
    return tuple(gains)


def _only(timed: TimedSamples, place: int) -> TimedSamples:
    return replace(timed, processes=tuple(process.cases[place] for process in timed.processes))


def _median_parts(compiles: Sequence[FreshCompile]) -> dict[str, float]:
    names = compiles[0].parts_s
    return {name: round(median(compiled.parts_s[name] for compiled in compiles), 4) for name in names}


def _compile_ratio(first_s: Sequence[float], second_s: Sequence[float], *, level: float) -> Ratio:
    """Return how many times faster the second compiles, from pairs."""
    # Student's t over a few pairs of compiles; docs/evidence/measurement.md says how far its intervals hold.
    return mean_ratio([math.log(first / second) for first, second in zip(first_s, second_s, strict=True)], level=level)


def _ratio(
    results: list[Repetition],
    one: Callable[[ProcessSamples], Samples],
    other: Callable[[ProcessSamples], Samples],
    *,
    reproducible: bool,
    level: float,
    log_ratio_of: Callable[[Samples, Samples], float] = log_ratio,
) -> Ratio | None:
    """Return the throughput of ``other`` as a multiple of that of ``one``.

    Its interval is over all processes where every compile made the same binary, else over the compiles. A slow baseline
    of many seconds is compared with the winner in the processes that time the winner well: beside it, the winner has
    one short run, whose time differs much from process to process.

    Source: Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM 2013: repeat at the highest level that
    varies. Compiles that give the same file, byte for byte, do not vary.
    """
    values = [_log_ratios(result, one, other, log_ratio_of=log_ratio_of) for result in results]
    if not all(values):
        return None
    repetitions = [[value] for each in values for value in each] if reproducible else values
    return mean_ratio([fmean(each) for each in repetitions], level=level)


def _log_ratios(
    result: Repetition,
    one: Callable[[ProcessSamples], Samples],
    other: Callable[[ProcessSamples], Samples],
    *,
    log_ratio_of: Callable[[Samples, Samples], float],
) -> list[float]:
    """Return the logarithms of the ratios that one repetition measured, by process."""
    if one is _baseline and result.is_apart and result.others:
        sides = product(result.timed.processes, result.others.processes)
        return [fmean(log_ratio_of(one(process), other(beside)) for process, beside in sides)]
    processes = result.timed.processes if one is _baseline else result.winner_processes
    return [log_ratio_of(one(process), other(process)) for process in processes]
