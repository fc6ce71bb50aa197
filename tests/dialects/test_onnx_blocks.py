"""Weights with a scale for each block are what ONNX Runtime takes them for, or are refused in a line."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import passsearch
from passsearch.core import Candidate
from passsearch.dialects.onnx_blocks import write_blocks
from passsearch.errors import UserError
from passsearch.evaluate import Built
from passsearch.toolchain import Toolchain

ROWS, COLUMNS, SIZE = 80, 48, 32
BLOCKS = -(-ROWS // SIZE)
RANDOM = np.random.default_rng(0)


def network(node: onnx.NodeProto, weights: dict[str, Any], *more: onnx.NodeProto) -> onnx.ModelProto:
    """Return a network with input ``x`` and output ``y``."""
    kinds = [helper.make_tensor_value_info(*each) for each in (("x", 1, [3, ROWS]), ("y", 1, [3, COLUMNS]))]
    tensors = [
        value if isinstance(value, TensorProto) else numpy_helper.from_array(value, name)
        for name, value in weights.items()
    ]
    graph = helper.make_graph([node, *more], "blocks", kinds[:1], kinds[1:], tensors)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def nbits(bits: int = 4, *, zeros: str = "", **changed: Any) -> onnx.ModelProto:
    """Return a MatMulNBits, its zero points packed, in floats or left out."""
    weights: dict[str, Any] = {
        "w": RANDOM.integers(0, 256, (COLUMNS, BLOCKS, SIZE * bits // 8)).astype("uint8"),
        "s": RANDOM.uniform(0.001, 0.02, (COLUMNS, BLOCKS)).astype("float32"),
    }
    names = ["x", "w", "s", "z" if zeros else ""]
    if zeros == "packed":
        weights["z"] = RANDOM.integers(0, 256, (COLUMNS, -(-BLOCKS * bits // 8))).astype("uint8")
    elif zeros:
        weights["z"] = RANDOM.uniform(0, 2**bits, (COLUMNS, BLOCKS)).astype("float32")
    attributes = {"K": ROWS, "N": COLUMNS, "bits": bits, "block_size": SIZE}
    weights |= {name: value for name, value in changed.items() if name in weights}
    attributes |= {name: value for name, value in changed.items() if name not in weights}
    return network(helper.make_node("MatMulNBits", names, ["y"], "n", domain="com.microsoft", **attributes), weights)


def dequantised(kind: int, *, axis: int = 0, has_zeros: bool = True, **changed: Any) -> onnx.ModelProto:
    """Return a product with weights in blocks along an axis."""
    least, most = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128)}[kind]
    shape = [ROWS, COLUMNS]
    blocks = [-(-ROWS // SIZE), COLUMNS] if axis == 0 else [ROWS, -(-COLUMNS // SIZE)]

    def integers(name: str, dims: list[int]) -> TensorProto:
        values = RANDOM.integers(least, most, dims)
        return helper.make_tensor(name, kind, dims, values.flatten().tolist())

    weights: dict[str, Any] = {"w": integers("w", shape), "s": RANDOM.uniform(0.001, 0.02, blocks).astype("float32")}
    weights |= {"z": integers("z", blocks)} if has_zeros else {}
    weights |= changed
    names = ["w", "s", "z"] if has_zeros else ["w", "s"]
    node = helper.make_node("DequantizeLinear", names, ["v"], "d", axis=axis, block_size=SIZE)
    return network(node, weights, helper.make_node("MatMul", ["x", "v"], ["y"]))


@pytest.mark.parametrize(
    "model",
    [
        *(
            pytest.param(nbits(bits, zeros=zeros), id=f"{bits} bits {zeros}")
            for bits in (4, 8)
            for zeros in ("", "packed")
        ),
        pytest.param(nbits(4, zeros="float"), id="4 bits, zero points in floats"),
        pytest.param(dequantised(TensorProto.INT4), id="int4"),
        pytest.param(dequantised(TensorProto.UINT4, axis=1), id="uint4 along the columns"),
        pytest.param(dequantised(TensorProto.INT8, has_zeros=False), id="int8 without zero points"),
    ],
)
def test_blocks_stand_for_what_onnx_runtime_computes(tmp_path: Path, model: onnx.ModelProto) -> None:
    runtime = pytest.importorskip("onnxruntime")
    inputs, found = {"x": RANDOM.standard_normal((3, ROWS)).astype("float32")}, []
    options = runtime.SessionOptions()
    # Optimised, it rounds the data to 8 bits as well.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for _ in range(2):
        (output,) = runtime.InferenceSession(model.SerializeToString(), options).run(None, inputs)
        found.append(output)
        write_blocks(model, tmp_path)
    assert {node.op_type for node in model.graph.node} == {"MatMul"} and len(model.graph.initializer) == 1
    assert np.abs(found[1] - found[0]).max() < 1e-5 * np.abs(found[0]).max()


@pytest.mark.toolchain
def test_a_network_in_blocks_is_imported_and_proven(relax: Toolchain, tmp_path: Path) -> None:
    onnx.save(nbits(zeros="packed"), tmp_path / "blocks.onnx")
    with passsearch.session(tmp_path / "blocks.onnx", toolchain=relax.name, remember=False) as evaluator:
        built = evaluator.build_candidate(Candidate())
        assert isinstance(built, Built), built
        assert evaluator.builder.source.runtime.startswith("ONNX Runtime")


SCALES = np.full((COLUMNS, BLOCKS), 0.01, "float32")


def changed(place: tuple[int, int], value: float) -> np.ndarray:
    scales = SCALES.copy()
    scales[place] = value
    return scales


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (nbits(bits=2), "Operator MatMulNBits `n`: numbers of 2 bits are not supported, only those of 4 and 8"),
        (nbits(s=changed((1, 1), np.nan)), "Operator MatMulNBits `n`: a scale is infinite or NaN"),
        (nbits(s=changed((1, 1), 0.0)), "a scale is 0, and its numbers are not"),
        (nbits(s=SCALES[1:]), "scales [47, 3] do not fit K=80, N=48 and blocks of 32"),
        (
            nbits(zeros="packed", z=np.zeros((3, 2), "uint8")),
            "zero points [3, 2] are not 2 bytes for each of 48 columns",
        ),
        (nbits(zeros="float", z=changed((0, 0), np.inf)), "a zero point is infinite or NaN"),
        (dequantised(TensorProto.INT4, s=SCALES), "scales [48, 3] and zero points [3, 48] do not fit blocks of 32"),
        (dequantised(TensorProto.INT8, s=np.full((3, 48), np.inf, "float32")), "`d`: a scale is infinite or NaN"),
    ],
)
def test_what_no_weights_stand_for_is_refused_in_a_line(model: onnx.ModelProto, text: str, tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=re.escape(text)) as caught:
        write_blocks(model, tmp_path)
    assert "\n" not in str(caught.value)


def test_weights_that_are_computed_are_refused(tmp_path: Path) -> None:
    model = nbits()
    model.graph.node[0].input[2] = "x"
    with pytest.raises(NotImplementedError, match="its scales are computed at run time"):
        write_blocks(model, tmp_path)


@pytest.mark.toolchain
def test_the_refusal_names_file_and_operator(relax: Toolchain, tmp_path: Path) -> None:
    onnx.save(nbits(s=changed((0, 0), np.nan)), tmp_path / "broken.onnx")
    with (
        pytest.raises(UserError, match=r"Cannot import `broken.onnx`: .*MatMulNBits `n`: a scale is infinite or NaN"),
        passsearch.session(tmp_path / "broken.onnx", toolchain=relax.name, remember=False),
    ):
        pass
