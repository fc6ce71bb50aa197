"""Recurrent layers as one kernel, whose loop over the steps is inside.

The inputs of all steps and directions go through one product with the input weights, which the schedules treat as any
other product. One function of loops (``cpu_loops.py``, and ``gpu_loops.py`` for GPUs) does the rest: in each step it
multiplies the hidden state with the recurrent weights, and computes the gates. ``layer.py`` arranges weights for both.
"""
