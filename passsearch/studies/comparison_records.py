"""The records of a comparison: its options, its toolchains with their pipelines, and the samples of all pipelines."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from passsearch.core import Candidate, Failure
from passsearch.evaluate import Built, Conditions, ProcessSamples, Samples, WorkerEvaluator
from passsearch.measure import (
    LEVEL,
    Consumption,
    Ratio,
    cf22_ratio,
    is_improvement,
    log_ratio,
    log_ratio_at_end,
    log_ratio_of_medians,
    mean_ratio,
    noise_floor,
    process_ratio,
    ratio_of_medians,
)
from passsearch.search.estimators import Estimates, is_far_beyond_noise
from passsearch.search.pass_selection import analyze_network, with_prerequisites

CACHES = ("warm", "flushed")
PAIRED, CF22 = PROTOCOLS = ("paired", "cf22")
"""The project's own protocol, and the paper's."""

BASELINE = 0
"""Index of the baseline among the timed pipelines; failures get index -1."""


@dataclass(frozen=True)
class ComparisonOptions:
    """Options of one comparison.

    Attributes:
        rounds: Rounds of each process.
        processes: Number of processes; as many as the verdicts need if ``None``.
        protocol: One of ``PROTOCOLS``.
        cache: One of ``CACHES``.
        runs: Runs of each pipeline that protocol ``CF22`` keeps; a tenth as many are discarded as warm-ups.
        reads_consumption: True to read power and energy too, where there is a meter.
    """

    rounds: int = 6
    processes: int | None = None
    protocol: str = PAIRED
    cache: str = "warm"
    runs: int = 1000
    reads_consumption: bool = True


@dataclass(frozen=True)
class Side:
    """One toolchain with the pipelines it builds."""

    evaluator: WorkerEvaluator
    candidates: Sequence[Candidate]

    def prepare(self, *, qualified: bool) -> "Side":
        """Return the side with prerequisite passes inserted; ``qualified`` names begin with the toolchain's."""
        session = self.evaluator.session
        analysis = analyze_network(session, self.evaluator.network.summary)
        candidates = [with_prerequisites(session, analysis, candidate) for candidate in self.candidates]
        if qualified:
            prefix = session.toolchain.name
            candidates = [
                replace(candidate, name=f"{prefix}:{candidate.name or candidate.pipeline}") for candidate in candidates
            ]
        return replace(self, candidates=candidates)


@dataclass(frozen=True)
class Contender:
    """One pipeline of a comparison.

    Attributes:
        side: Its toolchain.
        candidate: The pipeline with its build options.
        outcome: Its artifact, or its failure.
        index: Its place among the timed pipelines; -1 if it failed.
    """

    side: Side
    candidate: Candidate
    outcome: Built | Failure
    index: int


@dataclass(frozen=True)
class ComparisonSamples:
    """Samples of all pipelines of a comparison.

    Attributes:
        processes: Samples by turn. One turn has one process of each toolchain; they count as one process here.
        conditions: Conditions of each pipeline by index, of all turns together.
        protocol: One of ``PROTOCOLS``.
        level: Level of the intervals that decide verdicts, corrected for their number.
        baseline: Digest of the baseline's binary.
        consumption: Consumption of each pipeline by index; empty where some device has no meter.
    """

    processes: Sequence[ProcessSamples]
    conditions: Sequence[Conditions]
    protocol: str
    level: float
    baseline: str
    consumption: Sequence[Consumption] = ()

    def samples(self, process: ProcessSamples, index: int) -> Samples:
        """Return the samples of one pipeline in one process."""
        # A process has the baseline apart from the other artifacts, whose indices therefore begin at 1.
        return process.baseline if index == BASELINE else process.candidates[index - 1]

    def ratio(self, index: int, *, reference: int = BASELINE, level: float = LEVEL) -> Ratio:
        """Return one pipeline's throughput as a multiple of another's."""
        pairs = [(self.samples(process, reference), self.samples(process, index)) for process in self.processes]
        return cf22_ratio(pairs) if self.protocol == CF22 else process_ratio(pairs, level=level)

    def ratio_of_medians(self, index: int) -> Ratio | None:
        """Return the throughput ratio by median samples; ``None`` by the paper's protocol, which has one estimate."""
        pairs = [(self.samples(process, BASELINE), self.samples(process, index)) for process in self.processes]
        return None if self.protocol == CF22 else ratio_of_medians(pairs)

    @property
    def floor(self) -> float:
        """Share by which the baseline differs from its twin; infinite for too few processes."""
        pairs = [(process.baseline, process.twin) for process in self.processes]
        return noise_floor(cf22_ratio(pairs) if self.protocol == CF22 else process_ratio(pairs))

    def is_faster(self, index: int, *, reference: int = BASELINE) -> bool:
        """Return whether one pipeline is certainly faster than another, beyond the noise and by all estimators."""
        ratio = self.ratio(index, reference=reference, level=self.level)
        if self.protocol == CF22 or len(self.processes) < 2:
            return is_improvement(ratio, floor=self.floor)
        fastest, medians, at_end = (
            [estimator(self.samples(each, reference), self.samples(each, index)) for each in self.processes]
            for estimator in (log_ratio, log_ratio_of_medians, log_ratio_at_end)
        )
        ordinary, last = (mean_ratio(values, level=self.level) for values in (medians, at_end))
        if Estimates(ratio, ordinary, last).disagreement:
            return False
        noise = math.expm1(max(max(fastest) - min(fastest), self._twin_difference))
        if is_far_beyond_noise(math.exp(min(*fastest, *medians, *at_end)), noise=noise):
            return True
        # A floor that cannot be estimated decides nothing.
        return is_improvement(ratio, floor=self.floor if math.isfinite(self.floor) else noise)

    @property
    def _twin_difference(self) -> float:
        """Largest log-ratio of the baseline and its twin in one process, whichever is faster."""
        return max(abs(log_ratio(process.baseline, process.twin)) for process in self.processes)
