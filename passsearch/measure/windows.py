"""Runs artifacts in turns for seconds each, to read energy, power and temperature meanwhile. Standard library only.

A window lasts seconds because some power sensors measure only part of the time (25 of every 100 ms on A100 and H100)
and others average over up to a second: Yang, Adamek and Armour, Accurate and convenient energy measurements for GPUs,
SC'24 (arXiv 2312.02741). The protocol follows their advice: several runs of 5 s or more, at random phases of the
sensor, without the rise after a start.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from passsearch.measure.stack import DEPTHS, call_at_depth

# Long enough to hide the cost of a call, and short enough that a window starts runs at many stack depths.
CHUNK_S = 0.2
"""Approximate duration of the chunks that inferences run in."""


@dataclass(frozen=True)
class WindowPlan:
    """Plan by which artifacts run while their consumption is read.

    Attributes:
        windows: Number of windows of each artifact; artifacts take turns in a random order.
        window_s: Shortest duration of a window in seconds.
        settle_s: Time in seconds that the artifact runs before its window, up to half as long again: power and its
            averages settle, and windows start at random phases of the sensor.
        seed: Seed of order and phases.
    """

    windows: int = 3
    window_s: float = 5.0
    settle_s: float = 1.5
    seed: int = 0


def run_windows(runs: Sequence[Callable[[int], None]], *, plan: WindowPlan) -> list[dict[str, Any]]:
    """Run all artifacts, or kernels of one, in windows; every chunk starts at another depth of the stack.

    Args:
        runs: Functions that run one artifact so many times, and wait until the device has finished.
        plan: The plan.

    Returns:
        For every window ``artifact`` (its index), ``turn``, ``span`` (begin and end on the monotonic clock) and
        ``inferences``.
    """
    rng, windows = random.Random(plan.seed), []  # noqa: S311
    for turn in range(plan.windows):
        for index in rng.sample(range(len(runs)), len(runs)):
            _run_for(runs[index], plan.settle_s * rng.uniform(1.0, 1.5), rng=rng)
            span, inferences = _run_for(runs[index], plan.window_s, rng=rng)
            windows.append({"artifact": index, "turn": turn, "span": span, "inferences": inferences})
    return windows


def _run_for(run: Callable[[int], None], seconds: float, *, rng: random.Random) -> tuple[tuple[float, float], int]:
    """Run inferences for this long; returns begin and end on the monotonic clock, and the number of inferences."""
    start = time.monotonic()
    run(1)
    chunk, inferences = math.ceil(CHUNK_S / max(time.monotonic() - start, 1e-7)), 0
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        call_at_depth(rng.randrange(DEPTHS), partial(run, chunk))
        inferences += chunk
    return (start, time.monotonic()), inferences
