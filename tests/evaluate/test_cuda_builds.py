"""Networks built for CUDA where there is no device: every sequence of the catalog for GPUs gives device code."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import passsearch
from passsearch.catalog import load
from passsearch.core import Failure, Pipeline
from passsearch.dialects import dialect
from passsearch.toolchain import Toolchain


@pytest.fixture
def cubins(load_benchmark: Callable[[str], Any]) -> Any:
    """The module ``benchmarks/gpu/cubins.py``."""
    return load_benchmark("gpu.cubins")


def check_every_sequence(network: object, toolchain: Toolchain, *, cubins: Any, arch: str) -> dict[str, int | None]:
    """Build a network by every sequence; return the numbers of kernels that an inference starts."""
    launches: dict[str, int | None] = {}
    target = f"cuda -arch={arch}"
    sequences = [each for each in load("relax").sequences.values() if each.name.endswith("-gpu")]
    candidates = [dialect("relax").baseline, *(each.candidate() for each in sequences)]
    assert len(candidates) >= 5
    with passsearch.session(network, toolchain=toolchain.name, target=target, remember=False) as evaluator:
        for candidate in candidates:
            state = evaluator.reach(candidate.pipeline)
            assert not isinstance(state, Failure), f"{candidate.name}: {state}"
            built = evaluator.build(state, candidate)
            assert not isinstance(built, Failure), f"{candidate.name}: {built}"
            (cubin,) = cubins.read_cubins(built.folder / "network.so")
            assert cubin.arch == arch and cubin.kernels and 0 < cubin.code_bytes < cubin.bytes, candidate.name
            launches[candidate.name] = built.launches
    return launches


def test_every_gpu_sequence_gives_device_code(cuda_relax: Toolchain, small_network: Path, cubins: Any) -> None:
    launches = check_every_sequence(small_network, cuda_relax, cubins=cubins, arch="sm_90")
    # A convolution, a batch norm with its activation, a mean, and a product.
    assert launches["default"] == 4 and launches["batchnorm-gpu"] == 3, launches
    assert launches["graph-gpu"] == launches["default-passes-gpu"] == 4, launches  # recorded ones count as well


@pytest.mark.slow
def test_a_product_in_half_precision_gives_device_code(cuda_relax: Toolchain, tmp_path: Path, cubins: Any) -> None:
    """Code for tensor cores includes ``mma.h``, which needs the headers of ``nvidia-cuda-crt``."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float16[128, 128] x) => (float16[128, 128] y) { y = MatMul(x, w) }'
    )
    weight = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float16)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(model, tmp_path / "product.onnx")
    target = "cuda -arch=sm_80"
    with passsearch.session(
        tmp_path / "product.onnx", toolchain=cuda_relax.name, target=target, remember=False
    ) as evaluator:
        for candidate in (dialect("relax").baseline, load("relax").sequences["schedule-gpu"].candidate()):
            built = evaluator.build_candidate(candidate)
            assert not isinstance(built, Failure), built
            (cubin,) = cubins.read_cubins(built.folder / "network.so")
            (kernel,) = cubin.kernels.values()
            assert kernel.tensor_instructions > 0, candidate.name


@pytest.mark.slow
def test_a_network_in_float32_multiplies_on_tensor_cores_only_in_tf32(cuda_relax: Toolchain, cubins: Any) -> None:
    target = "cuda -arch=sm_80"
    with passsearch.session("zoo:bert_tiny", toolchain=cuda_relax.name, target=target, remember=False) as evaluator:
        for name, products in (("merge-schedule-gpu", 0), ("schedule-gpu-tf32", 7)):
            built = evaluator.build_candidate(load("relax").sequences[name].candidate())
            assert not isinstance(built, Failure), built
            (cubin,) = cubins.read_cubins(built.folder / "network.so")
            assert sum(each.tensor_instructions > 0 for each in cubin.kernels.values()) == products, cubin.kernels
            assert all(each.stack_bytes == 0 for each in cubin.kernels.values() if each.tensor_instructions)


