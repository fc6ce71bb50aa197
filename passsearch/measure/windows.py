"""Long runs of each artifact in turn, for what only shows over seconds: energy, power, temperature. Standard library.

A window lasts seconds because a power sensor may look at a part of the time only (25 of every 100 ms on A100 and H100)
and averages over up to a second on others: Yang, Adamek and Armour, Accurate and convenient energy measurements for
GPUs, SC'24 (arXiv 2312.02741), whose advice this is: several runs of 5 s or more, at random phases of the sensor, the
rise after a start left out.
"""

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from passsearch.core import TensorType
from passsearch.dialects.contract import Executable, random_inputs
from passsearch.measure.stack import DEPTHS, at_depth

CHUNK_S = 0.2
"""Inferences are asked for in chunks of about this duration."""


@dataclass(frozen=True)
class WindowPlan:
    """How artifacts are run for their consumption.

    Attributes:
        windows: Windows of each artifact, in turns, the order drawn anew for every turn.
        window_s: Least duration of one.
        settle_s: The artifact runs so long before its window, and up to half as long again: power and its averages have
            then settled, and windows begin at random phases of the sensor.
        seed: Of order and phases.
    """

    windows: int = 3
    window_s: float = 5.0
    settle_s: float = 1.0
    seed: int = 0


def run_windows(
    executables: Sequence[Executable], *, types: Mapping[str, TensorType], plan: WindowPlan
) -> list[dict[str, Any]]:
    """Run all in windows; every chunk begins at another place on the stack.

    Answers of every window ``artifact`` (its place), ``turn``, ``span`` (begin and end on the monotonic clock) and
    ``inferences``.
    """
    rng, windows = random.Random(plan.seed), []  # noqa: S311
    for executable in executables:
        executable.run(random_inputs(types, seed=0))
    for turn in range(plan.windows):
        for place in rng.sample(range(len(executables)), len(executables)):
            _run_for(executables[place], plan.settle_s * rng.uniform(1.0, 1.5), rng=rng)
            span, inferences = _run_for(executables[place], plan.window_s, rng=rng)
            windows.append({"artifact": place, "turn": turn, "span": span, "inferences": inferences})
    return windows


def _run_for(executable: Executable, seconds: float, *, rng: random.Random) -> tuple[tuple[float, float], int]:
    start = time.monotonic()
    executable.spin(1)
    number, inferences = math.ceil(CHUNK_S / max(time.monotonic() - start, 1e-7)), 0
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        at_depth(rng.randrange(DEPTHS), partial(executable.spin, number))
        inferences += number
    return (start, time.monotonic()), inferences
