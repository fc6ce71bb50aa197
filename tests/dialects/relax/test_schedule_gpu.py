"""ScheduleGPU gives each kernel the rule or the tile that it is told, and the kernel computes the same."""

from pathlib import Path
from typing import Any

import pytest

from passsearch.frontends import resolve

TRANSPOSITION = [[2, 1024]]
SIZES = {
    # Blocks and threads of a block, by kernel. A thread for each result of a short sum, not a block.
    "depthwise, {}": [[[3, 256]]],
    "depthwise, {'rule': 'GeneralReduction'}": [[[648, 256]]],
    "convolution, {}": [[[4, 128]]],
    "residual, {}": [[[4, 128]]],
    "strided, {}": [[[2, 128]]],
    "grouped, {}": [[[2, 1024], [2, 1024]]],
    "swish, {}": [[[9, 128]]],
    "squared, {}": [[[6, 128]]],
    "batched, {}": [[[6, 128]], TRANSPOSITION],
    "transposed, {}": [[[9, 128]]],
    "transposed, {'rule': '8x8x2x4x8x3'}": [[[27, 64], [11, 256]]],
    "transposed, {'rule': '8x8x4x8x8x3v'}": [[[12, 64], [11, 256]]],
    "row, {}": [[[5, 224]]],
    "normalised, {}": [[[1, 1024], [1, 1024], [1, 1024]]],
    "joined, {}": [[[3, 256]]],
    "pooled, {}": [[[3, 256]]],
    "largest, {}": [[[5, 256]]],
    "softmax, {}": [[[5, 256]]],
    "product, {}": [[[9, 128]]],
    "wide, {}": [[[129, 128]]],
    # Long sums in parts, which a second kernel adds up.
    "long, {}": [[[16, 128], [1, 256]]],
    "longer than wide, {}": [[[516, 128], [81, 256]]],
    "product, {'rule': '8x8x2x2x16x1'}": [[[15, 64]]],
    "product, {'kernels': {'matmul': {'rule': '8x8x2x2x16x1'}}}": [[[15, 64]]],
    "product, {'rule': 'Matmul'}": [[[4, 128]]],
    "product, {'rule': 'Fallback'}": [[[3, 1024]]],
    "product, {'rule': '8x8x2x4x8x3'}": [[[27, 64], [11, 256]]],
    "swish, {'rule': '8x8x2x4x8x3'}": [[[27, 64], [11, 256]]],
    "convolution, {'rule': '8x8x2x4x8x3'}": [[[12, 64], [5, 256]]],
    "residual, {'rule': '8x8x2x4x8x3'}": [[[12, 64], [5, 256]]],
    "strided, {'rule': '8x8x2x4x8x3'}": [[[6, 64], [2, 256]]],
    "squared, {'rule': '8x8x2x4x8x3'}": [[[18, 64], [7, 256]]],
    "batched, {'rule': '8x8x2x4x8x3'}": [[[18, 64], [5, 256]], TRANSPOSITION],
    # In vectors; eight columns are two of them.
    "product, {'rule': '8x8x4x8x8x3v'}": [[[12, 64], [11, 256]]],
    "swish, {'rule': '8x8x4x8x8x3v'}": [[[12, 64], [11, 256]]],
    "convolution, {'rule': '8x8x4x8x8x3v'}": [[[6, 64], [5, 256]]],
    "residual, {'rule': '8x8x4x8x8x3v'}": [[[6, 64], [5, 256]]],
    "strided, {'rule': '8x8x4x8x8x3v'}": [[[3, 64], [2, 256]]],
    "squared, {'rule': '8x8x4x8x8x3v'}": [[[6, 64], [7, 256]]],
    "batched, {'rule': '8x8x4x8x8x3v'}": [[[9, 64], [5, 256]], TRANSPOSITION],
    "product, {'rule': '8x8x4x4x16x1v'}": [[[6, 64]]],
    "product, {'rule': '8x8x2x2x16x1v'}": [[[15, 64]]],
    "product, {'rule': '4x8x1x1x8x1v'}": [[[90, 32]]],
    "product, {'rule': '4x4x8x4x8x2v'}": [[[20, 16], [11, 256]]],
}
MOST_BLOCKS_ALONG_Y = 65_535


def test_an_inference_starts_the_kernels_of_one_function_and_one_branch(cases: Any) -> None:
    found = {each["case"]: each["launches"] for each in cases("launch_cases.py")}
    assert found == {"one kernel, three times": 3, "two functions": 2, "open rows": 2, "branches": 4}


def test_every_kernel_has_the_threads_of_its_rule_and_computes_the_same(cases: Any) -> None:
    results = cases("gpu_cases.py")
    scheduled = {case["case"]: case for case in results if "same" in case}
    assert {name: case["threads"] for name, case in scheduled.items()} == SIZES
    for case in scheduled.values():
        assert case["same"] and case["untouched"], case
    vectors = {name: case["vectors"] for name, case in scheduled.items()}
    assert vectors["product, {'rule': '8x8x2x2x16x1'}"] == [1]
    # Two loads, two reads of shared memory, and the results.
    assert vectors["product, {'rule': '8x8x4x4x16x1v'}"] == [5]
    (on_cpu,) = (case for case in results if case["case"] == "cpu")
    assert on_cpu["threads"] == [[]]
    (large,) = (case["extents"] for case in results if case["case"] == "large")
    assert len(large) == 1 and large[0]["blockIdx.x"] > MOST_BLOCKS_ALONG_Y >= large[0]["blockIdx.y"]
    (half,) = (case for case in results if case["case"] == "half")
    # 37 by 70 results in tiles of 32 by 32 for tensor cores, by four warps.
    assert half["own"] == [[[6, 128]]] == half["without_bfloat16"] and half["bfloat16"] != half["own"], half
    assert half["own"] != half["dlight"] != half["tiles"]
    messages = [case["message"] for case in results if case["case"] == "refused"]
    names = ("Best", "8x8x2x2x16", "8x8x2x3x16x1v", "8x8x2x2x18x1v", "0x8x2x2x16x1", "4x4x64x64x64x1t")
    assert all(f"no rule `{name}`" in message for name, message in zip(names, messages, strict=False)), messages
    assert "no setting `tile`" in messages[6] and messages[7] == "no function `missing` to schedule"
    assert all("six numbers" in message for message in messages[:3])


@pytest.mark.slow
def test_whole_networks_compute_the_same(cases: Any, tmp_path: Path) -> None:
    names = ("resnet_tiny", "bert_tiny", "vit_tiny")
    results = cases("gpu_network_cases.py", *(str(resolve(f"zoo:{name}", folder=tmp_path).path) for name in names))
    assert len(results) == len(names)
    for case in results:
        assert case["deviation"] < 1e-5 and case["in_parts"], case
