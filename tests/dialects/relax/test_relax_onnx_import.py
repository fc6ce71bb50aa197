"""The ONNX importer preserves operators and names, and an IR file preserves the network."""

from typing import Any


def test_bounds_and_borders_stay_operators_and_compute_the_same(cases: Any) -> None:
    *networks, names, external = cases("importer_cases.py")
    assert len(networks) == 8
    for case in networks:
        assert case["operators"], case
        assert case["same"], case
    assert names["inputs"] == ["input.1"]
    assert external["equal"] and external["large ones only"], "a written IR reads back as the same state"
