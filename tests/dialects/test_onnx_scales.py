"""Scales and zero points that stand for no numbers are refused in a line, and all others are taken."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from passsearch.dialects.onnx_nodes import name_nodes
from passsearch.dialects.onnx_scales import check_scales

VALUES: dict[str, Any] = {
    "scale": np.float32(0.05),
    "zero": np.int8(3),
    "weights": np.random.default_rng(0).integers(1, 100, (4, 3, 3, 3)).astype("int8"),
    "scales": np.full(4, 0.01, "float32"),
    "zeros": np.zeros(4, "int8"),
    "next_scale": np.float32(0.1),
    "next_zero": np.int8(-1),
}
QDQ, QLINEAR, INTEGER = "QDQ", "QLinearConv", "ConvInteger"


def network(form: str, *, axis: int = 0, **changed: Any) -> onnx.ModelProto:
    """Return a quantised convolution, with some of ``VALUES`` changed."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "quantize")]
    if form == QDQ:
        nodes.append(helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["data"], "data"))
        nodes.append(helper.make_node("DequantizeLinear", ["weights", "scales", "zeros"], ["kernel"], "w", axis=axis))
        nodes.append(helper.make_node("Conv", ["data", "kernel"], ["y"], "conv"))
    elif form == QLINEAR:
        inputs = ["q", "scale", "zero_read", "weights", "scales", "zeros", "next_scale", "next_zero"]
        nodes.append(helper.make_node(QLINEAR, inputs, ["y"], "conv"))
    else:
        nodes.append(helper.make_node(INTEGER, ["q", "weights", "zero", "zeros"], ["y"], "conv"))
    values = {"zero_read": changed.get("zero", VALUES["zero"]), **VALUES, **changed}
    tensors = [
        value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), name)
        for name, value in values.items()
    ]
    types = {QDQ: TensorProto.FLOAT, QLINEAR: TensorProto.INT8, INTEGER: TensorProto.INT32}
    kinds = (("x", TensorProto.FLOAT, [1, 3, 8, 8]), ("y", types[form], [1, 4, 6, 6]))
    x, y = (helper.make_tensor_value_info(*kind) for kind in kinds)
    graph = helper.make_graph(nodes, "quantised", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(model: onnx.ModelProto, folder: Path) -> None:
    check_scales(model, name_nodes(model, {}), {}, folder=folder)


def one(name: str, place: int, value: float) -> dict[str, Any]:
    array = VALUES[name].copy()
    array[place] = value
    return {name: array}


def beyond() -> TensorProto:
    """Return a zero point of 300 in int8, as a file may store it."""
    return TensorProto(name="zero", data_type=TensorProto.INT8, int32_data=[300])


POSITIVE = "and has to be a finite number above 0; quantise the network again"


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (network(QDQ, scale=np.float32(0)), f"Operator QuantizeLinear `quantize`: a scale is 0, {POSITIVE}"),
        (network(QDQ, scale=np.float32(-0.05)), f"`quantize`: a scale is -0.05, {POSITIVE}"),
        (network(QDQ, scale=np.float32("nan")), f"`quantize`: a scale is nan, {POSITIVE}"),
        (network(QDQ, **one("scales", 2, np.inf)), f"Operator DequantizeLinear `w`: a scale is inf, {POSITIVE}"),
        (network(QDQ, **one("scales", 2, 0)), f"`w`: a scale is 0, {POSITIVE}"),
        (network(QDQ, zeros=np.zeros(4, "uint8")), "`w`: zero points are uint8 and the data is int8"),
        (network(QDQ, zero=beyond()), "`quantize`: a zero point is 300, and int8 is from -128 to 127"),
        (network(QDQ, scales=np.ones(3, "float32"), zeros=np.zeros(3, "int8")), "`w`: 3 scales are not one for each"),
        (network(QDQ, zeros=np.zeros(3, "int8")), "3 zero points are not one for each of the 4 indices of axis 0"),
        (network(QDQ, zeros=np.int8(0)), "the number of scales is 4 and that of zero points 1"),
        (network(QDQ, scales=np.ones((4, 1), "float32")), "scales have the shape [4, 1], and have to be one number"),
        (network(QDQ, axis=4), "`w`: there is no axis 4 in data of shape [4, 3, 3, 3]"),
        (network(QDQ, axis=-5), "`w`: there is no axis -5 in data"),
        (
            network(QDQ, weights=np.ones((4, 3, 3, 3), "int32"), zeros=np.array([0, 0, 7, 0], "int32")),
            "`w`: a zero point of int32 is 7, and has to be 0",
        ),
        (network(QLINEAR, next_scale=np.float32(0)), f"Operator QLinearConv `conv`: a scale is 0, {POSITIVE}"),
        (network(QLINEAR, zero_read=np.uint8(3)), "`conv`: zero points are uint8 and the data is int8"),
        (network(QLINEAR, zeros=np.zeros(4, "uint8")), "`conv`: zero points are uint8 and the data is int8"),
        (network(QLINEAR, next_scale=np.ones(4, "float32")), "scales have the shape [4], and have to be one number"),
        (network(INTEGER, zeros=np.zeros(3, "int8")), "Operator ConvInteger `conv`: 3 zero points are not one for"),
        (network(INTEGER, zeros=np.zeros(4, "uint8")), "`conv`: zero points are uint8 and the data is int8"),
    ],
)
def test_what_stands_for_no_numbers_is_refused_in_a_line(model: onnx.ModelProto, text: str, tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=re.escape(text)) as caught:
        check(model, tmp_path)
    assert "\n" not in str(caught.value) and str(caught.value).endswith("; quantise the network again")


def test_what_stands_for_numbers_is_taken(tmp_path: Path) -> None:
    dead = VALUES["weights"].copy()
    dead[2] = 0  # such a channel is zero by any scale
    scalars = {"scales": np.float32(0.01), "zeros": np.int8(0)}
    taken = [
        *(network(form) for form in (QDQ, QLINEAR, INTEGER)),
        *(network(form, **scalars, axis=9) for form in (QDQ, QLINEAR)),
        network(QLINEAR, zeros=np.int8(0)),  # for all scales, which QuantizeLinear does not take
        network(QDQ, axis=-4),
        network(QDQ, weights=dead, **one("scales", 2, 0)),
    ]
    for model in taken:
        check(model, tmp_path)
