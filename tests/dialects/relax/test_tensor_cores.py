"""Products in 8 bits, 16 bits and TF32 run on tensor cores, compute the same, and their code fits a multiprocessor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from passsearch.frontends import resolve

MOST_REGISTERS = 168
"""Of a thread, so that 384 threads fit a multiprocessor."""
MOST_SHARED_BYTES = 49_152


@pytest.fixture
def check(cases: Any, cuda_relax: Any, load_benchmark: Callable[[str], Any], tmp_path: Path) -> Callable[[str], Any]:
    """Return a function that runs a group of cases, checks each of them, and returns them."""
    del cuda_relax

    def run(group: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = cases("tensor_cases.py", str(tmp_path), group)
        for case in found:
            # NaN, which is left where nothing is written, is not below 1.
            assert case["described"] <= 1 and case["forwards"] <= 1 and case["backwards"] <= 1, case
            assert case["conflicts"] == 0 and case["multiplications"] > 0, case
            (cubin,) = load_benchmark("gpu.cubins").read_cubins(tmp_path / case["file"])
            assert cubin.arch == case["arch"]
            assert any(kernel.tensor_instructions for kernel in cubin.kernels.values()), case
            integers = sum(kernel.integer_instructions for kernel in cubin.kernels.values())
            assert (integers > 0) == ("int" in case["dtype"]), case
            for kernel in cubin.kernels.values():
                assert kernel.stack_bytes == 0 and kernel.registers <= MOST_REGISTERS, (case, kernel)
                assert kernel.shared_bytes <= MOST_SHARED_BYTES, (case, kernel)
        return found

    return run


@pytest.mark.slow
def test_products_in_16_bits_compute_the_same_on_tensor_cores(check: Callable[[str], Any]) -> None:
    first, *others = found = check("few")
    assert len(others) == 2 and first["copies"] > 0 and all(case["loads"] > 0 for case in found)
    faults = [name for name in first if name.startswith("with")]
    assert len(faults) == 3 and not any(first[name] for name in faults), first


@pytest.mark.slow
def test_products_in_tf32_compute_the_same_on_rounded_factors(check: Callable[[str], Any]) -> None:
    first, *others = check("tf32")
    assert len(others) == 8 and first["copies"] > 0
    faults = [name for name in first if name.startswith("with")]
    assert len(faults) == 4 and not any(first[name] for name in faults), first


@pytest.mark.slow
def test_products_of_integers_are_exact_on_tensor_cores(check: Callable[[str], Any]) -> None:
    first, *others = found = check("integers")
    assert len(others) == 9 and first["copies"] > 0
    assert all(case[way] == 0 for case in found for way in ("described", "forwards", "backwards")), found
    faults = [name for name in first if name.startswith("with")]
    assert len(faults) == 3 and not any(first[name] for name in faults), first
    assert {case["dtype"] for case in found} == {"uint8 int8", "int8 int8", "int8 uint8", "uint8 uint8"}


@pytest.mark.slow
def test_every_kind_of_kernel_runs_on_tensor_cores_of_every_architecture(check: Callable[[str], Any]) -> None:
    many = check("many")
    assert {case["arch"] for case in many} == {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90"}
    assert all(case["loads"] > 0 for case in many)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tensor", "others"), [("bert_tiny", 17, 0), ("resnet_tiny", 15, 6)])
def test_networks_with_products_in_float16_compute_about_the_same(
    cases: Any, tmp_path: Path, name: str, tensor: int, others: int
) -> None:
    (case,) = cases("tensor_network_cases.py", str(resolve(f"zoo:{name}", folder=tmp_path).path))
    assert (case["tensor"], len(case["others"])) == (tensor, others), case
    assert 0 < case["deviation"] < 5e-3, case
