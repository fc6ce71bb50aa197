"""Constants of quantised networks that move by one rounding: those of arithmetic, and no others."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from passsearch.dialects.onnx_rounding import move_constants, quantizes

node = helper.make_node


def network() -> onnx.ModelProto:
    """A product in 8 bits, whose result is resized and raised to a power."""
    weights = {
        "s": np.float32([0.03, 0.02]),
        "z": np.uint8([0, 0]),
        "shared": np.float32(2),
        "scales": np.float32([1, 1.5]),
        "w": np.ones((2, 2), "float32"),
    }
    constant = node("Constant", [], ["half"], value=numpy_helper.from_array(np.float32(0.5)))
    nodes = [
        constant,
        node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        node("DequantizeLinear", ["q", "s", "z"], ["d"], axis=1),
        node("MatMul", ["d", "w"], ["a"]),
        node("Mul", ["a", "half"], ["b"]),
        node("Mul", ["b", "shared"], ["c"]),
        node("Pow", ["c", "shared"], ["p"]),
        node("Resize", ["p", "", "scales"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size]) for name, size in (("x", 2), ("y", 3)))
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    return helper.make_model(helper.make_graph(nodes, "network", [x], [y], constants))


def constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    return {**found, "half": numpy_helper.to_array(model.graph.node[0].attribute[0].t)}


def test_constants_of_arithmetic_move_to_a_neighbouring_number_and_others_stay() -> None:
    model = network()
    before = constants(model)
    move_constants(model, seed=0)
    after = constants(model)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {"s", "w", "half"}  # `shared` is an exponent, too
    for name in changed:
        neighbours = [np.nextafter(before[name], np.float32(limit)) for limit in (-np.inf, np.inf)]
        assert np.isin(after[name], neighbours).all()
    onnx.checker.check_model(model)


def test_the_same_seed_moves_them_to_the_same_numbers() -> None:
    models = [network() for _ in range(3)]
    for model, seed in zip(models, (1, 1, 2), strict=True):
        move_constants(model, seed=seed)
    first, second, other = map(constants, models)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_a_network_without_rounding_to_integers_is_none_of_them() -> None:
    model = network()
    assert quantizes(model)
    del model.graph.node[1]
    assert not quantizes(model)
