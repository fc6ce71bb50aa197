"""Times every kernel where it runs: inside the network, with the caches as the kernels before it leave them."""

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from passsearch.core import TensorType
from passsearch.dialects.contract import Executable, KernelCalls, random_inputs

KernelTimes = Mapping[str, float]
"""Seconds by name of the kernel: the sum over its calls in one inference."""


@dataclass(frozen=True)
class KernelPlan:
    """Plan by which the kernels of several artifacts are timed.

    Attributes:
        most_rounds: Largest number of rounds; in each of them every artifact runs once.
        least_rounds: Smallest number.
        longest_s: Time after which no further round begins, in seconds.
    """

    most_rounds: int = 30
    least_rounds: int = 3
    longest_s: float = 8.0


def time_kernels(
    executables: Sequence[Executable], *, types: Mapping[str, TensorType], plan: KernelPlan
) -> list[dict[str, float] | None]:
    """Run all artifacts in turns and return the time of each one's kernels; ``None`` where they cannot be told apart.

    A call's time is its fastest in all rounds, because disturbances only ever add time.
    """
    inputs = random_inputs(types, seed=0)
    fastest: list[KernelCalls | None] = [executable.run_by_kernel(inputs) for executable in executables]
    begin = time.perf_counter()
    for turn in range(plan.most_rounds):
        if turn >= plan.least_rounds and time.perf_counter() - begin > plan.longest_s:
            break
        for place, executable in enumerate(executables):
            calls = executable.run_by_kernel(inputs)
            # The run before the first round filled caches and tables, so it does not count.
            fastest[place] = calls if turn == 0 else _fastest(fastest[place], calls)
    return [None if calls is None else _sums(calls) for calls in fastest]


def _fastest(first: KernelCalls | None, second: KernelCalls | None) -> KernelCalls | None:
    """Return the faster of two samples of every call; ``None`` if the two runs called different kernels."""
    if first is None or second is None or [name for name, _ in first] != [name for name, _ in second]:
        return None
    return [(name, min(seconds, others)) for (name, seconds), (_, others) in zip(first, second, strict=True)]


def _sums(calls: KernelCalls) -> dict[str, float]:
    seconds: dict[str, list[float]] = defaultdict(list)
    for name, value in calls:
        seconds[name].append(value)
    return {name: math.fsum(values) for name, values in seconds.items()}
