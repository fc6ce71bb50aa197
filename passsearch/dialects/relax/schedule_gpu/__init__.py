"""A schedule for GPUs: products are computed in tiles (``tiles.py``), and all other kernels by DLight's rules.

The files import only TVM and each other, by relative imports, because an exported deployment holds a copy of this
folder.
"""

from .rules import ScheduleGPU

__all__ = ["ScheduleGPU"]
