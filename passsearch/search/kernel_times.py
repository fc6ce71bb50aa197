"""A table of the times of kernels: alone, and in their places in a network."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from passsearch.core import PassSpec
from passsearch.dialects.contract import Kernel
from passsearch.evaluate import KernelProfiler, NetworkKernels


class OutOfTime(Exception):
    """The search ended before all kernels were timed."""


class KernelTimes:
    """Seconds of one call of a kernel, by the pass that schedules it.

    Attributes:
        alone: Times of kernels alone, by digest of the kernel; empty for a kernel without a schedule that runs.
        are_corrected: True once no other schedule will be timed in its place. Those that were not timed there are then
            out of the question: a prediction is good enough to try a schedule, and no reason to keep it.
    """

    def __init__(self, profiler: KernelProfiler, *, is_over: Callable[[], bool]) -> None:
        """Begin an empty table.

        Args:
            profiler: Times kernels alone.
            is_over: Returns True once no more time is left.
        """
        self._profiler, self._is_over = profiler, is_over
        self.alone: dict[str, dict[PassSpec, float]] = {}
        self._asked: defaultdict[str, set[PassSpec]] = defaultdict(set)  # schedules that fail have no time
        self._in_places: defaultdict[str, dict[PassSpec, float]] = defaultdict(dict)
        self.are_corrected = False

    def take(self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec]) -> Mapping[PassSpec, float]:
        """Return the times of a kernel alone, with these schedules among them if they run.

        Raises:
            OutOfTime: A schedule was never tried and no time is left.
        """
        times, asked = self.alone.setdefault(kernel.digest, {}), self._asked[kernel.digest]
        missing = [step for step in steps if step not in asked]
        if missing:
            if self._is_over():
                raise OutOfTime
            times.update(self._profiler.variants(network, kernel, missing))
            asked.update(missing)
        return times

    def learn(self, network: NetworkKernels, schedule: Callable[[str], PassSpec], seconds: Mapping[str, float]) -> None:
        """Add the times of kernels in their places.

        Args:
            network: The kernels.
            schedule: Returns the pass that scheduled a kernel, by its name.
            seconds: Seconds of all calls by name of the kernel.
        """
        for kernel in network.kernels:
            if kernel.name in seconds:
                times, step = self._in_places[kernel.digest], schedule(kernel.name)
                times[step] = min(times.get(step, math.inf), seconds[kernel.name] / kernel.calls)

    def best_known(self, digest: str) -> Mapping[PassSpec, float]:
        """Return the times of a kernel, in its place where it was timed there.

        For a schedule not timed in its place, the time alone is multiplied by the smallest slowdown seen in this place.
        If that estimate is the fastest, the schedule is timed next.
        """
        alone, places = self.alone[digest], self._in_places.get(digest, {})
        if places and self.are_corrected:
            return places
        factor = min((seconds / alone[step] for step, seconds in places.items() if step in alone), default=1.0)
        return {step: places.get(step, factor * seconds) for step, seconds in alone.items()}
