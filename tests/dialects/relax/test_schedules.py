"""The CPU schedule changes the speed of functions, and not their results."""

from typing import Any

WITHOUT_VECTORS = {"sum of all", "padded transpose"}
"""Functions without an axis that vectors fit in."""

WITHOUT_PACKING = {"product of odd sizes"}
"""Functions whose weights have no axis that can be packed."""


def test_scheduled_functions_compute_the_same(cases: Any) -> None:
    results = cases("schedule_cases.py")
    assert len(results) == 82
    for case in results:
        name = case["case"].partition(" on ")[0]
        is_packed = name.startswith(("conv", "product")) and name not in WITHOUT_PACKING
        assert case["scheduled"] and case["same"], case
        assert (case["vectors"], case["packed"]) == (name not in WITHOUT_VECTORS, is_packed), case
