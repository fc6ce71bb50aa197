"""One network that is called in several ways: its time is the mean over the cases by their weights."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from passsearch.core import Case
from passsearch.dialects.contract import Array, Executable, KernelCalls


class WeightedSeconds(float):
    """The mean seconds of one inference over the cases.

    Attributes:
        parts: Seconds of one inference of each case.
        weights: Weights of the cases.
    """

    parts: tuple[float, ...]
    weights: tuple[float, ...]

    def __new__(cls, parts: Sequence[float], weights: Sequence[float]) -> "WeightedSeconds":
        """Return the mean of the parts, by weights that add up to 1."""
        seconds = super().__new__(cls, math.fsum(part * weight for part, weight in zip(parts, weights, strict=True)))
        seconds.parts, seconds.weights = tuple(parts), tuple(weights)
        return seconds

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return the arguments from which a copy is made; `dataclasses.asdict` copies every value."""
        return self.parts, self.weights


class Mixture(Executable):
    """A built network with its cases. Its inputs have the names ``CASE.INPUT``, its outputs are those of all cases.

    Attributes:
        run_s: Seconds of one inference as last measured, by weights.
        call_weights: Weight of every kernel call of the last ``run_by_kernel``.
    """

    def __init__(self, network: Executable, cases: Sequence[Case]) -> None:
        self._executables = [network.entry(case.entry) for case in cases]
        self._cases, self._weights = cases, [case.weight for case in cases]
        self.run_s = WeightedSeconds([0.0] * len(cases), self._weights)
        self.call_weights: list[float] = []

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Run every case once and return all outputs."""
        outputs: list[Array] = []
        parts = []
        for case, executable in zip(self._cases, self._executables, strict=True):
            own, start = case.own(inputs), time.perf_counter()
            outputs += executable.run(own)
            parts.append(time.perf_counter() - start)
        self.run_s = WeightedSeconds(parts, self._weights)
        return outputs

    def held_inputs(self) -> Mapping[str, Array]:
        """Return copies of the inputs that each case read in its last run, by case and name (``Case.full_name``)."""
        pairs = zip(self._cases, self._executables, strict=True)
        return {
            case.full_name(name): array
            for case, executable in pairs
            for name, array in executable.held_inputs().items()
        }

    def run_repeatedly(self, number: int) -> None:
        """Run every case so many times."""
        for executable in self._executables:
            executable.run_repeatedly(number)

    def event_time_s(self, number: int) -> WeightedSeconds:
        """Return the mean seconds of one inference, each case timed by events of the device or by the clock.

        Each case runs for its part of the time that ``number`` inferences take, once at least.
        """
        part_s = number * self.run_s / len(self._executables)
        counts = [max(1, math.ceil(part_s / max(once_s, 1e-7))) if number > 1 else 1 for once_s in self.run_s.parts]
        pairs = zip(self._executables, counts, strict=True)
        self.run_s = WeightedSeconds([_time(executable, count) for executable, count in pairs], self._weights)
        return self.run_s

    def kernel_bits(self, inputs: Mapping[str, Array]) -> Sequence[tuple[str, str]] | None:
        """Run every case once and return the digests of all kernel calls."""
        pairs = zip(self._cases, self._executables, strict=True)
        found = [executable.kernel_bits(case.own(inputs)) for case, executable in pairs]
        return [bits for each in found for bits in each or ()] or None

    def run_by_kernel(self, inputs: Mapping[str, Array], *, with_runtime: bool = False) -> KernelCalls | None:
        """Run every case once and return the kernel calls of all."""
        calls: list[tuple[str, float]] = []
        self.call_weights = []
        for case, executable in zip(self._cases, self._executables, strict=True):
            own = executable.run_by_kernel(case.own(inputs), with_runtime=with_runtime)
            if own is None:
                return None
            calls += own
            self.call_weights += [case.weight] * len(own)
        return calls


def _time(executable: Executable, number: int) -> float:
    """Return the seconds per inference of some inferences in a row."""
    events_s = executable.event_time_s(number)
    if events_s is not None:
        return events_s
    start = time.perf_counter()
    executable.run_repeatedly(number)
    return (time.perf_counter() - start) / number
