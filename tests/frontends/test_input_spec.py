"""Tests of inputs as people type them."""

import pytest

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends import parse_input
from passsearch.frontends.input_spec import format_input


@pytest.mark.parametrize(
    ("text", "name", "shape", "dtype"),
    [
        ("image:float32[1,3,224,224]", "image", (1, 3, 224, 224), "float32"),
        (" ids:int64[ 1, 128 ] ", "ids", (1, 128), "int64"),
        ("scale:bfloat16[]", "scale", (), "bfloat16"),
        ("image:0:float16[2]", "image:0", (2,), "float16"),
        ("onnx::x[0]:bool[4]", "onnx::x[0]", (4,), "bool"),
    ],
)
def test_reads_name_dtype_and_shape(text, name, shape, dtype):
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
def test_says_what_is_wrong_in_one_line(text, message):
    with pytest.raises(UserError, match=message) as caught:
        parse_input(text)
    assert "\n" not in str(caught.value)


def test_writing_and_reading_are_inverse():
    kind = TensorType((1, 3), "float32")
    assert parse_input(format_input("x", kind)) == ("x", kind)
