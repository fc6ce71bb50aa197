"""Times the variants of one kernel, alone."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from passsearch.dialects.contract import KernelExecutable
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


def time_variants(variants: Sequence[KernelExecutable], plan: VariantPlan, *, cores: Sequence[int] = ()) -> list[float]:
    """Run variants of one kernel in turns and return the fastest run of each, in seconds.

    Args:
        variants: The variants.
        plan: The plan.
        cores: Cores that the process is pinned to. If others used them, all variants run again.
    """
    for variant in variants:
        variant.run()  # starts threads and reads the code
    fastest = [math.inf] * len(variants)
    for _ in range(plan.attempts):
        before = CpuTimes.read(cores)
        _race(variants, plan, fastest)
        if not _is_disturbed(before, CpuTimes.read(cores)):
            break
    return fastest


def _race(variants: Sequence[KernelExecutable], plan: VariantPlan, fastest: list[float]) -> None:
    """Update the fastest run of each variant; those that are far slower than the fastest one leave early."""
    racing, begin = list(range(len(variants))), time.perf_counter()
    for turn in range(plan.rounds):
        if turn >= plan.first_rounds:
            limit = plan.margin * min(fastest, default=math.inf)
            racing = [place for place in racing if fastest[place] <= limit]
            if time.perf_counter() - begin > plan.longest_s:
                return
        for place in racing:
            start = time.perf_counter()
            variants[place].run()
            fastest[place] = min(fastest[place], time.perf_counter() - start)


def _is_disturbed(before: CpuTimes, after: CpuTimes) -> bool:
    """Return whether other processes took a share of the cores; False where the time is too short to tell."""
    if after.time_s - before.time_s < MIN_COUNTED_S or after.total <= before.total:
        return False
    foreign = (after.busy - before.busy) - (after.own - before.own) + (after.stolen - before.stolen)
    return foreign > FOREIGN_LIMIT * (after.total - before.total)
