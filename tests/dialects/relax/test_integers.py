"""Quantised networks in integers give the outputs of ONNX Runtime, which computes them in float32 as written."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from integer_networks import FAULTY, networks, write

from passsearch.toolchain import Toolchain
from passsearch.toolchain.install import installed_frameworks

QUADS = ("conv narrow", "QLinearConv", "QLinearMatMul", "QGemm", "QAttention")
"""Networks whose weights are so small that sums of two products have 16 bits."""

LARGEST_MEAN = 0.07
"""Steps by which outputs may differ on average, since some values lie between two steps."""


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_integer_networks_give_the_outputs_of_onnx_runtime(cases: Any, tmp_path: Path, every: int) -> None:
    names = write(tmp_path, every)
    results = {case["case"]: case for case in cases("integer_cases.py", str(tmp_path))}
    right = {name: case for name, case in results.items() if not name.startswith("fault")}
    assert right.keys() == {*names}
    assert all(all(case["types"]) for case in right.values())
    deviations = {name: (case["largest"], case["mean"]) for name, case in right.items()}
    assert {name: each for name, each in deviations.items() if each[0] > 1.01 or each[1] > LARGEST_MEAN} == {}
    # Products and convolutions are exact; one that is not quantised stays in float32 and is named.
    kinds = ("conv", "depthwise", "product", "attention", "residual", "QLinearConv", "QLinearMatMul", "QGemm")
    in_pairs = {name for name, case in right.items() if case["in_pairs"]}
    others = ("ConvInteger", "MatMulInteger", "DynamicQ", "QAttention")
    products = {name for name in names if name.startswith((*kinds, *others))}
    assert products - in_pairs == {"conv odd groups"} & {*names} and not in_pairs - products
    assert all(deviations[name][1] < 0.01 for name in products)
    # Data with a sign are moved; ConvInteger and its like subtract a zero point and have more than 8 bits.
    assert {name for name, case in right.items() if case["in_quads"]} == {*QUADS} & {*names}
    for name, case in right.items():
        note = ["matmul to 4x16: an operand is not quantised"] if name == "float operand" else []
        assert case["notes"] == note, name
    faults = {name: case["mean"] for name, case in results.items() if name.startswith("fault")}
    assert len(faults) == 2 * len({*FAULTY} & {*names}) > 0
    assert {name: mean for name, mean in faults.items() if mean <= LARGEST_MEAN} == {}


ON_TENSOR_CORES = {"product": 1, "product odd": 1, "conv": 1, "conv odd": 1, "residual": 2, "QLinearMatMul": 1}
"""Products of networks that GPUs multiply on tensor cores."""
IN_LOOPS = ("attention", "conv groups", "depthwise")
"""Networks whose product has 16 bits, groups, or one term for each place of a window."""


@pytest.mark.slow
def test_integer_networks_give_the_outputs_of_onnx_runtime_on_gpus(cases: Any, tmp_path: Path) -> None:
    for name, network in networks():
        if name in ON_TENSOR_CORES or name in IN_LOOPS:
            network.save(tmp_path / f"{name}.onnx")
    results = cases("integer_gpu_cases.py", str(tmp_path))
    assert all(case["largest"] <= 1.01 and case["mean"] < 0.01 for case in results), results
    found = {(case["case"], case["capability"]): (case["tensor"], case["others"]) for case in results}
    for name in (*ON_TENSOR_CORES, *IN_LOOPS):
        tensor = ON_TENSOR_CORES.get(name, 0)
        assert found[name, 80] == (tensor, 0 if tensor else 1), name
        assert found[name, 75] == (0, tensor or 1), name


def test_modules_that_pytorch_quantised_run_in_integers(cases: Any, relax: Toolchain) -> None:
    if "torch" not in installed_frameworks(relax):
        pytest.skip("needs: passsearch toolchain install relax --with torch")
    results = {case.pop("case"): case for case in cases("torch_quantized_cases.py")}
    assert len(results) == 6
    # Half steps are rounded to either side, as PyTorch multiplies with the inverse of a scale.
    assert {name: case["steps"] for name, case in results.items() if case["steps"] > 1} == {}
    assert {case["integer_sums"] for case in results.values()} == {2}
    assert min(case["spread"] for case in results.values()) > 50
