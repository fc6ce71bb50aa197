"""Resizes images by tables and compares with recorded images of ONNX Runtime; prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_resizing.py`` writes the files of images, runs it and reads the
lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from resize_cases import TARGET, legalized, resizes
from small_modules import run

from passsearch.standalone.relax.deployment.resizing import replace_resizes

METHODS = {"linear": "linear", "nearest": "nearest_neighbor"}


def attributes_of(form: dict[str, Any], layout: str) -> dict[str, Any]:
    """Return TVM's attributes of a resize for those of ONNX."""
    place, rounding = form["coordinate_transformation_mode"], form.get("nearest_mode", "")
    return {
        "layout": layout,
        "method": METHODS[form["mode"]],
        "coordinate_transformation_mode": place,
        "rounding_method": rounding,
    }


def compare(path: Path, layout: str) -> Iterator[dict[str, Any]]:
    """Yield how far the images of a file deviate, and whether tables gave all of them."""
    with np.load(path) as arrays:
        data, images, forms = arrays["data"], arrays["images"], json.loads(str(arrays["forms"]))
    if layout == "NHWC":
        data, images = np.moveaxis(data, 1, -1), np.moveaxis(images, 2, -1)
    size = images.shape[3:] if layout == "NCHW" else images.shape[2:4]
    module = legalized(resizes(data, tuple(map(int, size)), [attributes_of(form, layout) for form in forms]))
    text = module.script()
    # TVM computes each place by a multiplication or division of floating-point numbers.
    by_tables = 'T.Cast("float32", ' not in text and "T.floor" not in text and "T.round" not in text
    rows = np.split(run(module, np.ascontiguousarray(data), TARGET), len(forms))
    for form, row, image in zip(forms, rows, images, strict=True):
        deviation = float(np.abs(row - image.ravel()).max() / np.abs(data).max())
        case = f"{form} {layout} {data.shape} {size}"
        yield {"case": case, "is_linear": form["mode"] == "linear", "deviation": deviation, "by_tables": by_tables}


if __name__ == "__main__":
    replace_resizes()
    for file in sorted(Path(sys.argv[1]).glob("*.npz")):
        for layout in ("NCHW", "NHWC"):
            for line in compare(file, layout):
                print(json.dumps(line), flush=True)
