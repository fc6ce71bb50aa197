"""Networks in 16-bit floats as float32 networks, run by ONNX Runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from passsearch.dialects.onnx_widening import has_halves, must_widen, widen

FLOAT16, BFLOAT16 = TensorProto.FLOAT16, TensorProto.BFLOAT16
WEIGHT = np.random.default_rng(0).standard_normal((8, 8))


def rounded(values: Any, kind: int) -> np.ndarray:
    """Return the nearest numbers of a type as float32."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    return np.asarray(values, "float32").astype(dtype).astype("float32")


def tensor(name: str, values: Any, kind: int, *, is_raw: bool = True) -> TensorProto:
    array = np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(kind))
    data = array.tobytes() if is_raw else array.ravel()
    return helper.make_tensor(name, kind, array.shape, data, raw=is_raw)


def network(kind: int) -> onnx.ModelProto:
    """Return ``x @ w``, beyond float16's range, plus a constant of a branch, and an index that stays an integer."""
    value = helper.make_tensor_value_info
    inner = [
        helper.make_node("Constant", [], ["c"], value=tensor("c", [2.0], kind, is_raw=False)),
        helper.make_node("Mul", ["large", "c"], ["twice"]),
    ]
    branch = helper.make_graph(inner, "then", [], [value("twice", kind, [1, 8])])
    otherwise = helper.make_graph(
        [helper.make_node("Mul", ["x", "x"], ["square"])], "else", [], [value("square", kind, [1, 8])]
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Mul", ["product", "factor"], ["large"]),
        helper.make_node("If", ["condition"], ["chosen"], then_branch=branch, else_branch=otherwise),
        helper.make_node("Cast", ["chosen"], ["single"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["single"], ["again"], to=kind),
        helper.make_node("Div", ["again", "factor"], ["y"]),
        helper.make_node("ArgMax", ["y"], ["place"], axis=1),
    ]
    inputs = [value("x", kind, [1, 8]), value("condition", TensorProto.BOOL, [])]
    outputs = [value("y", kind, [1, 8]), value("place", TensorProto.INT64, [1, 1]), value("x", kind, [1, 8])]
    outputs.append(value("w", kind, [8, 8]))
    weights = [tensor("w", WEIGHT, kind), tensor("factor", 60000.0, kind)]
    graph = helper.make_graph(nodes, "halves", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("kind", [FLOAT16, BFLOAT16])
@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("is_external", [True, False])
def test_a_widened_network_computes_in_float32_and_has_the_types_of_the_file(
    kind: int, condition: bool, is_external: bool, tmp_path: Path
) -> None:
    onnx.save(network(kind), tmp_path / "m.onnx", save_as_external_data=is_external, size_threshold=0)
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    widen(model, tmp_path)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = rounded(np.random.default_rng(1).standard_normal((1, 8)), kind)
    # numpy has no bfloat16.
    dtype = "float16" if kind == FLOAT16 else "float32"
    y, place, same, weight = session.run(None, {"x": x.astype(dtype), "condition": np.array(condition)})
    factor = float(rounded(60000.0, kind))
    exact = 2 * (x.astype("float64") @ rounded(WEIGHT, kind)) if condition else x.astype("float64") ** 2 / factor
    assert y.dtype == same.dtype == dtype and np.array_equal(same, x)
    assert np.array_equal(weight, rounded(WEIGHT, kind))
    step = 2.0**-11 if kind == FLOAT16 else 2.0**-8
    assert np.abs(y - exact).max() <= 1.01 * step * np.abs(exact).max() + 1e-6
    assert np.array_equal(y.astype("float32"), rounded(y, kind))  # an output has numbers of its type only
    assert place.dtype == "int64" and place.item() == exact.argmax()


def test_bfloat16_is_widened_for_every_device_and_float32_for_none() -> None:
    single = network(TensorProto.FLOAT)
    assert not has_halves(single) and not must_widen(single, is_cpu=True)
    assert must_widen(network(BFLOAT16), is_cpu=False)
    assert must_widen(network(FLOAT16), is_cpu=True) and not must_widen(network(FLOAT16), is_cpu=False)


def listed_twice() -> onnx.ModelProto:
    """Return a network that lists an output twice."""
    return small([helper.make_node("Mul", ["x", "x"], ["y"])], outputs=("y", "y"))


def hiding_body() -> onnx.ModelProto:
    """Return a network with a loop whose input has the name of the network's output."""
    value = helper.make_tensor_value_info
    inner = [helper.make_node("Add", ["y", "y"], ["double"]), helper.make_node("Identity", ["y"], ["same"])]
    body = helper.make_graph(
        inner, "body", [value("y", FLOAT16, [8])], [value("double", FLOAT16, [8]), value("same", FLOAT16, [8])]
    )
    nodes = [
        helper.make_node("Scan", ["first", "x"], ["last", "rows"], body=two_states(body), num_scan_inputs=1),
        helper.make_node("Add", ["last", "rows"], ["y"]),
    ]
    return small([helper.make_node("ReduceMax", ["x"], ["first"], axes=[0], keepdims=0), *nodes])


def two_states(body: onnx.GraphProto) -> onnx.GraphProto:
    """Return a body that gets a row of the input as well."""
    body.input.append(helper.make_tensor_value_info("row", FLOAT16, [8]))
    body.node[1].input[0] = "row"
    return body


def window() -> onnx.ModelProto:
    """Return a network whose window has its type as an attribute."""
    nodes = [
        helper.make_node("HannWindow", ["size"], ["w"], output_datatype=FLOAT16),
        helper.make_node("Mul", ["x", "w"], ["y"]),
    ]
    model = small(nodes)
    model.graph.initializer.append(helper.make_tensor("size", TensorProto.INT32, [], [8]))
    return model


def small(nodes: list[onnx.NodeProto], outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    declared = [value(name, FLOAT16, [2, 8]) for name in outputs]
    graph = helper.make_graph(nodes, "small", [value("x", FLOAT16, [2, 8])], declared)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("make", [listed_twice, hiding_body, window])
def test_a_widened_network_computes_what_the_file_does(make: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    model, x = make(), np.random.default_rng(2).standard_normal((2, 8)).astype("float16")
    providers = ["CPUExecutionProvider"]
    plain = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers).run(None, {"x": x})
    widen(model, tmp_path)
    found = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers).run(None, {"x": x})
    assert [each.dtype for each in found] == [each.dtype for each in plain]
    assert all(np.allclose(*pair, rtol=4e-3, atol=4e-3) for pair in zip(found, plain, strict=True))
