"""Tests of what an ONNX file declares and what the user has to settle."""

import onnx
import pytest
from onnx import TensorProto, helper

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends.onnx_file import DeclaredInput, bind, read

FIXED = DeclaredInput("image", (1, 3, 8, 8), "float32")
BATCHED = DeclaredInput("ids", ("batch", 16), "int64")
MASK = DeclaredInput("mask", ("batch", "length"), "int64")
NAMELESS = DeclaredInput("x", (None, 4), "float32")
RANKLESS = DeclaredInput("x", None, "float32")


def float32(*shape):
    return TensorType(shape, "float32")


def int64(*shape):
    return TensorType(shape, "int64")


def write(path, inputs, *, initializers=()):
    nodes = [helper.make_node("Relu", [inputs[0].name], ["out"])]
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", list(inputs), [output], list(initializers))
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    return path


def test_reads_declared_inputs_but_not_those_with_an_initializer(tmp_path):
    values = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N", 3, None, -1]),
        helper.make_tensor_value_info("b", TensorProto.DOUBLE, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, None),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    found = read(write(tmp_path / "m.onnx", values, initializers=[weight]))
    assert found.inputs == (
        DeclaredInput("a", ("N", 3, None, None), "float32"),
        DeclaredInput("b", (), "float64"),
        DeclaredInput("c", None, "bool"),
    )
    assert found.external == ()


def test_an_input_that_is_no_tensor_is_refused(tmp_path):
    values = [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1])]
    with pytest.raises(UserError, match="Input `s` is not a tensor"):
        read(write(tmp_path / "m.onnx", values))


@pytest.mark.parametrize("content", [b"hello, this is text", b"\x00" * 64, b"\x08\x08"])
def test_what_is_not_onnx_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"Cannot read `.*m\.onnx` as ONNX \(.+\)") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_fixed_inputs_need_nothing_and_tell_the_importer_nothing():
    assert bind([FIXED], given={}, batch=None) == {}
    assert bind([FIXED], given={}, batch=1) == {}


def test_a_given_input_that_agrees_is_passed_on():
    assert bind([FIXED], given={"image": float32(1, 3, 8, 8)}, batch=None) == {"image": float32(1, 3, 8, 8)}


@pytest.mark.parametrize("declared", [NAMELESS, DeclaredInput("x", ("N", 4), "float32")])
def test_batch_binds_an_open_first_dimension(declared):
    assert bind([FIXED, declared], given={}, batch=5) == {"x": float32(5, 4)}


def test_batch_binds_its_name_wherever_it_stands():
    swapped = DeclaredInput("swapped", (16, "batch"), "int64")
    assert bind([BATCHED, swapped], given={}, batch=2) == {"ids": int64(2, 16), "swapped": int64(16, 2)}


def test_a_given_input_binds_the_names_of_its_dimensions():
    assert bind([BATCHED, MASK], given={"mask": int64(4, 16)}, batch=None) == {
        "mask": int64(4, 16),
        "ids": int64(4, 16),
    }


def test_an_input_without_rank_is_given_whole():
    assert bind([RANKLESS], given={"x": float32(1, 2)}, batch=None) == {"x": float32(1, 2)}


@pytest.mark.parametrize(
    ("declared", "given", "batch", "message"),
    [
        (
            [FIXED],
            {"imgae": float32(1)},
            None,
            "Unknown input `imgae`; did you mean `image`. The inputs are: image:float32.1,3,8,8",
        ),
        ([FIXED], {"q": float32(1)}, None, "Unknown input `q`; the inputs are: image:float32"),
        ([FIXED], {"image": float32(1, 3, 8)}, None, "Wrong number of dimensions in `image:float32.1,3,8.`"),
        ([FIXED], {"image": float32(2, 3, 8, 8)}, None, "Dimension 0 is fixed .* must have 1 there"),
        ([FIXED], {"image": TensorType((1, 3, 8, 8), "float16")}, None, "Wrong dtype .* Give float32"),
        ([FIXED], {}, 2, "Batch 2 does not fit inputs of fixed size .image:float32.1,3,8,8.."),
        ([BATCHED], {"ids": int64(4, 16)}, 2, "Batch 2 does not fit"),
        ([BATCHED], {}, None, "Input `ids:int64.batch,16.` has open dimensions; .* --input ids:int64.1,16."),
        ([BATCHED, MASK], {"ids": int64(4, 16)}, 2, "Dimension `batch` cannot be both 4 and 2"),
        ([MASK], {}, 3, "Input `mask:int64.batch,length.` has open .* --input mask:int64.3,1."),
        ([NAMELESS], {}, None, "Input `x:float32.\\?,4.` has open dimensions"),
        ([RANKLESS], {}, 1, "Input `x:float32.….` has open dimensions"),
        (
            [BATCHED, MASK],
            {"ids": int64(4, 16), "mask": int64(2, 16)},
            None,
            "Dimension `batch` cannot be both 4 and 2",
        ),
    ],
)
def test_inputs_that_cannot_be_are_refused_in_one_line(declared, given, batch, message):
    with pytest.raises(UserError, match=message) as caught:
        bind(declared, given=given, batch=batch)
    assert "\n" not in str(caught.value)
