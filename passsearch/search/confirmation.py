"""The result of a confirmation: its ratios, its verdict, and whether further repetitions could change it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from passsearch.core import SPEED_OBJECTIVES
from passsearch.evaluate import Conditions, Samples, summarize_conditions
from passsearch.measure import (
    CONSUMPTION_OBJECTIVES,
    MIN_GAIN,
    Consumption,
    Ratio,
    is_improvement,
    mean_ratio,
    noise_floor,
)

CLEAR = 1.05
"""Ratio of compile times up to which two candidates compile equally fast, for a reader."""


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
    """

    gain: Ratio
    throughput: Ratio
    latency_s: tuple[Samples, ...]


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

    def ratio(self, objective: str) -> Ratio | None:
        """Return how many times better the candidate is; ``None`` for what is not measured again."""
        if objective in CONSUMPTION_OBJECTIVES:
            return self._consumption_ratio(objective, lambda turn: turn.candidate)
        # Peak memory is read when outputs are compared, and a confirmation does not compare them again.
        return {"compile_time": self.compile_time, "memory": None}.get(objective, self.throughput)

    def floor(self, objective: str) -> float:
        """Return the share by which two compiles of one pipeline may differ in an objective.

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
        values = [turn.baseline.log_ratio(other(turn), objective=objective) for turn in self.consumption]
        return mean_ratio(values, level=self.level)

    def keeps(self, objective: str, least: float) -> bool:
        """Return whether a gain in another objective leaves this share of the throughput; one binary loses none."""
        # The lower end and not the ratio: to keep throughput must be as certain as to gain something else.
        if objective in SPEED_OBJECTIVES or self.same_binary:
            return True
        return least <= 0 if self.throughput is None else self.throughput.interval.low >= least

    def improves(self, objective: str, *, keep_throughput: float) -> bool:
        """Return whether the candidate is better in an objective, beyond the noise and with enough throughput.

        If candidate and baseline are one binary, only the compile time can improve.

        Args:
            objective: Name of the objective.
            keep_throughput: Least throughput as a share of the baseline's, where no objective is speed.
        """
        # A difference that processes read between two copies of one binary is noise, whatever its interval says.
        ratio = self.ratio(objective)
        if ratio is None or (self.same_binary and objective != "compile_time"):
            return False
        return self.keeps(objective, keep_throughput) and is_improvement(ratio, floor=self.floor(objective))

    def improves_on_sequence(self) -> bool:
        """Return whether the candidate is faster than the sequence of the catalog, beyond the noise."""
        timed = self.over_sequence
        # Who gains nothing over the baseline gains nothing: a sequence may be slower than that.
        if timed is None or not self.improves("throughput", keep_throughput=0.0):
            return False
        return is_improvement(timed.gain, floor=self.floor("throughput"))

    def _may_improve_on_sequence(self) -> bool:
        """Return whether the candidate looks faster than the sequence, which is not certain yet."""
        timed = self.over_sequence
        if timed is None or not self.improves("throughput", keep_throughput=0.0):
            return False
        return timed.gain.value > 1 + MIN_GAIN and not self.improves_on_sequence()

    def is_decided(
        self, objective: str, *, keep_throughput: float, least_floor: float, is_about_sequence: bool = True
    ) -> bool:
        """Return whether further repetitions are of no use: they would change neither the verdict nor its meaning.

        Args:
            objective: Name of the objective.
            keep_throughput: Least throughput as a share of the baseline's, where no objective is speed.
            least_floor: Noise floor below which "no better" says that no gain worth having was overlooked.
            is_about_sequence: False if the gain over the sequence may stay in doubt.
        """
        if is_about_sequence and self._may_improve_on_sequence():
            return False
        ratio = self.ratio(objective)
        if ratio is None or self.improves(objective, keep_throughput=keep_throughput):
            return True
        if self.same_binary and objective != "compile_time":
            return True
        if objective not in SPEED_OBJECTIVES and self._is_certainly_too_slow(keep_throughput):
            return True
        # If the ratio so far is not above the least gain, the repetitions end. This can miss a real gain, but cannot
        # report a false one.
        if ratio.value > 1 + MIN_GAIN:
            return False
        # Compiles are too few and too noisy for such a floor, so they end when it is clear which of two is faster.
        return _is_clear(ratio) if objective == "compile_time" else self._is_certain(ratio, objective, least_floor)

    def _is_certainly_too_slow(self, keep_throughput: float) -> bool:
        return self.throughput is not None and self.throughput.interval.high < keep_throughput

    def _is_certain(self, ratio: Ratio, objective: str, least_floor: float) -> bool:
        """Return whether the interval has no gain that counts, or the noise is too small to hide one."""
        return ratio.interval.high <= 1 + MIN_GAIN or self.floor(objective) < least_floor

    @property
    def summary(self) -> Conditions:
        """Conditions of all processes in one."""
        return summarize_conditions(self.conditions)


def _is_clear(compile_time: Ratio) -> bool:
    """Return whether it is clear which of two compiles faster, or that both are about equally fast."""
    low, high = compile_time.interval.low, compile_time.interval.high
    return low > 1 or high < 1 or (low > 1 / CLEAR and high < CLEAR)
