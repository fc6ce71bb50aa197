"""DLight's rule for products with one vector is applied where its tiles divide the sizes."""

from typing import Any

WHOLE = {"256 x 256", "64 x 128"}


def test_products_without_whole_tiles_are_left_to_other_passes(cases: Any) -> None:
    results = cases("gemv_cases.py")
    assert len(results) == 5
    for case in results:
        assert case["same"], case
        assert case["scheduled"] == [case["case"] in WHOLE], case
