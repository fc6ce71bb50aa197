"""Times kernels: the variants of one kernel alone, and all kernels of a network in their places.

A kernel in its place finds the caches as the kernels before it left them, and pays for what it does to them.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from passsearch.dialects.contract import Array, Executable, KernelCalls, KernelExecutable
from passsearch.measure.mixture import Mixture
from passsearch.measure.processor import CpuTimes
from passsearch.measure.rounds import FOREIGN_LIMIT, MIN_COUNTED_S


@dataclass(frozen=True)
class VariantPlan:
    """Plan by which the variants of one kernel are timed alone.

    Attributes:
        first_rounds: Rounds after which variants that are far slower than the fastest leave.
        rounds: Rounds for the others.
        margin: A variant leaves if it takes so many times as long as the fastest.
        longest_s: Time after which no further round begins, in seconds.
        attempts: Number of times that all rounds run if other processes use the cores.
    """

    first_rounds: int = 3
    rounds: int = 15
    margin: float = 1.25
    longest_s: float = 1.0
    attempts: int = 3


def time_variants(
    variants: Sequence[KernelExecutable], plan: VariantPlan, *, cores: Sequence[int] = ()
) -> tuple[list[list[float]], bool]:
    """Run variants of one kernel in turns; return the seconds of every run of each, and whether others disturbed all.

    Args:
        variants: The variants.
        plan: The plan.
        cores: Cores that the process is pinned to. If others used them, all variants run again.
    """
    for variant in variants:
        variant.run()  # starts threads and reads the code
    samples: list[list[float]] = [[] for _ in variants]
    is_quiet = _until_undisturbed(lambda: _race(variants, plan, samples), plan.attempts, cores)
    return samples, not is_quiet


@dataclass(frozen=True)
class PlacePlan:
    """Plan by which all kernels of several networks are timed in their places.

    Attributes:
        processes: Number of processes, each of which loads the networks to other places in memory.
        rounds: Largest number of rounds in a process; in each of them every network has its turn.
        least_rounds: Smallest number.
        runs: Number of runs in a row that a turn has: another network's weights may have taken the caches before it.
        longest_s: Time after which no further round begins, in seconds.
        attempts: Number of times that all rounds run if other processes use the cores.
    """

    processes: int = 3
    rounds: int = 15
    least_rounds: int = 2
    runs: int = 3
    longest_s: float = 2.0
    attempts: int = 3


@dataclass(frozen=True)
class Places:
    """The times of one network's kernels in their places, and of the network.

    Attributes:
        kernels: Seconds by name of the kernel: the sum over its calls, weighed where there are several cases.
        whole_s: Seconds of one inference that nobody observes; the mean by weights where there are several cases.
    """

    kernels: Mapping[str, float]
    whole_s: float


def time_places(
    executables: Sequence[Executable], plan: PlacePlan, *, inputs: Mapping[str, Array], cores: Sequence[int] = ()
) -> list[Places | None]:
    """Run networks in turns and return the times of their kernels and of their whole inferences.

    The time of a call and that of an inference are the fastest of all runs, as disturbances and cold caches only add
    time. The result is ``None`` for a runtime that does not tell kernels apart.

    Args:
        executables: The networks.
        plan: The plan of one process. In every run of a turn an inference is timed by its calls, another as a whole.
        inputs: Their inputs.
        cores: Cores that the process is pinned to. If others used them, all rounds run again.
    """

    def faster(_: Executable, first: KernelCalls, second: KernelCalls) -> KernelCalls:
        return [(name, min(seconds, other_s)) for (name, seconds), (_, other_s) in zip(first, second, strict=True)]

    times = _run_in_turns(executables, plan, faster, inputs=inputs, cores=cores, with_runtime=False)
    return [
        None if calls is None else Places(_sums(calls, _call_weights(each, calls)), whole_s)
        for each, (calls, whole_s) in zip(executables, times, strict=True)
    ]


@dataclass(frozen=True)
class Profile:
    """The times of one network.

    Attributes:
        calls: Name and seconds of every call of one inference in order, those of the runtime among them; ``None`` for a
            runtime that does not tell kernels apart.
        whole_s: Seconds of one inference that nobody observes; the mean by weights where there are several cases.
        weights: Weight of every call, 1 where there is one case.
    """

    calls: KernelCalls | None
    whole_s: float
    weights: Sequence[float]


def profile_networks(
    executables: Sequence[Executable], plan: PlacePlan, *, inputs: Mapping[str, Array], cores: Sequence[int] = ()
) -> list[Profile]:
    """Run networks in turns and return the seconds of each one's calls, and of its whole inference.

    All calls come from one inference, the fastest observed one. Their sum can be compared with the fastest unobserved
    inference. Minima of single calls from several inferences would add up to less than any real inference.

    Args:
        executables: The networks.
        plan: The plan of one process. In every run of a turn an inference is timed by its calls, another as a whole.
        inputs: Their inputs.
        cores: Cores that the process is pinned to. If others used them, all rounds run again.
    """

    def faster(executable: Executable, *inferences: KernelCalls) -> KernelCalls:
        return min(inferences, key=lambda calls: sum(_sums(calls, _call_weights(executable, calls)).values()))

    times = _run_in_turns(executables, plan, faster, inputs=inputs, cores=cores, with_runtime=True)
    return [
        Profile(calls, whole_s, [] if calls is None else _call_weights(each, calls))
        for each, (calls, whole_s) in zip(executables, times, strict=True)
    ]


def _whole_s(executable: Executable) -> float:
    """Return the seconds of one inference."""
    if isinstance(executable, Mixture):
        return executable.event_time_s(1)
    begin = time.perf_counter()
    executable.run_repeatedly(1)
    return time.perf_counter() - begin


def _call_weights(executable: Executable, calls: KernelCalls) -> Sequence[float]:
    """Return the weight of every call that an executable has made."""
    return list(executable.call_weights) if isinstance(executable, Mixture) else [1.0] * len(calls)


def _run_in_turns(
    executables: Sequence[Executable],
    plan: PlacePlan,
    faster: Callable[[Executable, KernelCalls, KernelCalls], KernelCalls],
    *,
    inputs: Mapping[str, Array],
    cores: Sequence[int],
    with_runtime: bool,
) -> list[tuple[KernelCalls | None, float]]:
    """Run networks in turns and return by network its calls and the seconds of its fastest unobserved inference.

    In every run of a turn an inference is timed by its calls, another as a whole.

    Args:
        executables: The networks.
        plan: The plan of one process.
        faster: Returns what is kept of a network's calls so far and of its calls in another inference. It is not asked
            about inferences that called different kernels; the calls of such a network are ``None``.
        inputs: Inputs of the networks.
        cores: Cores that the process is pinned to. If others used them, all rounds run again.
        with_runtime: True to time the calls of the runtime too.
    """
    fastest: list[KernelCalls | None] = []
    for executable in executables:
        executable.run(inputs)  # ``run_repeatedly`` reads the inputs that are set here
        fastest.append(executable.run_by_kernel(inputs, with_runtime=with_runtime))
    whole_s = [math.inf] * len(executables)

    def visit(place: int) -> None:
        executable, first = executables[place], fastest[place]
        second = executable.run_by_kernel(inputs, with_runtime=with_runtime)
        fastest[place] = faster(executable, first, second) if first and second and _are_same(first, second) else None
        whole_s[place] = min(whole_s[place], _whole_s(executable))

    def rounds() -> None:
        begin = time.perf_counter()
        for turn in range(plan.rounds):
            if turn >= plan.least_rounds and time.perf_counter() - begin > plan.longest_s:
                return
            for place in range(len(executables)):
                for _ in range(plan.runs):
                    visit(place)

    _until_undisturbed(rounds, plan.attempts, cores)
    return list(zip(fastest, whole_s, strict=True))


def _are_same(first: KernelCalls, second: KernelCalls) -> bool:
    """Return whether two inferences called the same kernels."""
    return [name for name, _ in first] == [name for name, _ in second]


def _sums(calls: KernelCalls, weights: Sequence[float]) -> dict[str, float]:
    seconds: defaultdict[str, float] = defaultdict(float)
    for (name, value), weight in zip(calls, weights, strict=True):
        seconds[name] += weight * value
    return dict(seconds)


def _race(variants: Sequence[KernelExecutable], plan: VariantPlan, samples: Sequence[list[float]]) -> None:
    """Add the seconds of runs of each variant; those that are far slower than the fastest one leave early."""
    racing, begin = list(range(len(variants))), time.perf_counter()
    for turn in range(plan.rounds):
        if turn >= plan.first_rounds:
            fastest = [min(runs, default=math.inf) for runs in samples]
            racing = [place for place in racing if fastest[place] <= plan.margin * min(fastest, default=math.inf)]
            if time.perf_counter() - begin > plan.longest_s:
                return
        for place in racing:
            samples[place].append(_run_s(variants[place]))


def _run_s(variant: KernelExecutable) -> float:
    """Return the seconds of one run."""
    seconds = variant.event_time_s()
    if seconds is not None:
        return seconds
    start = time.perf_counter()
    variant.run()
    return time.perf_counter() - start


def _until_undisturbed(measure: Callable[[], None], attempts: int, cores: Sequence[int]) -> bool:
    """Measure again, up to so many times, while other processes use the cores; return whether one was undisturbed."""
    for _ in range(attempts):
        before = CpuTimes.read(cores)
        measure()
        if not _is_disturbed(before, CpuTimes.read(cores)):
            return True
    return False


def _is_disturbed(before: CpuTimes, after: CpuTimes) -> bool:
    """Return whether other processes took a share of the cores; False where the time is too short to tell."""
    if after.time_s - before.time_s < MIN_COUNTED_S or after.total <= before.total:
        return False
    foreign = (after.busy - before.busy) - (after.own - before.own) + (after.stolen - before.stolen)
    return foreign > FOREIGN_LIMIT * (after.total - before.total)
