"""Tests of the text form of inputs and of binding open dimensions."""

import numpy as np
import pytest

from passsearch.core import (
    DeclaredInput,
    TensorType,
    bind_inputs,
    format_input,
    leading_batch,
    parse_input,
    read_inputs,
    resolve_inputs,
)
from passsearch.errors import UserError

FIXED = DeclaredInput("image", (1, 3, 8, 8), "float32")
IDS = DeclaredInput("ids", ("batch", 16), "int64")
MASK = DeclaredInput("mask", ("batch", "length"), "int64")
NAMELESS = DeclaredInput("x", (None, 4), "float32")
RANKLESS = DeclaredInput("x", None, "float32")


def float32(*shape):
    return TensorType(shape, "float32")


def int64(*shape):
    return TensorType(shape, "int64")


@pytest.mark.parametrize(
    ("text", "name", "shape", "dtype"),
    [
        ("image:float32[1,3,224,224]", "image", (1, 3, 224, 224), "float32"),
        (" ids:int64[ 1, 128 ] ", "ids", (1, 128), "int64"),
        ("scale:float16[]", "scale", (), "float16"),
        ("image:0:float16[2]", "image:0", (2,), "float16"),
        ("onnx::x[0]:bool[4]", "onnx::x[0]", (4,), "bool"),
    ],
)
def test_parse_reads_name_dtype_and_shape(text, name, shape, dtype):
    assert parse_input(text) == (name, TensorType(shape, dtype))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image", "reads name:dtype\\[shape\\]; got `image`. For example: --input image:float32"),
        ("image:float32", "got `image:float32`"),
        (":float32[1]", "got `:float32"),
        ("image[1,3]", "got `image"),
        ("", "got ``"),
        ("image:float[1]", "Unknown dtype `float` in `image:float\\[1\\]`; choose from: float32"),
        ("image:float32[1,0]", "whole numbers from 1 on; got `0` in"),
        ("image:float32[1,-3]", "got `-3`"),
        ("image:float32[1,,3]", "got ``"),
        ("image:float32[N]", "got `N`"),
        ("image:float32[²]", "got `²`"),
    ],
)
def test_parse_names_the_mistake_in_one_line(text, message):
    with pytest.raises(UserError, match=message) as error:
        parse_input(text)
    assert "\n" not in str(error.value)


def test_format_and_parse_are_inverse():
    kind = TensorType((1, 3), "float32")
    assert parse_input(format_input("x", kind)) == ("x", kind)


def test_fixed_inputs_need_no_types():
    assert bind_inputs([FIXED], types={}, batch=None) == {}
    assert bind_inputs([FIXED], types={}, batch=1) == {}


def test_a_type_of_the_user_that_agrees_stays():
    assert bind_inputs([FIXED], types={"image": float32(1, 3, 8, 8)}, batch=None) == {"image": float32(1, 3, 8, 8)}


@pytest.mark.parametrize("declared", [NAMELESS, DeclaredInput("x", ("N", 4), "float32")])
def test_batch_binds_an_open_first_dimension(declared):
    assert bind_inputs([FIXED, declared], types={}, batch=5) == {"x": float32(5, 4)}


def test_batch_binds_its_name_on_every_axis():
    swapped = DeclaredInput("swapped", (16, "batch"), "int64")
    assert bind_inputs([IDS, swapped], types={}, batch=2) == {"ids": int64(2, 16), "swapped": int64(16, 2)}


def test_a_type_of_the_user_binds_the_names_of_its_dimensions():
    assert bind_inputs([IDS, MASK], types={"mask": int64(4, 16)}, batch=None) == {
        "mask": int64(4, 16),
        "ids": int64(4, 16),
    }


def test_an_input_without_rank_takes_the_type_of_the_user():
    assert bind_inputs([RANKLESS], types={"x": float32(1, 2)}, batch=None) == {"x": float32(1, 2)}


def test_all_inputs_have_types_in_the_order_of_the_file():
    types = resolve_inputs([FIXED, IDS], types={}, batch=2)
    assert list(types.items()) == [("image", float32(1, 3, 8, 8)), ("ids", int64(2, 16))]


