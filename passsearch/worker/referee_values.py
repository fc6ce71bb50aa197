"""Comparison of a foreign kernel's outputs with the present one's, by what both differ from 64 bits."""

from collections.abc import Callable, Mapping

import numpy as np

from passsearch.dialects.contract import Array

TIMES = 16
"""Times the present kernel's deviation that another order of summation may have."""

LEAST_ROUNDINGS = 4
"""Roundings that the present kernel is granted at least."""

NARROW_LIMIT = 2e-5
"""Largest deviation where no kernel of 64 bits can be built."""


def difference(got: Array, present: Array, wide: Array | None) -> str:
    """Return in words how outputs differ from the present kernel's; empty if they agree.

    Args:
        got: Outputs of the foreign kernel.
        present: Outputs of the present one.
        wide: Outputs of the present one with 64 bits; ``None`` if there are none.
    """
    if present.dtype.kind != "f":
        wrong = int((got != present).sum())
        return f"{wrong:,} of {got.size:,} values differ" if wrong else ""
    reference = present.astype(np.float64) if wide is None else wide.astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = reference.astype(present.dtype)
    # Where sums of finite numbers overflow, their order and fused additions decide what comes of it.
    is_sure = (np.isnan(rounded) == np.isnan(present)) & (np.isinf(rounded) == np.isinf(present))
    is_sure &= ~np.isinf(rounded) | np.isinf(reference)
    for name, test in (("NaN", np.isnan), ("infinity", np.isinf)):
        wrong = int(((test(got) != test(present)) & is_sure).sum())
        if wrong:
            return f"{name} is in other places ({wrong:,} of {got.size:,} values)"
    if wrong := int((np.isinf(got) & is_sure & (np.signbit(got) != np.signbit(present))).sum()):
        return f"the sign of infinity differs ({wrong:,} of {got.size:,} values)"
    is_zero = (got == 0) & (present == 0) & (reference == 0)
    if wrong := int((is_zero & (np.signbit(got) != np.signbit(present))).sum()):
        return f"the sign of zero differs ({wrong:,} of {got.size:,} values)"
    return _deviation(got, present, reference, is_sure & np.isfinite(present), has_wide=wide is not None)


def _deviation(got: Array, present: Array, reference: Array, judged: Array, *, has_wide: bool) -> str:
    if not judged.any():
        return ""
    smallest = float(np.finfo(present.dtype).tiny)
    errors = []
    for outputs in (got, present):
        error = np.where(judged, np.abs(np.where(judged, outputs, 0) - np.where(judged, reference, 0)), 0.0)
        # Whether numbers below the smallest normal one become zero is the processor's setting.
        errors.append(np.where(error <= smallest, 0.0, error))
    scale = np.where(judged, np.abs(reference), 0.0)
    floor = LEAST_ROUNDINGS * float(np.finfo(present.dtype).eps)
    for name, measure in _MEASURES.items():
        own, allowed = measure(errors[0], scale), TIMES * max(measure(errors[1], scale), floor)
        allowed = allowed if has_wide else NARROW_LIMIT
        if own > allowed:
            return f"{name} deviates by {own:.1e}, and {allowed:.1e} is allowed"
    return ""


def _largest(error: Array, scale: Array) -> float:
    return float(error.max() / scale.max()) if scale.max() else float(error.max() > 0)


def _of_rows(error: Array, scale: Array) -> float:
    """Return the largest share by row: along the first axis of more than one element, so that small rows count."""
    axis = next((axis for axis, size in enumerate(error.shape[:-1]) if size > 1), None)
    if axis is None:
        return 0.0
    rows = [np.moveaxis(each, axis, 0).reshape(error.shape[axis], -1).max(1) for each in (error, scale)]
    shares = rows[0] / np.where(rows[1] > 0, rows[1], 1)
    return float(shares.max())


def _quantile(share: float) -> Callable[[Array, Array], float]:
    def measure(error: Array, scale: Array) -> float:
        is_some = scale > 0
        return float(np.quantile(error[is_some] / scale[is_some], share)) if is_some.any() else 0.0

    return measure


_MEASURES: Mapping[str, Callable[[Array, Array], float]] = {
    "an output": _largest,
    "a row": _of_rows,
    "the median of the values": _quantile(0.5),
    "a tenth of the values": _quantile(0.9),
}
