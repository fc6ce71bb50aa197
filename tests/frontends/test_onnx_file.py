"""Tests of reading the declarations of an ONNX file."""

from dataclasses import replace

import onnx
import pytest
from onnx import TensorProto, helper

from passsearch.core import DeclaredInput, TensorType
from passsearch.errors import UserError
from passsearch.frontends.onnx_file import from_path, read
from passsearch.frontends.request import ModelRequest


def write(path, inputs, *, initializers=(), opset=13):
    nodes = [helper.make_node("Relu", [inputs[0].name], ["out"])]
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", list(inputs), [output], list(initializers))
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]), str(path))
    return path


def test_reads_declared_inputs_but_not_those_with_an_initializer(tmp_path):
    values = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N", 3, None, -1]),
        helper.make_tensor_value_info("b", TensorProto.DOUBLE, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, None),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    file = read(write(tmp_path / "m.onnx", values, initializers=[weight]))
    assert file.inputs == (
        DeclaredInput("a", ("N", 3, None, None), "float32"),
        DeclaredInput("b", (), "float64"),
        DeclaredInput("c", None, "bool"),
    )
    assert file.external == ()


def test_a_declared_size_of_zero_is_refused_as_such(tmp_path):
    path = write(tmp_path / "m.onnx", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [0, 3])])
    request = ModelRequest(str(path), {}, None, tmp_path)
    with pytest.raises(UserError, match="Input `x` is declared with a size of 0") as refusal:
        from_path(path, request)
    assert "\n" not in str(refusal.value)
    # Some exporters write 0 for an open size.
    given = {"x": TensorType((2, 3), "float32")}
    assert from_path(path, replace(request, inputs=given)).inputs == given


def test_an_input_that_is_no_tensor_is_refused(tmp_path):
    values = [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1])]
    with pytest.raises(UserError, match="Input `s` is not a tensor"):
        read(write(tmp_path / "m.onnx", values))


def test_an_operator_set_of_the_future_is_refused(tmp_path):
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])]
    assert read(write(tmp_path / "m.onnx", values, opset=onnx.defs.onnx_opset_version())).inputs
    with pytest.raises(UserError, match=r"needs operator set 99; onnx .* knows 1 to \d+. Export") as refusal:
        read(write(tmp_path / "m.onnx", values, opset=99))
    assert "\n" not in str(refusal.value)


def test_a_format_of_numbers_that_no_importer_reads_is_refused(tmp_path):
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT8E5M2, [1])]
    with pytest.raises(UserError, match=r"has `x` in float8e5m2, .* convert the network to float32") as refusal:
        read(write(tmp_path / "m.onnx", values))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [b"hello, this is text", b"\x00" * 64, b"\x08\x08"])
def test_a_file_that_is_not_onnx_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"Cannot read `.*m\.onnx` as ONNX \(.+\)") as refusal:
        read(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("where", ["initializer", "attribute", "branch"])
@pytest.mark.parametrize("name", ["../weights", "/etc/hostname", "deeper/../../weights"])
def test_weights_in_another_folder_are_refused(tmp_path, name, where):
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=name)
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    if where == "initializer":
        nodes, weights = [helper.make_node("Relu", ["w"], ["out"])], [weight]
    else:
        nodes, weights = [helper.make_node("Constant", [], ["out"], value=weight)], []
    if where == "branch":
        branch = helper.make_graph(nodes, "branch", [], [out])
        nodes = [helper.make_node("If", ["a"], ["out"], then_branch=branch, else_branch=branch)]
    graph = helper.make_graph(nodes, "g", [], [out], weights)
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    (tmp_path.parent / "weights").write_bytes(b"1234")
    with pytest.raises(UserError, match="is not in its folder"):
        read(tmp_path / "m.onnx")
