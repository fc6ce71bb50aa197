"""Parts of neighbouring columns, for loops that go down the columns of a tensor in vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .sizes import part_count

WIDTHS, MOST_COLUMNS = (32, 16, 8), 1.25
"""Columns of a part, which fit into registers, and most columns of all parts as a multiple of what these cover."""


def axes_around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Return the elements of the axes before an axis, along it, and of those after it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def indices_of(shape: Sequence[int], axis: int, image: Any, steps: Sequence[Any], column: Any) -> list[Any]:
    """Return the indices of an element of a tensor.

    Args:
        shape: The shape of the tensor.
        axis: An axis of it.
        image: Place in the axes before it, counted through all of them.
        steps: Place along the axis; none where the tensor lacks it.
        column: Place in the axes after it.
    """
    return [*_split(image, shape[:axis]), *steps, *_split(column, shape[axis + 1 :])]


def _split(place: Any, sizes: Sequence[int]) -> list[Any]:
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return [place // stride % size for stride, size in zip(strides, sizes, strict=True)]


def column_width(columns: int) -> int:
    """Return the number of columns of a part."""
    most = MOST_COLUMNS * columns
    return next((each for each in WIDTHS if each <= columns and part_count(columns, each) * each <= most), WIDTHS[-1])
