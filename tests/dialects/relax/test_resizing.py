"""Resizes by tables are computed as ONNX defines them, as ONNX Runtime does it, and as TVM's own loops do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

SIZES = (((5, 7), (10, 14)), ((5, 7), (15, 7)), ((9, 8), (4, 3)), ((13, 11), (17, 23)), ((4, 6), (7, 11)))
"""Old and new sizes of an image: twice, three times, smaller, and by odd factors."""

MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
ROUNDED = 1e-6
"""Largest deviation of what is computed from four neighbours, as a share of the largest of them."""


def forms() -> Iterator[dict[str, Any]]:
    for mode in MODES:
        yield {"mode": "linear", "coordinate_transformation_mode": mode}
        for rounding in ROUNDINGS:
            yield {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": rounding}


def image_of_onnx_runtime(data: Any, form: dict[str, Any], size: tuple[int, int]) -> Any:
    sizes = numpy_helper.from_array(np.array([*data.shape[:2], *size]), "sizes")
    kinds = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **form)
    graph = helper.make_graph([node], "resize", kinds[:1], kinds[1:], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (image,) = session.run(None, {"x": data})
    return image


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_resizes_by_tables_keep_their_results(cases: Any, every: int) -> None:
    results = cases("resize_cases.py", str(every))
    assert len(results) > 200 // every
    assert not [case for case in results if not case["deviation"] <= case["limit"]]


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_resizes_by_tables_are_those_of_onnx_runtime(cases: Any, tmp_path: Path, every: int) -> None:
    random = np.random.default_rng(0)
    for place, (old, new) in enumerate(SIZES[::every]):
        data = (10 * random.standard_normal((2, 3, *old))).astype("float32")
        images = np.stack([image_of_onnx_runtime(data, form, new) for form in forms()])
        np.savez(tmp_path / f"{place}.npz", data=data, images=images, forms=json.dumps([*forms()]))
    results = cases("resize_runtime_cases.py", str(tmp_path))
    assert len(results) == 2 * len(SIZES[::every]) * len([*forms()]) == 40 * len(SIZES[::every])
    assert all(case["by_tables"] for case in results)
    assert [case for case in results if case["deviation"] > (ROUNDED if case["is_linear"] else 0.0)] == []
