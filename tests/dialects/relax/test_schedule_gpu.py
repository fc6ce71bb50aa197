"""ScheduleGPU gives each kernel the rule or the tile that it is told, and the kernel computes the same."""

from typing import Any

SMALL_TILES = [{"threadIdx": 64, "blockIdx": 15}]
ONE_PART = [{"threadIdx": 128, "blockIdx": 4}]
TRANSPOSITION = {"threadIdx": 1024, "blockIdx": 2}
THREADS = {
    # One thread for each result, not a block of threads.
    "depthwise, {}": [{"threadIdx": 1024, "blockIdx": 1}],
    "depthwise, {'rule': 'GeneralReduction'}": [{"threadIdx": 256, "blockIdx": 648}],
    "convolution, {}": ONE_PART,
    "residual, {}": ONE_PART,
    "strided, {}": [{"threadIdx": 128, "blockIdx": 2}],
    "swish, {}": [{"threadIdx": 128, "blockIdx": 9}],
    "batched, {}": [{"threadIdx": 128, "blockIdx": 6}, TRANSPOSITION],
    "row, {}": [{"threadIdx": 224, "blockIdx": 5}],
    "softmax, {}": [{"threadIdx": 256, "blockIdx": 5}],
    "product, {}": [{"threadIdx": 128, "blockIdx": 9}],
    "product, {'rule': '8x8x2x2x16x1'}": SMALL_TILES,
    "product, {'kernels': {'matmul': {'rule': '8x8x2x2x16x1'}}}": SMALL_TILES,
    "product, {'rule': 'Matmul'}": ONE_PART,
    "product, {'rule': 'Fallback'}": [{"threadIdx": 1024, "blockIdx": 3}],
    # Two kernels, the threads and blocks of which are multiplied: 8 * 256 threads.
    "product, {'rule': '8x8x2x4x8x3'}": [{"threadIdx": 2048, "blockIdx": 99}],
    "swish, {'rule': '8x8x2x4x8x3'}": [{"threadIdx": 2048, "blockIdx": 99}],
    "convolution, {'rule': '8x8x2x4x8x3'}": [{"threadIdx": 2048, "blockIdx": 60}],
    "residual, {'rule': '8x8x2x4x8x3'}": [{"threadIdx": 2048, "blockIdx": 60}],
    "strided, {'rule': '8x8x2x4x8x3'}": [{"threadIdx": 2048, "blockIdx": 12}],
    "batched, {'rule': '8x8x2x4x8x3'}": [{"threadIdx": 2048, "blockIdx": 90}, TRANSPOSITION],
}


def test_every_kernel_has_the_threads_of_its_rule_and_computes_the_same(cases: Any) -> None:
    results = cases("gpu_cases.py")
    scheduled = {case["case"]: case for case in results if "same" in case}
    assert {name: case["threads"] for name, case in scheduled.items()} == THREADS
    for case in scheduled.values():
        assert case["same"] and case["untouched"], case
    (on_cpu,) = (case for case in results if case["case"] == "cpu")
    assert on_cpu["threads"] == [{"threadIdx": 1, "blockIdx": 1}]
    messages = [case["message"] for case in results if case["case"] == "refused"]
    assert len(messages) == 3
    assert "no rule `Best`" in messages[0]
    assert all("six numbers" in message for message in messages[1:])
