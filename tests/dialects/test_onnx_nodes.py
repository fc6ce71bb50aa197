"""What a converter leaves out of a node refuses the network, in a line that names node and reason."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from passsearch.core import TensorType
from passsearch.dialects.onnx_nodes import checked, name_nodes, replaced, write_tensors


def model(node: onnx.NodeProto, outputs: list[str], opset: int = 17) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "columns"])]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    weights = [numpy_helper.from_array(np.ones(4, "float32"), name) for name in ("s", "b")]
    graph = helper.make_graph([node], "g", inputs, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def layer_norm(*outputs: str, **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], list(outputs), name="norm", **attributes)
    return model(node, [name for name in outputs if name])


def reads_axis(inputs: Any, attributes: Any) -> list[TensorType]:
    inputs[0], inputs[1], inputs[2], attributes.get("axis", -1)
    return [TensorType((2, 4), "float32")]


def convert(network: onnx.ModelProto, converter: Any) -> Any:
    """Convert the one node of a network by a converter that returns the types of its outputs."""
    nodes = name_nodes(network, {"x": TensorType((2, 4), "float32")})
    (node,) = network.graph.node
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    attributes["tvm_custom"] = {"name": node.name, "num_outputs": len(node.output)}
    check = checked(
        lambda _, kind, inputs, held: converter(inputs, held),
        nodes=nodes,
        types_of=lambda types: types,
        errors=(Exception,),
    )
    return check(None, node.op_type, list(node.input), attributes)


def test_a_node_that_is_read_whole_is_converted() -> None:
    assert convert(layer_norm("y", axis=1), reads_axis) == [TensorType((2, 4), "float32")]


def test_an_attribute_that_nothing_reads_is_refused_unless_it_has_its_default() -> None:
    convert(layer_norm("y", stash_type=1), reads_axis)
    with pytest.raises(ValueError, match=r"^Operator LayerNormalization `norm`: the attribute epsilon is not .* 0.5$"):
        convert(layer_norm("y", epsilon=0.5), reads_axis)


def test_a_copy_reads_for_the_original() -> None:
    def converter(inputs: Any, attributes: Any) -> list[TensorType]:
        copy = replaced(attributes, axis=0)
        assert copy.get("axis") == 0 and copy["epsilon"] == 0.5
        return reads_axis(inputs, attributes)

    convert(layer_norm("y", axis=1, epsilon=0.5), converter)


def test_an_input_that_nothing_reads_is_refused() -> None:
    def converter(inputs: Any, attributes: Any) -> list[TensorType]:
        assert inputs[7] is None
        return [TensorType((2, 4), "float32") for _ in inputs[:2]][:1]

    with pytest.raises(ValueError, match="`norm`: input 3 is not supported"):
        convert(layer_norm("y"), converter)


def test_an_output_that_is_not_made_is_refused_if_the_network_uses_it() -> None:
    convert(layer_norm("y", ""), reads_axis)
    with pytest.raises(ValueError, match="`norm`: the output `mean` is not supported"):
        convert(layer_norm("y", "mean"), reads_axis)


@pytest.mark.parametrize(
    "other", [TensorType((2, 3), "float32"), TensorType((2, 4), "float64"), TensorType((2,), "float32")]
)
def test_an_output_of_another_type_than_onnx_infers_is_refused(other: TensorType) -> None:
    def converter(inputs: Any, attributes: Any) -> list[TensorType]:
        reads_axis(inputs, attributes)
        return [other]

    with pytest.raises(ValueError, match=r"`norm`: `y` would be float.*, and ONNX defines float32\[2, 4\]"):
        convert(layer_norm("y"), converter)


def test_sizes_that_the_file_declares_are_not_compared() -> None:
    network = layer_norm("y")
    network.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [9, 9]))
    convert(network, reads_axis)


def test_an_operator_of_another_domain_is_not_taken_for_onnxs() -> None:
    network = layer_norm("y")
    network.graph.node[0].domain = "my.layers"
    with pytest.raises(ValueError, match=r"the domain my.layers is not supported"):
        convert(network, reads_axis)


def test_nodes_without_a_name_are_called_by_their_output() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], alpha=2.0)
    with pytest.raises(ValueError, match=r"^Operator Relu `y`: the attribute alpha"):
        convert(model(node, ["y"]), lambda inputs, _: [TensorType((2, 4), "float32") for _ in inputs])


@pytest.mark.parametrize(
    ("name", "value", "tensor"),
    [
        ("value_int", 3, np.int64(3)),
        ("value_floats", [0.5], np.float32([0.5])),
        ("value_ints", [], np.zeros(0, "int64")),
    ],
)
def test_constants_of_numbers_become_tensors(name: str, value: Any, tensor: Any) -> None:
    node = helper.make_node("Constant", [], ["y"])
    kind = onnx.AttributeProto.INTS if value == [] else None
    node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    network = model(node, ["y"])
    write_tensors(network)
    (attribute,) = network.graph.node[0].attribute
    array = numpy_helper.to_array(attribute.t)
    assert (attribute.name, array.dtype, array.shape) == ("value", tensor.dtype, tensor.shape)
    assert array.tolist() == tensor.tolist()


def test_a_check_inside_the_compiler_is_called_what_it_is() -> None:
    def converter(inputs: Any, attributes: Any) -> list[TensorType]:
        raise RuntimeError("Check failed: (!expr->ty.IsMissing()) is false")

    with pytest.raises(ValueError, match=r"`norm`: this form of the operator is not supported \(RuntimeError: Check"):
        convert(layer_norm("y"), converter)
