"""Convolutions by Winograd's algorithm compute what direct ones compute, and others are left alone."""

from collections.abc import Callable
from typing import Any

STRICT_LIMIT = 1.2e-4
"""The limit of float32 networks (docs/measurement.md)."""


def test_winograd_computes_the_same_and_leaves_other_convolutions_alone(cases: Callable[..., Any]) -> None:
    results = {case.pop("case"): case for case in cases("winograd_cases.py")}
    computed = {name: case for name, case in results.items() if "deviation" in case}
    assert len(computed) == 36
    assert all(case["converted"] for case in computed.values())
    assert max(case["deviation"] for case in computed.values()) < STRICT_LIMIT / 10
    for name in ("stride", "dilation", "kernel of five", "groups"):
        assert results[name]["regions"] == []
    assert [region["key"] for region in results["regions"]["regions"]] == ["0"]
    wrong_size, wrong_place, none = results["errors"]["messages"]
    assert "got 3" in wrong_size
    assert "convolution 5 does not fit" in wrong_place
    assert none == ""
