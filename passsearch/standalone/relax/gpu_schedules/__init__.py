"""A schedule for GPUs: products are computed in tiles (``tiles.py``), and all other kernels by DLight's rules."""

from .rules import ScheduleGPU

__all__ = ["ScheduleGPU"]
