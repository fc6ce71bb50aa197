"""A table of the times of kernels: alone, and in their places in a network."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile

from passsearch.core import Failure, PassSpec
from passsearch.dialects.contract import Kernel
from passsearch.evaluate import KernelProfiler, NetworkKernels

AT_ONCE, AT_ONCE_AT_LAST, LAST_S = 16, 4, 10.0
"""Numbers of schedules of a kernel that are timed before the clock is read again: usually, and in the last seconds."""


class OutOfTime(Exception):
    """The search ended before all kernels were timed."""


class KernelTimes:
    """Seconds of one call of a kernel, by the pass that schedules it.

    Attributes:
        alone: Times of kernels alone, by digest of the kernel; empty for a kernel without a schedule that runs.
        failures: Why a kernel without any time has none, by its digest: the failure of its first schedule.
        are_corrected: True once no other schedule will be timed in its place. Schedules that were not timed there, and
            kernels that no timed network had, are then out of the question: a prediction is good enough to try
            something, and no reason to keep it.
    """

    def __init__(self, profiler: KernelProfiler, *, left_s: Callable[[], float]) -> None:
        """Begin an empty table.

        Args:
            profiler: Times kernels alone.
            left_s: Returns the seconds that are left to time kernels alone.
        """
        self._profiler, self._left_s = profiler, left_s
        self.alone: dict[str, dict[PassSpec, float]] = {}
        self.failures: dict[str, Failure] = {}
        self._ahead: set[tuple[str, PassSpec]] = set()  # timed beside others, so that asking takes no time
        self._asked: defaultdict[str, set[PassSpec]] = defaultdict(set)  # schedules that fail have no time
        self._in_places: defaultdict[str, dict[PassSpec, float]] = defaultdict(dict)
        self._met: set[str] = set()  # in networks that were timed; some of their kernels become views and take no time
        self.are_corrected = False

    def take(self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec]) -> Mapping[PassSpec, float]:
        """Return the times of a kernel alone, with these schedules among them if they run and time is left.

        Args:
            network: The network that has the kernel.
            kernel: The kernel.
            steps: The passes that schedule it, the pipeline's own first: the others have to compute what it computes.

        Raises:
            OutOfTime: No schedule was ever tried and no time is left.
        """
        times, asked = self.alone.setdefault(kernel.digest, {}), self._asked[kernel.digest]
        missing = [step for step in steps if step not in asked]
        while missing:
            left_s = self._left_s()
            part = missing[: AT_ONCE if left_s > LAST_S else AT_ONCE_AT_LAST]
            if left_s <= 0:
                part = list(takewhile(partial(self._is_timed, network, kernel), missing))
                if not part and not asked:
                    raise OutOfTime
                if not part:
                    break
            answer = self._profiler.variants(network, kernel, [steps[0], *part] if asked else part)
            asked.update(part)
            missing = missing[len(part) :]
            if isinstance(answer, Failure):
                self.failures.setdefault(kernel.digest, answer)
            else:
                times.update(answer)
        return times

    def _is_timed(self, network: NetworkKernels, kernel: Kernel, step: PassSpec) -> bool:
        """Return whether a schedule was timed ahead or by an earlier start of the run, so that asking takes no time."""
        return (kernel.digest, step) in self._ahead or self._profiler.is_timed(network, kernel, step)

    def take_ahead(self, network: NetworkKernels, kernels: Sequence[Kernel], steps: Sequence[PassSpec]) -> None:
        """Have schedules of several kernels timed side by side, where the device allows it; ``take`` finds the times.

        Args:
            network: The network that has the kernels.
            kernels: The kernels.
            steps: The passes that schedule them, the pipeline's own first.
        """
        if self._left_s() > 0 and self._profiler.time_ahead(network, kernels, steps):
            self._ahead |= {(kernel.digest, step) for kernel in kernels for step in steps}

    def learn(self, network: NetworkKernels, schedule: Callable[[str], PassSpec], seconds: Mapping[str, float]) -> None:
        """Add the times that kernels took inside the network.

        Args:
            network: The kernels.
            schedule: Returns the pass that scheduled a kernel, by its name.
            seconds: Seconds of all calls by name of the kernel.
        """
        self._met.update(kernel.digest for kernel in network.kernels)
        for kernel in network.kernels:
            if kernel.name in seconds:
                times, step = self._in_places[kernel.digest], schedule(kernel.name)
                times[step] = min(times.get(step, math.inf), seconds[kernel.name] / kernel.calls)

    def is_usable(self, digest: str) -> bool:
        """Return whether a network may have a kernel now: once all is corrected, one that was met in a network."""
        return not self.are_corrected or not self._met or digest in self._met

    def usable(self, digest: str) -> Mapping[PassSpec, float]:
        """Return the times of the schedules that a kernel may get."""
        places = self._in_places.get(digest, {})
        return places if places and self.are_corrected else self.predicted(digest)

    def predicted(self, digest: str) -> Mapping[PassSpec, float]:
        """Return the times of all schedules of a kernel, in its place where they were timed there.

        For a schedule not timed in its place, the time alone is multiplied by the smallest slowdown seen in this place.
        If that estimate is the fastest, the schedule is timed next.
        """
        alone, places = self.alone[digest], self._in_places.get(digest, {})
        factor = min((seconds / alone[step] for step, seconds in places.items() if step in alone), default=1.0)
        return {step: places.get(step, factor * seconds) for step, seconds in alone.items()}
