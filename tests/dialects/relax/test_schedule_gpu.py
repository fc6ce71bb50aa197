"""ScheduleGPU gives each kernel the rule and the tile that it is told, and the kernel computes the same."""

from typing import Any

SMALL_TILES = {"threadIdx": 64, "blockIdx": 15}
THREADS = {
    # One thread for each result, not a block of threads.
    "depthwise, {}": {"threadIdx": 1024, "blockIdx": 1},
    "depthwise, {'rule': 'GeneralReduction'}": {"threadIdx": 256, "blockIdx": 648},
    "convolution, {}": {"threadIdx": 128, "blockIdx": 2},
    "convolution, {'tile': '8x16x2x4x32'}": {"threadIdx": 128, "blockIdx": 4},
    "product, {}": {"threadIdx": 128, "blockIdx": 4},
    "product, {'tile': '8x8x2x2x16'}": SMALL_TILES,
    "product, {'kernels': {'matmul': {'tile': '8x8x2x2x16'}}}": SMALL_TILES,
    "product, {'tile': '16x16x4x2x8', 'rule': 'Matmul'}": {"threadIdx": 256, "blockIdx": 3},
    "product, {'rule': 'Fallback'}": {"threadIdx": 1024, "blockIdx": 3},
    "softmax, {}": {"threadIdx": 256, "blockIdx": 5},
}


def test_every_kernel_has_the_threads_of_its_rule_and_computes_the_same(cases: Any) -> None:
    results = cases("gpu_cases.py")
    scheduled = {case["case"]: case for case in results if "same" in case}
    assert {name: case["threads"] for name, case in scheduled.items()} == {
        name: [threads] for name, threads in THREADS.items()
    }
    for case in scheduled.values():
        assert case["same"] and case["untouched"], case
    (on_cpu,) = (case for case in results if case["case"] == "cpu")
    assert on_cpu["threads"] == [{"threadIdx": 1, "blockIdx": 1}]
    messages = [case["message"] for case in results if case["case"] == "refused"]
    assert len(messages) == 3
    assert "no rule `Best`" in messages[0]
    assert all("five numbers" in message for message in messages[1:])
