"""What importing keeps as operators, and how a network is kept."""

from typing import Any


def test_bounds_and_borders_stay_operators_and_compute_the_same(cases: Any) -> None:
    *networks, named, apart = cases("importer_cases.py")
    assert len(networks) == 8
    for case in networks:
        assert case["operators"], case
        assert case["same"], case
    assert named["inputs"] == ["input.1"]
    assert apart["equal"] and apart["large ones only"], "IR is read back as it was, weights from beside it"