@pytest.mark.parametrize(
    ("declared", "types", "batch", "message"),
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
        (
            [DeclaredInput("words", (1, 4), "string")],
            {},
            None,
            "Input `words:string.1,4.` has a dtype that passsearch does not support; supported are: float32",
        ),
        (
            [DeclaredInput("x", ("N", 3), "float32")],
            {},
            99999999999,
            r"take 1.2e\+03 GB, and this machine has .* GB of memory: x:float32.99999999999,3.. Give a smaller batch",
        ),
        ([FIXED], {}, 2, "Batch 2 does not fit inputs of fixed size .image:float32.1,3,8,8.."),
        ([IDS], {"ids": int64(4, 16)}, 2, "Batch 2 does not fit"),
        ([IDS], {}, None, "Input `ids:int64.batch,16.` has open dimensions; .* --batch 1, or --input ids:int64.1,16."),
        ([IDS, MASK], {"ids": int64(4, 16)}, 2, "Dimension `batch` cannot be both 4 and 2"),
        ([MASK], {}, 3, "Input `mask:int64.batch,length.` has open .* --input mask:int64.3,1."),
        ([NAMELESS], {}, None, "Input `x:float32.\\?,4.` has open dimensions; .* --batch 1, or --input"),
        ([RANKLESS], {}, 1, "Input `x:float32.….` has open dimensions; .* --input x:float32.1,3,224,224."),
        (
            [IDS, MASK],
            {"ids": int64(4, 16), "mask": int64(2, 16)},
            None,
            "Dimension `batch` cannot be both 4 and 2",
        ),
    ],
)
def test_contradictory_inputs_are_refused_in_one_line(declared, types, batch, message):
    with pytest.raises(UserError, match=message) as error:
        bind_inputs(declared, types=types, batch=batch)
    assert "\n" not in str(error.value)


class TensorOfTorch:
    """A value with the attributes that a tensor of PyTorch has; its dtype prints as PyTorch's does."""

    class dtype:  # noqa: N801
        def __str__(self) -> str:
            return "torch.int64"

    shape = (1, 128)
    dtype = dtype()


@pytest.mark.parametrize(
    "inputs",
    [
        "ids:int64[1,128]",
        ["ids:int64[1,128]"],
        {"ids": "int64[1,128]"},
        {"ids": "ids:int64[1,128]"},
        {"ids": ((1, 128), "int64")},
        {"ids": ([1, 128], np.int64)},
        {"ids": ((1, 128), np.dtype("int64"))},
        {"ids": np.zeros((1, 128), "int64")},
        {"ids": TensorOfTorch()},
        {"ids": int64(1, 128)},
    ],
)
def test_types_of_inputs_are_read_from_any_form(inputs):
    assert read_inputs(inputs) == {"ids": int64(1, 128)}


def test_no_inputs_are_no_types():
    assert read_inputs(None) == {}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (5, "`inputs` is a mapping by input name, or a list of texts name:dtype.shape.; got 5. For example: inputs="),
        ([5], "got .5.. For example"),
        ({"ids": (1, 128)}, "Input `ids` is a text dtype.shape., a pair .shape, dtype. or a tensor; got .1, 128."),
        ({"ids": [1, 128]}, "Input `ids` is a text"),
        ({"ids": None}, "Input `ids` is a text"),
        ({"ids": [[[number] for number in range(9999)]]}, "Input `ids` is a text .{,250}$"),
        ({"ids": ((0, 2), "int64")}, "whole numbers from 1 on; got `0`"),
        ({"ids": ((1, 2), "int65")}, "Unknown dtype `int65`"),
        ({"ids": "float32"}, "An input reads name:dtype.shape."),
        (["ids:int64[1]", "ids:int64[2]"], "Input `ids` is given twice"),
    ],
)
def test_other_forms_of_inputs_are_refused_in_one_line(inputs, message):
    with pytest.raises(UserError, match=message) as error:
        read_inputs(inputs)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("shapes", "batch"),
    [
        ([(8, 3, 224, 224)], 8),
        ([(8, 128), (8, 128)], 8),
        ([(60, 1, 40)], 1),  # 60 steps of one sample
        ([(60, 4, 40), (2, 4, 64)], 1),  # 60 steps, beside the states of two layers
        ([(4, 3, 64, 64), (2,)], 4),  # images, and the size to scale them to
        ([(16,)], 1),
        ([()], 1),
        ([], 1),
    ],
)
def test_a_first_dimension_is_a_batch_only_where_all_inputs_share_it_and_it_counts_no_steps(shapes, batch):
    assert leading_batch({str(place): float32(*shape) for place, shape in enumerate(shapes)}) == batch
