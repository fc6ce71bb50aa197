"""What a layout for each convolution could gain at most."""

from collections.abc import Callable
from typing import Any


def test_the_bound_adds_up_what_the_faster_layout_of_each_kind_saves(load_benchmark: Callable[[str], Any]) -> None:
    layouts = load_benchmark("layouts")
    kernels = [
        {"kernel": "fused_conv2d1_add_relu", "calls": 2, "seconds": 0.3, "flops": 10.0},
        {"kernel": "fused_conv2d1_add", "calls": 1, "seconds": 0.1, "flops": 9.0},
        {"kernel": "conv2d", "calls": 1, "seconds": 0.2, "flops": 5.0},
        {"kernel": "fused_conv2d_transpose_add", "calls": 1, "seconds": 9.0, "flops": 5.0},
    ]
    assert layouts.convolutions(kernels) == {"conv2d1": (3, 0.4, 29.0), "conv2d": (1, 0.2, 5.0)}
    times = {"conv2d1": (0.4, 0.5), "conv2d": (0.2, 0.1)}
    kinds = {kind: {layouts.LAST: last, layouts.FIRST: first} for kind, (last, first) in times.items()}
    row = {"network_s": {layouts.LAST: 1.1, layouts.FIRST: 1.2}, "convolutions_s": kinds}
    assert layouts.table({"net": row}).endswith("| net | 1100.00 | 1200.00 | 1 of 2 | 1.100 |")
