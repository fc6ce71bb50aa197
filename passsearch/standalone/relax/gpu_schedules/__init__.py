"""Schedules for GPUs. ``ScheduleGPU`` (``rules.py``) gives each kernel the first rule that fits it.

1. A sum of products that can be written as ``C[i, j] = sum_k A[i, k] * B[j, k]``, a convolution too, is computed in
   tiles (``tiles.py``): a block of threads loads the next steps of both operands into shared memory, neighbours in
   memory by neighbouring threads, and each thread adds up some rows and columns in registers. A product with fewer
   tiles than the device has multiprocessors has its sum split; a second kernel adds the parts.
2. A product of fixed sizes in float16 or bfloat16 is computed so by tensor cores, from sm_75 and sm_80 on, and one in
   float32 with ``precision=tf32``, from sm_80 on. Sums are float32. One of integers of 8 bits, with or without a sign,
   has sums of int32, from sm_80 on (``tensor_products.py``, ``tensor_tiles.py``, ``instructions.py``).
3. A short sum, as that of a depthwise convolution, is computed by one thread for each result (``sums.py``).
4. Everything else goes to DLight's rules in TVM's order: matrix times vector, reductions, and a fallback that gives
   each element a thread.

A tile is written ``8x16x4x4x16x4``: 8 by 16 threads, 4 by 4 results a thread, 16 steps in shared memory, the sum in 4
parts. With it, the loops of a product become ::

    for block of threads (i, j, part):
        for k in the steps of the part, 16 at a time:
            load A[i, k] and B[j, k] into shared memory
            for each step: unrolled for row, column: sums[row, column] += a[row] * b[column]
        write sums, or the part of them
"""

from .rules import ScheduleGPU

__all__ = ["ScheduleGPU"]
