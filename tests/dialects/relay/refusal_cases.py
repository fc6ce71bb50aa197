"""Imports ONNX networks that TVM's Relay computes otherwise, and neighbours of them that it computes right.

A script for an interpreter with TVM's Relay: ``test_relay_refusals.py`` runs it and reads the lines.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from onnx_sweep import layer, refusals

sys.path.insert(0, str(Path(__file__).parents[2] / "frontends"))

from onnx_graphs import GRAPHS, constant, weight

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay import importer
from passsearch.errors import UserError


def resize(*scales: float, **settings: object) -> object:
    return layer("Resize", 13, [constant("s", [1, 1, *scales], "float32")], names="x - s", **settings)[1]  # type: ignore[arg-type]


def pool(kind: str, **settings: object) -> object:
    return layer(kind, 13, kernel_shape=[3, 3], strides=[3, 2], **settings)[1]  # type: ignore[arg-type]


def turned(**settings: object) -> object:
    return layer("ConvTranspose", 13, [weight("w", 4, 3, 3, 2)], strides=[2, 2], **settings)[1]  # type: ignore[arg-type]


ASYMMETRIC = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}

BOXES = [constant("b", [[1.0, 2.0, 5.0, 6.0]], "float32"), constant("i", [0])]


def boxes(where: str, mode: str = "avg") -> object:
    return layer("RoiAlign", 16, BOXES, coordinate_transformation_mode=where, mode=mode)[1]


def of_another_domain() -> object:
    model = layer("ScaledTanh", 17)[1]
    model.graph.node[0].domain = "pkg.layers"
    return model


def shift(dtype: str) -> object:
    by = [constant("d", [1], dtype)]
    return layer("BitShift", 13, by, shape=(3,), dtype=dtype, dtypes={"y": dtype}, direction="LEFT")[1]


LSTM = [weight("w", 1, 16, 3), weight("r", 1, 16, 4)]
TRAINING = [constant("ratio", 0.5, "float32"), constant("t", True, "bool")]
ATTENTION = [weight("k", 1, 2, 4, 8), weight("v", 1, 2, 4, 8)]


MODELS = {
    "smoothed resize": layer("Resize", 18, [constant("s", [1, 1, 2.0, 3.0], "float32")], names="x - s", antialias=1)[1],
    "boxes of half pixels": boxes("half_pixel"),
    "boxes of whole pixels": boxes("output_half_pixel"),
    "resize by fractions": resize(1.5, 0.3, mode="linear"),
    "resize by whole sizes": resize(1.4, 2.0, mode="linear"),
    "nearest, rounded up": resize(2.0, 3.0, nearest_mode="ceil", **ASYMMETRIC),
    "nearest, rounded down": resize(2.0, 3.0, nearest_mode="floor", **ASYMMETRIC),
    "mean that pads and rounds up": pool("AveragePool", ceil_mode=1, pads=[1, 1, 1, 1]),
    "maximum that pads and rounds up": pool("MaxPool", ceil_mode=1, pads=[1, 1, 1, 1]),
    "maximum that rounds up": pool("MaxPool", ceil_mode=1),
    "maximum that pads": pool("MaxPool", pads=[1, 1, 1, 1]),
    "turned convolution that pads by itself": turned(auto_pad="SAME_UPPER"),
    "turned convolution with pads": turned(pads=[1, 0, 0, 1]),
    "maximum of a box": boxes("output_half_pixel", "max"),
    "dropout that trains": layer("Dropout", 13, TRAINING)[1],
    "an operator of another domain": of_another_domain(),
    "attention of ONNX": layer("Attention", 23, ATTENTION, shape=(1, 2, 4, 8))[1],
    "an attribute that nothing reads": layer("LSTM", 14, LSTM, shape=(5, 2, 3), hidden_size=4, input_forget=1)[1],
    "random numbers": layer("RandomNormalLike", 13)[1],
    "shift of signed integers": shift("int16"),
    "shift of unsigned integers": shift("uint16"),
    "inverse transform of one side": layer("DFT", 17, shape=(1, 6, 2), inverse=1, onesided=1)[1],
    "branch by data": GRAPHS["branch-of-data"](),
    "counted loop": GRAPHS["loop-counted"](),
    "largest of no elements": layer("ReduceMax", 13, shape=(2, 0, 3), axes=[1])[1],
    "size by data": layer("NonZero", 13, shape=(3, 4), dtypes={"y": "int64"})[1],
}

if __name__ == "__main__":
    refusals(lambda path: importer.load(ModelSource(path=path, format="onnx", inputs={})), MODELS, UserError)  # type: ignore[arg-type]
