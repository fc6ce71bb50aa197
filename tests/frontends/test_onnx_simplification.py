"""The constant parts of ONNX networks are evaluated, and nothing else of a network changes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import onnx_graphs
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from passsearch.core import CheckInputs, TensorType
from passsearch.dialects.case_inputs import case_inputs
from passsearch.frontends import ModelFile, onnx_simplification, resolve, simplify_onnx

COMPUTED = ("reshape-computed", "expand-computed", "mask-computed", "fill-computed", "resize-computed")
SIZES = {
    "reshape-computed": {"x": TensorType((2, 3, 4, 4), "float32")},
    "expand-computed": {"ids": TensorType((2, 6), "int64")},
}
SHAPE_OPERATORS = {"Shape", "Size", "Range", "ConstantOfShape", "If"}


def resolved(name: str, folder: Path) -> ModelFile:
    path = onnx_graphs.save(name, folder / f"{name}.onnx")
    return resolve(path, inputs=SIZES.get(name, {}), folder=folder)


def operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(str(path)).graph.node}


def outputs(path: Path, inputs: dict[str, TensorType]) -> list[np.ndarray]:
    return [np.asarray(each) for each in ReferenceEvaluator(str(path)).run(None, case_inputs(CheckInputs(inputs), 1))]


def types_of(path: Path) -> dict[str, TensorType]:
    values = onnx.load(str(path)).graph.input
    return {
        value.name: TensorType(
            tuple(size.dim_value for size in value.type.tensor_type.shape.dim),
            str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)),
        )
        for value in values
    }


@pytest.mark.parametrize("name", [*COMPUTED, "branch-of-shape"])
def test_shapes_that_a_graph_computes_become_constants(name: str, tmp_path: Path) -> None:
    file = resolved(name, tmp_path)
    simple = simplify_onnx(file, tmp_path)
    assert not operators(simple.path) & SHAPE_OPERATORS
    assert (simple.sha256, simple.name, simple.inputs) == (file.sha256, file.name, file.inputs), "the same network"
    types = {**types_of(simple.path), **file.inputs}
    for mine, expected in zip(outputs(simple.path, types), outputs(file.path, types), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["opset-13", "matmul-ranks", "quantized", "loop-counted", "branch-of-data"])
def test_a_network_without_constant_parts_stays_as_it_is(name: str, tmp_path: Path) -> None:
    file = resolved(name, tmp_path)
    assert simplify_onnx(file, tmp_path) is file


def test_an_operator_of_another_domain_is_not_evaluated(tmp_path: Path) -> None:
    model = onnx_graphs.network(
        [
            onnx_graphs.node("Shape", "x", "shape"),
            onnx_graphs.node("Reshape", "x shape", "same"),
            onnx_graphs.node("Add", "same content", "y"),
        ],
        [onnx_graphs.value("x", [2])],
        ["y"],
        [onnx_graphs.constant(name, [1.0], "float32") for name in ("name", "content")],
    )
    del model.graph.initializer[1:]
    model.graph.node.insert(0, helper.make_node("ReadFile", ["name"], ["content"], domain="someone.else"))
    model.opset_import.append(helper.make_opsetid("someone.else", 1))
    path = tmp_path / "own.onnx"
    onnx.save(model, str(path))
    simple = simplify_onnx(resolve(path, folder=tmp_path, trust=True), tmp_path)
    assert {"ReadFile"} <= operators(simple.path) and "Shape" not in operators(simple.path)


def test_weights_in_another_file_are_in_the_simplified_one(tmp_path: Path) -> None:
    model = onnx_graphs.computed_reshape()
    path = tmp_path / "apart.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="apart.data", size_threshold=0)
    simple = simplify_onnx(resolve(path, inputs=SIZES["reshape-computed"], folder=tmp_path), tmp_path / "files")
    types = SIZES["reshape-computed"]
    np.testing.assert_allclose(outputs(simple.path, types)[0], outputs(path, types)[0], rtol=1e-6)


def test_a_fill_that_the_memory_cannot_hold_stays_an_operator(tmp_path: Path) -> None:
    sizes = onnx.numpy_helper.from_array(np.array([1 << 20, 1 << 20]), "sizes")
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("ConstantOfShape", ["sizes"], ["fill"]), helper.make_node("Add", ["x", "fill"], ["y"])]
    ends = [value("x", onnx.TensorProto.FLOAT, [1])], [value("y", onnx.TensorProto.FLOAT, [1 << 20, 1 << 20])]
    model = helper.make_model(helper.make_graph(nodes, "bomb", *ends, [sizes]), ir_version=8)
    model.opset_import[0].version = 17
    onnx.save(model, str(tmp_path / "bomb.onnx"))
    simple = simplify_onnx(resolve(tmp_path / "bomb.onnx", inputs={}, folder=tmp_path), tmp_path)
    assert operators(simple.path) == {"ConstantOfShape", "Add"}


def test_functions_of_the_file_are_written_out(tmp_path: Path) -> None:
    body = [helper.make_node("Mul", ["a", "k"], ["t"]), helper.make_node("Tanh", ["t"], ["c"])]
    own = helper.make_function("layers", "ScaledTanh", ["a", "k"], ["c"], body, [helper.make_opsetid("", 17)])
    call = helper.make_node("ScaledTanh", ["x", "k"], ["y"], domain="layers")
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y")]
    scale = onnx.numpy_helper.from_array(np.float32(0.5), "k")
    graph = helper.make_graph([call], "network", values[:1], values[1:], [scale])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("layers", 1)]
    path = tmp_path / "network.onnx"
    onnx.save(helper.make_model(graph, functions=[own], opset_imports=sets, ir_version=8), str(path))
    file = resolve(path, folder=tmp_path)
    simplified = simplify_onnx(file, tmp_path)
    assert operators(simplified.path) == {"Mul", "Tanh"}
    assert simplified.sha256 == file.sha256
    before, after = (outputs(each, types_of(simplified.path)) for each in (path, simplified.path))
    assert np.array_equal(before[0], after[0])


def test_attention_is_written_out_by_its_definition(tmp_path: Path) -> None:
    data = onnx_graphs.value("x", [1, 4, 8])
    nodes = [onnx_graphs.node("Attention", "x x x", "y", q_num_heads=2, kv_num_heads=2, is_causal=1)]
    path = tmp_path / "attention.onnx"
    onnx.save(onnx_graphs.network(nodes, [data], ["y"], opset=23), str(path))
    simplified = simplify_onnx(resolve(path, folder=tmp_path), tmp_path)
    assert "Attention" not in operators(simplified.path) and "Softmax" in operators(simplified.path)
    before, after = (outputs(each, types_of(simplified.path)) for each in (path, simplified.path))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5, atol=1e-6)


def test_operators_within_a_function_of_the_file_are_written_out_too(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2, 4, 8])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2, 4, 8])
    attention = helper.make_node("Attention", ["a", "a", "a"], ["b"])
    function = helper.make_function("mine", "F", ["a"], ["b"], [attention], [helper.make_opsetid("", 23)])
    call = helper.make_node("F", ["x"], ["y"], domain="mine")
    graph = helper.make_graph([call], "g", [value], [result])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("mine", 1)]
    onnx.save(helper.make_model(graph, functions=[function], opset_imports=opsets), str(tmp_path / "f.onnx"))
    file = resolve(tmp_path / "f.onnx", folder=tmp_path)
    simple = simplify_onnx(file, tmp_path)
    assert "MatMul" in operators(simple.path) and not operators(simple.path) & {"Attention", "F"}


def test_a_constant_without_a_value_is_left_to_the_importer(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Constant", [], [])]
    graph = helper.make_graph(nodes, "g", [value], [result])
    onnx.save(helper.make_model(graph), str(tmp_path / "c.onnx"))
    file = resolve(tmp_path / "c.onnx", folder=tmp_path)
    assert simplify_onnx(file, tmp_path).inputs == file.inputs


@pytest.mark.parametrize("operator", ["Range", "Expand", "Tile"])
def test_a_constant_that_would_fill_the_memory_is_not_made(
    operator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 1 << 25
    monkeypatch.setattr(onnx_simplification, "LARGEST_FILL", many >> 4)
    constants = {"Range": [0, many, 1], "Expand": [np.zeros(1, np.int64), [many]], "Tile": [[0], [many]]}[operator]
    weights = [numpy_helper.from_array(np.asarray(each, np.int64), f"c{n}") for n, each in enumerate(constants)]
    names = [weight.name for weight in weights]
    nodes = [helper.make_node(operator, names, ["all"]), helper.make_node("Add", ["x", "all"], ["y"])]
    value = helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [1])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [many])
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [value], [result], weights)), str(tmp_path / "h.onnx"))
    file = resolve(tmp_path / "h.onnx", folder=tmp_path)
    tracemalloc.start()
    assert operator in operators(simplify_onnx(file, tmp_path).path)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 4 * many, "half of the result"


def test_a_network_over_the_limit_of_a_file_is_left_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(onnx_simplification, "LARGEST_BYTES", 1)
    file = resolved("reshape-computed", tmp_path)
    assert simplify_onnx(file, tmp_path) is file
    assert "over 2 GiB" in caplog.text
