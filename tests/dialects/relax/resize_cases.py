"""Resizes images by tables and by TVM's own loops, and prints one JSON line for each form.

A script for an interpreter with TVM's Relax: ``test_resizing.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
import tvm_ffi
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from small_modules import network, run
from tvm import relax
from tvm.relax import op, transform

from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.deployment.resizing import replace_resizes

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)

SIZES = (
    ((5, 7), (10, 14)),
    ((5, 7), (15, 7)),
    ((9, 8), (4, 3)),
    ((6, 1), (5, 4)),
    ((5, 7), (1, 10)),
    ((4, 6), (7, 11)),
)
MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
ONNX_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
ROUNDINGS = ("", "round", *ONNX_ROUNDINGS)
OTHERS: dict[str, dict[str, Any]] = {
    "cubic": {"method": "cubic"},
    "crop": {"coordinate_transformation_mode": "tf_crop_and_resize", "roi": [0.1, 0.2, 0.8, 0.9]},
    "blocks": {"layout": "NCHW4c"},
}
"""Forms that TVM's loops compute as before."""


def forms(layout: str, new: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """Yield the attributes of each form of a resize to a size."""
    for mode in MODES:
        if mode == "align_corners" and 1 in new:
            continue  # TVM divides by zero
        named = {"layout": layout, "coordinate_transformation_mode": mode}
        yield {"method": "linear", **named}
        for rounding in ROUNDINGS:
            yield {"method": "nearest_neighbor", "rounding_method": rounding, **named}


def image(layout: str, size: tuple[int, int], dtype: str = "float32") -> Any:
    shape = {"NHWC": (2, *size, 3), "NCHW": (2, 3, *size), "NCHW4c": (2, 3, *size, 4)}[layout]
    return (10 * RANDOM.standard_normal(shape)).astype(dtype)


def resizes(value: Any, new: tuple[int, int], attributes: Sequence[Mapping[str, Any]]) -> Any:
    """Return a network that makes one row of an image in several forms."""

    def body(data: Any) -> Any:
        emit = relax.BlockBuilder.current().emit
        images = [emit(op.image.resize2d(data, new, **each)) for each in attributes]
        return op.concat([emit(op.reshape(each, [-1])) for each in images], 0)

    return network(value.shape, body, str(value.dtype))


def legalized(each: Any) -> Any:
    with TARGET:
        return transform.LegalizeOps()(each)


def expected(value: Any, new: tuple[int, int], attributes: Mapping[str, Any]) -> Any:
    """Return what ONNX defines for a resize to the nearest element, as a row."""
    channels_last = attributes["layout"] == "NHWC"
    data = np.moveaxis(value, -1, 1) if channels_last else value
    names = ("coordinate_transformation_mode", "nearest_mode")
    words = {name: attributes[key] for name, key in zip(names, (names[0], "rounding_method"), strict=True)}
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest", **words)
    sizes = numpy_helper.from_array(np.array([*data.shape[:2], *new]), "sizes")
    kinds = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "resize", kinds[:1], kinds[1:], [sizes]), opset_imports=[helper.make_opsetid("", 13)]
    )
    (result,) = ReferenceEvaluator(model).run(None, {"x": data})
    return (np.moveaxis(result, 1, -1) if channels_last else result).ravel()


def compare(layout: str, old: tuple[int, int], new: tuple[int, int], before: Any, value: Any) -> Iterator[Any]:
    """Yield how each form compares with TVM's loops, or with ONNX's definition."""
    attributes = list(forms(layout, new))
    after = legalized(resizes(value, new, attributes))
    assert relax.analysis.check_well_formed(after)
    rows = [np.split(run(each, value, TARGET), len(attributes)) for each in (before, after)]
    for named, one, other in zip(attributes, *rows, strict=True):
        name = " ".join(map(str, (layout, old, new, *named.values())))
        is_exact = named.get("rounding_method") in ONNX_ROUNDINGS
        right, limit = (expected(value, new, named), 0.0) if is_exact else (one, 1e-6)
        yield {"case": name, "deviation": float(np.abs(other - right).max() / np.abs(value).max()), "limit": limit}


if __name__ == "__main__":
    pairs = [*(("NCHW", *each) for each in SIZES), *(("NHWC", *each) for each in SIZES[1::2])][:: int(sys.argv[1])]
    inputs = [(layout, old, new, image(layout, old)) for layout, old, new in pairs]
    plain = [legalized(resizes(value, new, list(forms(layout, new)))) for layout, _, new, value in inputs]
    left = {
        name: resizes(image(named.get("layout", "NCHW"), (5, 7)), (10, 14), [{"method": "linear", **named}])
        for name, named in OTHERS.items()
    }
    left_before = {name: legalized(each) for name, each in left.items()}
    replace_resizes()
    for (layout, old, new, value), before in zip(inputs, plain, strict=True):
        for line in compare(layout, old, new, before, value):
            print(json.dumps(line), flush=True)
    for name, each in left.items():
        same = tvm_ffi.structural_equal(left_before[name], legalized(each))
        print(json.dumps({"case": name, "deviation": 0.0 if same else 1.0, "limit": 0.0}))
