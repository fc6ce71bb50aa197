"""Parts of ONNX networks: they run, and nothing of the original is in them."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from passsearch.frontends import OnnxParts, sizes_of

SECRET = b"Secret"
NUMBER = 0.123456789


def _weights() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "Secret.weight": rng.standard_normal((4, 4, 3, 3)).astype("float32"),
        "Secret.bias": rng.standard_normal(4).astype("float32"),
        "Secret.table": rng.standard_normal((9, 8)).astype("float32"),
        "Secret.codes": rng.integers(-100, 100, (4, 64)).astype("int8"),
        "Secret.number": np.float32(NUMBER),
        "Secret.shape": np.array([1, 4, 64], "int64"),
        "Secret.axes": np.array([0], "int64"),
    }


def _network() -> onnx.ModelProto:
    """A network with a branch, an index that is computed, a constant node, and notes in all places that have some."""
    value = helper.make_tensor_value_info
    inner = numpy_helper.from_array(np.full((1, 4, 64), NUMBER, "float32"), "Secret.inner")
    branch = helper.make_graph(
        [helper.make_node("Add", ["Secret.r", "Secret.inner"], ["Secret.b"])],
        "Secret branch",
        [],
        [value("Secret.b", TensorProto.FLOAT, [1, 4, 64])],
        [inner],
        doc_string="Secret",
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["Secret.r"], ["Secret.n"])],
        "Secret other",
        [],
        [value("Secret.n", TensorProto.FLOAT, [1, 4, 64])],
    )
    nodes = [
        helper.make_node("Constant", [], ["Secret.k"], value=numpy_helper.from_array(np.float32([NUMBER, 3.0, 2, 1]))),
        helper.make_node("Conv", ["Secret.x", "Secret.weight", "Secret.bias"], ["Secret.c"], "Secret.1", pads=[1] * 4),
        helper.make_node("Relu", ["Secret.c"], ["Secret.a"], "Secret.2"),
        helper.make_node("Reshape", ["Secret.a", "Secret.shape"], ["Secret.r"]),
        helper.make_node("ArgMax", ["Secret.r"], ["Secret.i"], axis=2, keepdims=0),
        helper.make_node("Mod", ["Secret.i", "Secret.nine"], ["Secret.j"]),
        helper.make_node("Gather", ["Secret.table", "Secret.j"], ["Secret.g"]),
        helper.make_node("If", ["Secret.flag"], ["Secret.f"], then_branch=branch, else_branch=other),
        helper.make_node("Cast", ["Secret.codes"], ["Secret.d"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["Secret.f", "Secret.d"], ["Secret.s"]),
        helper.make_node("Mul", ["Secret.s", "Secret.number"], ["Secret.m"]),
        helper.make_node("Unsqueeze", ["Secret.k", "Secret.axes"], ["Secret.u"]),
    ]
    for node in nodes:
        node.doc_string = "Secret"
    weights = {**_weights(), "Secret.nine": np.array([9], "int64")}
    graph = helper.make_graph(
        nodes,
        "Secret network",
        [value("Secret.x", TensorProto.FLOAT, [1, 4, 8, 8]), value("Secret.flag", TensorProto.BOOL, [1])],
        [value(name, TensorProto.FLOAT, None) for name in ("Secret.m", "Secret.g", "Secret.u")],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
        doc_string="Secret",
        value_info=[value("Secret.c", TensorProto.FLOAT, ["Secret batch", 4, 8, 8])],
    )
    for tensor in graph.initializer:
        tensor.doc_string = "Secret"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.producer_name = model.producer_version = model.domain = model.doc_string = "Secret"
    model.metadata_props.add(key="Secret", value="Secret")
    return model


@pytest.fixture
def parts(tmp_path: Path) -> OnnxParts:
    onnx.save(_network(), tmp_path / "Secret.onnx")
    return OnnxParts(tmp_path / "Secret.onnx")


def _run(model: onnx.ModelProto) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    dtypes = {"tensor(float)": "float32", "tensor(bool)": "bool"}
    return list(session.run(None, {each.name: np.ones(each.shape, dtypes[each.type]) for each in session.get_inputs()}))


def _numbers(original: Collection[str] = ()) -> list[bytes]:
    """Return pieces of the weights' bytes, each long enough that no other network has it by chance."""
    return [array.tobytes()[:8] for name, array in _weights().items() if array.size > 3 and name not in original]


def test_nothing_of_the_original_is_in_a_part(parts: OnnxParts) -> None:
    content = parts.part(range(len(parts.nodes)), original=parts.reasons).model.SerializeToString()
    assert SECRET in _network().SerializeToString()
    assert SECRET not in content
    kept = [piece for piece in _numbers(parts.reasons) if piece in content]
    assert not kept
    assert not parts.part(range(len(parts.nodes)), original=()).attributes
    assert np.float32(NUMBER).tobytes() not in content


