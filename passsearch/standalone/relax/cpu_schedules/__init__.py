"""Schedules for CPUs. TVM's default pipeline leaves every function there as the plain loops of its definition.

``ScheduleCPU`` gives every ``topk`` of few numbers loops that sort nothing (``top_k.py``) and every ``cumsum`` of
columns loops over rows (``cumulative_sums.py``), and takes the functions of a module one by one. The phases of one
function, in ``Scheduler.run``:

1. **Inline** (``scheduler.py``): cheap elementwise blocks move into the blocks that read them, padding that copies too.
2. **Find the sum**: a function with one sum of products goes on with 3, a reduction of one operand with
   ``reductions.py`` (``limits.py``), an elementwise function with vectors along its last axis or, where it is uniform
   (``elementwise.py``), along all (``parts.py``, ``transposes.py`` where that axis is scattered in memory). A grouped
   convolution is written over groups first (``groups.py``), an attention has a schedule of its own (``attention.py``),
   places of extremes too (``places.py``), and a depthwise convolution slides a window (``windows.py``). Loops that TVM
   wrote out start no threads for little work (``small_loops.py``).
3. **Choose a tile** (``tiling.py``): as many vectors and rows of sums as stay in registers (``registers.py``), by an
   estimate of loads, stalls and evictions for each shape.
4. **Pack the weights**: constants get the layout in which a tile reads them one after another; ``schedule_cpu.py``
   replaces them at compile time.
5. **Loops**: tiles on all threads, the sum around one tile, the tile unrolled, its lanes a vector. The block that
   reads the sums (bias, activation) is computed behind each tile.
6. **After TVM's schedule**: where no tile divides a size, the last tile begins earlier and overlaps the one before
   (``overlap.py``); weights that a core reads from memory are prefetched some steps ahead (``prefetch.py``).

A product ``C[i, j] = relu(sum_k A[i, k] * B[k, j])`` of 64 by 512 by 256 begins as ::

    for i, j: C[i, j] = 0
    for i, j, k: C[i, j] += A[i, k] * B[k, j]
    for i, j: D[i, j] = max(C[i, j], 0)

and ends, with tiles of 6 rows by 2 vectors of 16 lanes, as ::

    parallel for tile:                                 # blocks of columns outermost if weights are to stay in a cache
        unrolled for row, vector: sums[row, vector, 0:16] = 0
        for k:
            unrolled for row, vector:
                sums[row, vector, 0:16] += A[i(tile, row), k] * packed[block(tile), k, vector, 0:16]
        unrolled for row, vector: D[...] = max(sums[row, vector, 0:16], 0)

The tile is the one of Georganas et al., Anatomy of high-performance deep learning convolutions on SIMD architectures
(SC18): every value of one operand is multiplied with whole vectors of the other. Functions whose sizes are open until
they run are scheduled by ``open_sizes.py``, and rows of softmax and layer norms by ``schedule_rows.py``.

Before all that, ``NarrowWeights`` stores constant weights in fewer bits: ``factors.py`` finds them, ``storage.py``
rounds them, ``narrow_loops.py`` and ``words.py`` make the sums widen what they read, ``integer_words.py`` and
``dot_operator.py`` make them multiply integers instead, and ``call_copies.py`` gives layers that share a function
copies of it; ``activation_rounding.py`` computes what that changes without a build for each choice. ``PairProducts``
adds up products of integers in groups; a sum of products of groups is then scheduled as any other.
"""

from .activation_rounding import with_rounded_activations
from .attention import is_attention
from .call_copies import numbered_calls
from .constants import constant_arguments, is_call_tir
from .narrow_weights import LEAST_NUMBERS, NOTES, NarrowWeights, rounded_weights, storage_of
from .pair_products import PairProducts
from .schedule_cpu import PACKED, ScheduleCPU
from .schedule_rows import ScheduleRows

__all__ = [
    "LEAST_NUMBERS",
    "NOTES",
    "PACKED",
    "NarrowWeights",
    "PairProducts",
    "ScheduleCPU",
    "ScheduleRows",
    "constant_arguments",
    "is_attention",
    "is_call_tir",
    "numbered_calls",
    "rounded_weights",
    "storage_of",
    "with_rounded_activations",
]
