"""Attention as one kernel: two products with a softmax between them, computed for a few rows of scores at a time.

Computed one after another, the scores of all rows go through memory four times. In Whisper's encoder they take 54 MB
for each layer, and the three kernels half of the network's time. ``FuseAttention`` (``fuse_attention.py``) finds
attentions in the graph (``pattern.py``: scale, mask, shared keys of groups) and replaces each by one function of loops
(``loops.py``). ``ScheduleCPU`` schedules it so that the scores of some rows stay in the nearest caches::

    parallel for batch, head, block of rows:
        scores = Q[rows] times K transposed, scaled and masked
        softmax of the scores, row by row
        output[rows] = scores times V
"""

from .fuse_attention import FuseAttention, regions

__all__ = ["FuseAttention", "regions"]