def test_every_part_of_consecutive_nodes_runs(parts: OnnxParts) -> None:
    number = len(parts.nodes)
    for begin in range(number):
        for end in range(begin + 1, number + 1):
            # A divisor of integers must not be 0.
            part = parts.part(range(begin, end), original={*parts.reasons, "Secret.nine"})
            assert len(_run(part.model)) == len(part.model.graph.output) > 0


def test_the_whole_with_its_own_weights_is_the_same_network(parts: OnnxParts) -> None:
    whole = parts.part(range(len(parts.nodes)), original=parts.weights)
    for ours, theirs in zip(sorted(_run(whole.model), key=np.size), sorted(_run(_network()), key=np.size), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_part_does_not_begin_with_an_index(parts: OnnxParts) -> None:
    [gather] = (place for place, node in enumerate(parts.nodes) if node.op_type == "Gather")
    part = parts.part([gather], original=parts.reasons)
    assert [node.op_type for node in part.model.graph.node] == ["ArgMax", "Mod", "Gather"]
    assert [(value.name, value.type.tensor_type.elem_type) for value in part.model.graph.input] == [("x0", 1)]


def test_what_is_structure_keeps_its_values(parts: OnnxParts) -> None:
    assert set(parts.reasons) == {"Secret.shape", "Secret.axes"}


def test_scales_and_zero_points_keep_their_values(tmp_path: Path) -> None:
    weights = {"s": np.float32(0.02), "z": np.int8(3), "w": np.arange(6, dtype="int8")}
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["y"])],
        "network",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph), tmp_path / "q.onnx")
    assert set(OnnxParts(tmp_path / "q.onnx").reasons.values()) == {"scale or zero point"}


def test_a_size_becomes_smaller_wherever_it_stands(parts: OnnxParts) -> None:
    nodes = range(3)
    assert [parts.nodes[place].op_type for place in nodes] == ["Conv", "Relu", "Reshape"]
    whole = parts.part(nodes, original=parts.reasons)
    assert sizes_of(whole.model) == [8]
    # 64 is the product of both sizes of an image, and stands in the constant of the reshaping.
    smaller = parts.part(nodes, original=parts.reasons, sizes={8: 2, 64: 4})
    assert smaller.fits and _run(smaller.model)[0].shape == (1, 4, 4)


def test_a_weight_that_keeps_its_values_keeps_its_size(parts: OnnxParts) -> None:
    [gather] = (place for place, node in enumerate(parts.nodes) if node.op_type == "Gather")
    part = parts.part([gather], original={*parts.reasons, "Secret.nine", "Secret.table"}, sizes={9: 5})
    shapes = {tuple(weight.dims) for weight in part.model.graph.initializer}
    assert (9, 8) in shapes and part.parameters == 73


def test_texts_are_replaced_and_values_in_attributes_are_named(tmp_path: Path) -> None:
    texts = numpy_helper.from_array(np.array(["Secret", "Secrets"], object), "t")
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.float32([NUMBER] * 5))),
        helper.make_node("Equal", ["t", "t"], ["e"]),
        helper.make_node("Elu", ["x"], ["u"], alpha=NUMBER),
        helper.make_node("LinearRegressor", ["u"], ["y"], domain="ai.onnx.ml", coefficients=[NUMBER] * 4),
    ]
    ends = [value(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 4]), ("y", [1, 1]), ("k", [5]))]
    graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], [texts])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "t.onnx")
    parts = OnnxParts(tmp_path / "t.onnx")
    part = parts.part(range(len(parts.nodes)), original=parts.reasons)
    content = part.model.SerializeToString()
    assert SECRET not in content
    assert content.count(np.float32(NUMBER).tobytes()) == 5, "those of the attributes, and not the returned constant"
    assert part.attributes == ["Elu.alpha", "LinearRegressor.coefficients"]


def test_sizes_that_do_not_fit_together_are_no_error(tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in "xy"]
    weight = numpy_helper.from_array(np.ones(8, "float32"), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "network", ends[:1], ends[1:], [weight])
    onnx.save(helper.make_model(graph), tmp_path / "a.onnx")
    parts = OnnxParts(tmp_path / "a.onnx")
    assert parts.part([0], original=(), sizes={8: 5}).fits
    assert not parts.part([0], original={"w"}, sizes={8: 5}).fits


def test_an_operator_of_an_unknown_set_is_taken_apart(tmp_path: Path) -> None:
    model = helper.make_model(_network().graph, opset_imports=[helper.make_opsetid("", 17)])
    model.graph.node.add(op_type="Own", domain="own", input=["Secret.x"], output=["Secret.own"])
    onnx.save(model, tmp_path / "own.onnx")
    parts = OnnxParts(tmp_path / "own.onnx")
    assert parts.foreign_names(range(len(parts.nodes))) == ["own:Own"]
