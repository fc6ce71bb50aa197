"""The exact choice among decisions on regions: a packing problem, solved as a mixed integer linear program."""

from collections.abc import Mapping, Sequence

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
    savings = np.array([each.saved_s for each in decisions])
    solution = milp(
        # The solver's tolerances are absolute, and savings may be microseconds.
        -savings / np.abs(savings).max(),
        integrality=np.ones(len(decisions)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(np.array(rows, dtype=float), ub=np.array(limits, dtype=float)),
    )
    if solution.x is None:
        raise ArithmeticError(f"the best decisions were not found: {solution.message}")
    return [each for each, is_chosen in zip(decisions, solution.x, strict=True) if is_chosen > 0.5]