def write_quantised_product(path: Path) -> None:
    """Write a product of 8 bits with constant weights in ONNX's QDQ form."""
    nodes = (
        "a = QuantizeLinear(x, s, z)\n b = DequantizeLinear(a, s, z)\n d = DequantizeLinear(w, s, u)\n"
        "p = MatMul(b, d)\n q = QuantizeLinear(p, t, z)\n y = DequantizeLinear(q, t, z)"
    )
    heads = '<ir_version: 8, opset_import: ["" : 17]> g (float[200, 256] x) => (float[200, 128] y)'
    model = onnx.parser.parse_model(f"{heads} {{ {nodes} }}")
    weights = np.random.default_rng(0).integers(-127, 128, (256, 128)).astype(np.int8)
    values = {"w": weights, "s": np.float32(0.02), "t": np.float32(1), "z": np.uint8(120), "u": np.int8(0)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(each), name) for name, each in values.items())
    onnx.save(model, path)


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "kernels"), [("sm_75", 0), ("sm_80", 1), ("sm_90", 1)])
def test_a_quantised_product_multiplies_integers_on_tensor_cores(
    cuda_relax: Toolchain, cubins: Any, tmp_path: Path, arch: str, kernels: int
) -> None:
    path, sequence = tmp_path / "quantised.onnx", load("relax").sequences["integer-schedule-gpu"]
    write_quantised_product(path)
    with passsearch.session(path, toolchain=cuda_relax.name, target=f"cuda -arch={arch}", remember=False) as evaluator:
        built = evaluator.build_candidate(sequence.candidate())
        assert not isinstance(built, Failure), built
        (cubin,) = cubins.read_cubins(built.folder / "network.so")
    found = [each for each in cubin.kernels.values() if each.integer_instructions]
    assert len(found) == kernels and all(each.stack_bytes == 0 for each in cubin.kernels.values()), cubin.kernels
    # The terms of a sum are neighbours in both operands, and are copied while others are multiplied.
    assert all(each.copies for each in found), cubin.kernels


@pytest.mark.slow
def test_every_gpu_sequence_gives_device_code_for_attention(cuda_relax: Toolchain, cubins: Any) -> None:
    check_every_sequence("zoo:bert_tiny", cuda_relax, cubins=cubins, arch="sm_80")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["resnet50", "mobilenet_v2", "bert_base", "ssd_resnet50", "llama_tiny", "llama_tiny_decode"]
)
def test_every_gpu_sequence_gives_device_code_for_a_real_network(cuda_relax: Toolchain, cubins: Any, name: str) -> None:
    check_every_sequence(f"zoo:{name}", cuda_relax, cubins=cubins, arch="sm_80")


@pytest.mark.slow
@pytest.mark.parametrize(("network", "products", "of_one_row"), [("bert_tiny", 7, 0), ("resnet_tiny", 17, 6)])
def test_networks_in_half_precision_multiply_on_tensor_cores(
    cuda_relax: Toolchain, cubins: Any, network: str, products: int, of_one_row: int
) -> None:
    candidate = load("relax").sequences["schedule-gpu"].candidate()
    pipeline = Pipeline.parse(str(candidate.pipeline).replace("LegalizeOps", "ToMixedPrecision,LegalizeOps"))
    target = "cuda -arch=sm_80"
    with passsearch.session(f"zoo:{network}", toolchain=cuda_relax.name, target=target, remember=False) as evaluator:
        built = evaluator.build_candidate(replace(candidate, pipeline=pipeline))
        assert not isinstance(built, Failure), built
        (cubin,) = cubins.read_cubins(built.folder / "network.so")
    kernels = {name: each for name, each in cubin.kernels.items() if re.search("matmul|conv2d", name)}
    assert all(each.stack_bytes == 0 for each in kernels.values()), kernels
    first = [each for name, each in kernels.items() if not name.endswith("_1")]  # _1 adds the parts of sums
    # Tensor cores have no use for products of one row, such as convolutions that make one pixel.
    assert (len(first), sum(not each.tensor_instructions for each in first)) == (products, of_one_row), kernels
    assert any(each.copies for each in first), kernels
