"""Products prefetch weights that come from memory, and compute the same."""

from typing import Any

BY_DEFAULT = {
    *("few rows", "many rows", "a prime number of rows", "columns that tiles repeat"),
    *("weights for each batch", "convolution"),
}
"""Cases that prefetch on processors with AVX-512 without being asked to."""

NEVER = {"few steps", "small weights"}


def test_products_with_large_weights_prefetch_and_compute_the_same(cases: Any) -> None:
    results = cases("prefetch_cases.py")
    products = {case["case"]: case for case in results if "equal" in case}
    assert {name for name, case in products.items() if case["with AVX-512"]} == BY_DEFAULT
    assert not any(case["with AVX"] for case in products.values())
    assert {name for name, case in products.items() if case["when asked"] != [False, True]} == NEVER
    assert all(case["equal"] for case in products.values())
    assert [case["is_next"] for case in results if case["case"] == "address"] == [True]
    # What won on many kernels (docs/evidence/schedules.md) is the default, and what was before is not.
    defaults = {case["case"]: case["default"] for case in results if "default" in case}
    assert len(defaults) == 4 and all(default == [True, False] for default in defaults.values()), defaults
    # All tiles on the same weights together prefetch all of the next ones.
    plans = [case for case in results if "missed" in case]
    assert len(plans) == 72 and not [case for case in plans if case["missed"]]
