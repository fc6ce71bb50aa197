"""The result of a confirmation: its ratios, its verdict, and whether further repetitions could change it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from passsearch.evaluate import Conditions, Samples, summarize_conditions
from passsearch.measure import MIN_GAIN, Ratio, is_improvement, mean_ratio
from passsearch.objectives import THROUGHPUT, ConsumptionTurn, Objective
from passsearch.search.estimators import Estimates, is_far_beyond_noise


@dataclass(frozen=True)
class CaseGain:
    """What the candidate gains in one case of a network with several.

    Attributes:
        throughput: Throughput of the candidate over the baseline's.
        latency_s: Samples of the candidate, by process.
        baseline_latency_s: Samples of the baseline.
    """

    throughput: Ratio
    latency_s: tuple[Samples, ...]
    baseline_latency_s: tuple[Samples, ...]


@dataclass(frozen=True)
class SequenceGain:
    """What the candidate gains over the best of the catalog's sequences, which a user has without a search.

    Attributes:
        gain: Throughput of the candidate over the sequence's.
        throughput: Throughput of the sequence over the baseline's.
        latency_s: Samples of the sequence, by process.
        gains: ``gain`` by all estimators.
        throughputs: ``throughput`` by all estimators.
        least_gain: Smallest ``throughput`` that a process has read, by any estimator.
    """

    gain: Ratio
    throughput: Ratio
    latency_s: tuple[Samples, ...]
    gains: Estimates
    throughputs: Estimates
    least_gain: float


@dataclass(frozen=True)
class Confirmation:
    """The result of fresh compiles in fresh processes.

    Attributes:
        throughput: Throughput of the candidate over the baseline's; ``None`` where nothing runs.
        throughput_of_medians: The same by the processes' median samples, beside that by their fastest ones.
        compile_time: Number of times the candidate compiles faster.
        compile_twin: Number of times another compile of the baseline is faster than the first; ``None`` where compile
            time is not the objective.
        twin: Throughput of another compile of the baseline over the baseline's, or of the candidate over the
            candidate's, which shows what the machine calls equal; ``None`` where nothing runs.
        repetitions: Number of fresh compiles of either.
        processes: Number of new processes that timed both.
        reproducible: True if every compile of a candidate gave the same binary, byte for byte.
        same_binary: True if candidate and baseline are one binary, so that neither can be faster.
        compile_s: Compile times of the candidate, one per repetition, and of compiles beside them that were not timed.
        baseline_compile_s: Compile times of the baseline.
        parts_s: Parts of the candidate's compile times by ``COMPILE_PARTS``, median over the repetitions.
        baseline_parts_s: Parts of the baseline's compile times.
        apply_s: Time to apply the candidate's pipeline, which is part of ``compile_s``.
        latency_s: Samples of the candidate, by process; of those without the baseline, where it is slow.
        baseline_latency_s: Samples of the baseline.
        conditions: Conditions of each process.
        seconds: Wall time of all compiles and all timing, starts of processes included.
        level: Confidence level of every interval, corrected for the number of looks at the repetitions.
        consumption: Consumption by repetition; empty where the device has no meter.
        cases: The gain in each case, where the network has several and ``throughput`` is that of the mean time.
        over_sequence: The gain over a sequence of the catalog; ``None`` where none was timed.
        throughput_at_end: ``throughput`` by the last rounds of each process.
        sustained: ``throughput`` by one run of some seconds without a pause; ``None`` where none was made.
        noise: Largest difference that a process has read between two builds of one pipeline, or that two processes have
            read of one ratio, as a share.
        least_gain: Smallest ``throughput`` that a process has read, by any estimator; 0 where nothing runs.
        baseline_digests: Digests of the baseline's binaries.
    """

    throughput: Ratio | None
    throughput_of_medians: Ratio | None
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
    level: float
    consumption: Sequence[ConsumptionTurn] = ()
    cases: tuple[CaseGain, ...] = ()
    over_sequence: SequenceGain | None = None
    throughput_at_end: Ratio | None = None
    sustained: float | None = None
    noise: float = 0.0
    least_gain: float = 0.0
    baseline_digests: frozenset[str] = frozenset()

    @property
    def estimates(self) -> Estimates | None:
        """The throughput by all estimators; ``None`` where nothing runs."""
        if self.throughput is None:
            return None
        return Estimates(self.throughput, self.throughput_of_medians, self.throughput_at_end, self.sustained)

    def keeps(self, objective: Objective, least: float) -> bool:
        """Return whether a gain in another objective leaves this share of the throughput; one binary loses none."""
        # The lower end and not the ratio: to keep throughput must be as certain as to gain something else.
        if objective.is_speed or self.same_binary:
            return True
        if self.estimates is None:
            return least <= 0
        return self.estimates.fastest.interval.low >= least and not self.estimates.deny(least)

    def loses_throughput(self, least: float) -> bool:
        """Return whether the candidate certainly has less than this share of the baseline's throughput."""
        if self.same_binary or self.estimates is None:
            return False
        return self.estimates.fastest.interval.high < least or self.estimates.deny(least)

    def improves(self, objective: Objective, *, keep_throughput: float) -> bool:
        """Return whether the candidate is better in an objective, beyond the noise and with enough throughput.

        If candidate and baseline are one binary, only the compile time can improve.

        Args:
            objective: The objective.
            keep_throughput: Least throughput as a share of the baseline's, where no objective is speed.
        """
        # A difference that processes read between two copies of one binary is noise, whatever its interval says.
        if self.same_binary and objective.is_equal_for_one_binary:
            return False
        return (
            self.keeps(objective, keep_throughput)
            and self._exceeds_noise(objective)
            and not self.disagreement(objective)
        )

    def disagreement(self, objective: Objective) -> str:
        """Return what one estimate of the speed says against another; empty if they agree, or for other objectives."""
        return self.estimates.disagreement if objective.is_speed and self.estimates else ""

    def _exceeds_noise(self, objective: Objective) -> bool:
        """Return whether a gain is certain and larger than the noise; one far beyond it needs neither."""
        ratio, floor = objective.ratio(self), objective.floor(self)
        if ratio is None:
            return False
        if objective.is_speed and is_far_beyond_noise(self.least_gain, noise=self.noise) and self.repetitions > 1:
            return True
        # A floor that cannot be estimated decides nothing; the differences that were seen are the least there is.
        return is_improvement(ratio, floor=floor if math.isfinite(floor) or not objective.is_speed else self.noise)

    def improves_on_sequence(self) -> bool:
        """Return whether the candidate is faster than the sequence of the catalog, beyond the noise."""
        timed = self.over_sequence
        # Who gains nothing over the baseline gains nothing: a sequence may be slower than that.
        if timed is None or timed.gains.disagreement or not self.improves(THROUGHPUT, keep_throughput=0.0):
            return False
        floor = THROUGHPUT.floor(self)
        return is_improvement(timed.gain, floor=floor if math.isfinite(floor) else self.noise)

    def of_sequence(self, *, digest: str, compile_s: float) -> "Confirmation":
        """Return what the repetitions say about the sequence that was timed beside the winner, in its place.

        It was not compiled afresh, so its compile time is the one of the search.

        Args:
            digest: Digest of the sequence's binary.
            compile_s: Its compile time.
        """
        timed = self.over_sequence
        assert timed is not None
        return replace(
            self,
            throughput=timed.throughput,
            throughput_of_medians=timed.throughputs.medians,
            throughput_at_end=timed.throughputs.at_end,
            sustained=None,
            least_gain=timed.least_gain,
            same_binary=digest in self.baseline_digests,
            compile_time=mean_ratio([math.log(fmean(self.baseline_compile_s) / compile_s)], level=self.level),
            compile_s=(compile_s,),
            parts_s={},
            apply_s=(),
            latency_s=timed.latency_s,
            consumption=(),
            cases=(),
            over_sequence=None,
        )

    def _may_improve_on_sequence(self) -> bool:
        """Return whether the candidate looks faster than the sequence, which is not certain yet."""
        timed = self.over_sequence
        if timed is None or not self.improves(THROUGHPUT, keep_throughput=0.0):
            return False
        if timed.gains.is_certain_disagreement:
            return False
        return timed.gain.value > 1 + MIN_GAIN and not self.improves_on_sequence()

    def is_decided(
        self, objective: Objective, *, keep_throughput: float, least_floor: float, is_about_sequence: bool = True
    ) -> bool:
        """Return whether further repetitions are of no use: they would change neither the verdict nor its meaning.

        Args:
            objective: The objective.
            keep_throughput: Least throughput as a share of the baseline's, where no objective is speed.
            least_floor: Noise floor below which "no better" says that no gain worth having was overlooked.
            is_about_sequence: False if the gain over the sequence may stay in doubt.
        """
        if is_about_sequence and self._may_improve_on_sequence():
            return False
        ratio = objective.ratio(self)
        if ratio is None or self.improves(objective, keep_throughput=keep_throughput):
            return True
        if self.same_binary and objective.is_equal_for_one_binary:
            return True
        if not objective.is_speed and self.loses_throughput(keep_throughput):
            return True
        if objective.is_speed and self.estimates and self.estimates.is_certain_disagreement:
            return True
        # If the ratio so far is not above the least gain, the repetitions end. This can miss a real gain, but cannot
        # report a false one.
        if ratio.value > 1 + MIN_GAIN:
            return False
        return objective.is_certain(ratio, self, least_floor=least_floor)

    @property
    def summary(self) -> Conditions:
        """Conditions of all processes in one."""
        return summarize_conditions(self.conditions)
