"""Imports ONNX networks that TVM's Relax computes otherwise, and neighbours of them that it computes right.

A script for an interpreter with TVM's Relax: ``test_relax_refusals.py`` runs it and reads the lines.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from onnx_sweep import layer, refusals

sys.path.insert(0, str(Path(__file__).parents[2] / "frontends"))

from onnx_graphs import constant

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax import importer
from passsearch.errors import UserError


def resize(*scales: float) -> object:
    return layer("Resize", 13, [constant("s", [1, 1, *scales], "float32")], names="x - s", mode="linear")[1]


def pool(**settings: object) -> object:
    return layer("MaxPool", 13, kernel_shape=[2, 3], strides=[2, 2], **settings)[1]  # type: ignore[arg-type]


MODELS = {
    "resize by fractions": resize(1.5, 0.3),
    "resize by whole sizes": resize(1.4, 2.0),
    "pool that pads before": pool(auto_pad="SAME_LOWER"),
    "smoothed resize": layer("Resize", 18, [constant("s", [1, 1, 2.0, 3.0], "float32")], names="x - s", antialias=1)[1],
    "pool that pads after": pool(auto_pad="SAME_UPPER"),
    "pool with pads": pool(pads=[1, 1, 0, 1]),
}

if __name__ == "__main__":
    refusals(lambda path: importer.load(ModelSource(path=path, format="onnx", inputs={})), MODELS, UserError)  # type: ignore[arg-type]
