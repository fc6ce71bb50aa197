"""Schedules for CPUs. TVM's default pipeline leaves every function there as the plain loops of its definition.

A sum of products is computed in tiles that stay in vector registers (``scheduler.py``); ``tiling.py`` chooses their
size. A tile has vectors along one axis of the output and rows along another; every value of the other operand is
multiplied with a whole vector (Georganas et al., Anatomy of high-performance deep learning convolutions on SIMD
architectures, SC18). Weights get a layout that fits the vectors, at compile time. All other loops run on all threads,
and are vectorised if their innermost axis allows it. Functions whose sizes are open until they run are scheduled by
``open_sizes.py``, rows of softmax and layer norms by
``schedule_rows.py``.
"""

from .schedule_cpu import PACKED, ScheduleCPU
from .schedule_rows import ScheduleRows

__all__ = ["PACKED", "ScheduleCPU", "ScheduleRows"]
