"""Arrays between pages that must not be touched, on which a kernel that leaves its buffers is found."""

import ctypes
import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from passsearch.dialects.contract import Array

ALIGNMENT = 64
"""Bytes to whose multiples tensors are aligned, which kernels rely on."""

REACH = 1 << 20
"""Bytes at both ends that must not be touched: a kernel that leaves its buffer often does so by whole rows."""

BEHIND, BEFORE = "behind", "before"
"""Sides of a buffer."""

_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Guard:
    """Where the pages lie that must not be touched.

    Attributes:
        side: Side at which the array ends; empty for a page of room at both.
        may_read: True to allow reading the pages.
    """

    side: str = ""
    may_read: bool = False


class GuardedArray:
    """An array in memory of its own.

    Attributes:
        array: The array.
    """

    def __init__(self, shape: Sequence[int], dtype: str, guard: Guard, *, fill: int = 0xA5) -> None:
        """Allocate an array whose bytes, and those beside it, are ``fill``."""
        size, page = math.prod(shape) * np.dtype(dtype).itemsize, mmap.PAGESIZE
        room = max(1, -(-size // page)) * page + (0 if guard.side else 2 * page)
        self._memory = mmap.mmap(-1, room + 2 * REACH)
        whole = np.frombuffer(self._memory, np.uint8)
        self._inner, self._fill = whole[REACH : REACH + room], fill
        self._inner[:] = fill
        aligned = -(-size // ALIGNMENT) * ALIGNMENT
        self._begin = {BEHIND: room - aligned, BEFORE: 0, "": page}[guard.side]
        self._end = self._begin + size
        self.array: Array = self._inner[self._begin : self._end].view(dtype).reshape(tuple(shape))
        if guard.side:
            protection = mmap.PROT_READ if guard.may_read else 0
            for begin in (0, REACH + room):
                _protect(whole[begin : begin + REACH], protection)

    def margins_are_kept(self) -> bool:
        """Return whether the bytes beside the array are as they were."""
        return bool((self._inner[: self._begin] == self._fill).all() and (self._inner[self._end :] == self._fill).all())

    def forbid_writing(self) -> None:
        """End the process at a write to the array or beside it."""
        _protect(self._inner, mmap.PROT_READ)


def _protect(pages: Array, protection: int) -> None:
    if _LIBC.mprotect(ctypes.c_void_p(pages.ctypes.data), ctypes.c_size_t(pages.nbytes), protection):
        raise OSError(ctypes.get_errno(), "pages cannot be protected")
