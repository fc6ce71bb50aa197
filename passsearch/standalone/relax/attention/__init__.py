"""Attention as one kernel: two products with a softmax between them, computed for a few rows of scores at a time.

Computed one after another, the scores of all rows go through memory four times. In Whisper's encoder they take 54 MB
for each layer, and the three kernels half of the network's time. ``FuseAttention`` finds attentions (``pattern.py``)
and replaces each by one function (``loops.py``), which ``ScheduleCPU`` schedules so that the scores of ``ROWS`` rows
stay in the nearest caches.
"""

from .fuse_attention import FuseAttention, regions

__all__ = ["FuseAttention", "regions"]
