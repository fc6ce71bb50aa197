"""The exact choice among decisions on regions: a packing problem, solved as a mixed integer linear program."""

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from passsearch.search.composition_records import Decision


def choose(decisions: Sequence[Decision], calls: Mapping[str, float]) -> list[Decision]:
    """Return the decisions that together save the most time, no two of which replace the same call of a kernel.

    Args:
        decisions: Decisions, each of which saves time.
        calls: Number of calls of each kernel, by digest.
    """
    if not decisions:
        return []
    # One row for each region, which gets one value, and one for each kernel, whose calls are replaced once.
    regions = sorted({(each.step, key) for each in decisions for key in each.regions})
    kernels = sorted({digest for each in decisions for digest in each.replaced})
    rows: list[list[float]] = [
        [int(step == each.step and key in each.regions) for each in decisions] for step, key in regions
    ]
    rows += [[each.replaced.get(digest, 0) for each in decisions] for digest in kernels]
    limits = [1.0] * len(regions) + [calls[digest] for digest in kernels]
    chosen, _ = best_subset([each.saved_s for each in decisions], rows, limits)
    return [each for each, is_chosen in zip(decisions, chosen, strict=True) if is_chosen]


def best_subset(
    savings: Sequence[float], rows: Sequence[Sequence[float]], limits: Sequence[float], *, longest_s: float = math.inf
) -> tuple[list[bool], float]:
    """Return which items together save the most, and what no allowed set of them saves more than.

    Args:
        savings: What each item saves; one of them at least is not 0.
        rows: What each item takes, by kind of what there is.
        limits: What there is of each kind.
        longest_s: Seconds after which the best set so far is returned; the bound says how far it may be from the best.
    """
    scale = np.abs(np.array(savings)).max()
    with _nothing_printed():
        solution = milp(
            # The solver's tolerances are absolute, and savings may be microseconds.
            -np.array(savings) / scale,
            integrality=np.ones(len(savings)),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(np.array(rows, dtype=float), ub=np.array(limits, dtype=float)),
            options={} if math.isinf(longest_s) else {"time_limit": longest_s},
        )
    if solution.x is None:
        raise ArithmeticError(f"the best decisions were not found: {solution.message}")
    bound = solution.fun if solution.mip_dual_bound is None else solution.mip_dual_bound
    return [bool(value > 0.5) for value in solution.x], -float(bound) * float(scale)


@contextmanager
def _nothing_printed() -> Iterator[None]:
    """Keep standard output clean, which may be a JSON document: HiGHS prints names of its own functions there."""
    sys.stdout.flush()
    saved, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(nothing)
