"""Variants of a kernel run in turns, and those that are far slower leave early."""

import time

from passsearch.measure.kernels import VariantPlan, time_variants


class SleepingKernel:
    """A kernel that takes a certain time."""

    def __init__(self, seconds: float) -> None:
        self.digest, self.seconds, self.runs = str(seconds), seconds, 0

    def build(self) -> None: ...

    def run(self) -> None:
        self.runs += 1
        time.sleep(self.seconds)

    def outputs(self) -> list[object]:
        return []


def test_the_fastest_run_counts_and_far_slower_variants_leave_after_the_first_rounds() -> None:
    fast, near, slow = SleepingKernel(0.004), SleepingKernel(0.0042), SleepingKernel(0.02)
    plan = VariantPlan(first_rounds=2, rounds=6, margin=2.0, attempts=1)
    seconds = time_variants([slow, fast, near], plan)  # type: ignore[list-item]
    assert seconds[1] < seconds[0] and seconds[0] >= slow.seconds
    # Every variant runs once before the rounds.
    assert (slow.runs, fast.runs, near.runs) == (3, 7, 7)


def test_no_variant_is_no_time() -> None:
    assert time_variants([], VariantPlan(attempts=1)) == []
