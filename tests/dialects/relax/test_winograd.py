"""Winograd's algorithm computes convolutions of 3 by 3, and leaves all others as they are."""

from collections import defaultdict
from typing import Any

import pytest

LIMIT = {2: 1e-6, 4: 2.5e-6}
"""Largest deviation by the size of a tile, as a share of the largest output; a search accepts 1.2e-4."""


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_winograd_computes_what_a_direct_convolution_does(cases: Any, every: int) -> None:
    results = defaultdict(list)
    for case in cases("winograd_cases.py", str(every)):
        results[case.pop("kind")].append(case)
    assert {kind: len(of_kind) for kind, of_kind in results.items()} == {
        "fitting": 2 * len(range(0, 22, every)),
        "unfitting": 9,
        "wrong": 6,
        "single": 1,
        "few": 1,
        "saved": 1,
    }
    # Maps of 14 by 14 have 16 tiles of 4, those of 7 by 7 have 4; 5 by 5 has 9 tiles of 2, and 4 by 4 has 4.
    assert results["few"] == [{"case": "few tiles", "16": 36, "14": 36, "7": 16, "5": 16, "4": 0}]
    saved = {"8 8 0": 36, "4 8 0": 0, "8 4 0": 0, "8 8 110592": 36, "8 8 110593": 0}
    assert results["saved"] == [{"case": "little saved", **saved}]
    for case in results["fitting"]:
        size = 2 if "tiles of 2" in case["case"] else 4
        # The transform of the data, the products and the transform of these, which includes all operators after it.
        kernels = 6 if case["case"].startswith("two") else 3
        assert case["scheduled"] and not case["direct"] and case["kernels"] == kernels, case
        assert case["deviation"] < LIMIT[size], case
    assert all(case["unchanged"] for case in results["unfitting"]), results["unfitting"]
    assert results["single"] == [{"case": "second of two", "direct": 1, "products": 1}]
    errors = {case["case"]: case["error"] for case in results["wrong"]}
    assert errors["size of three"] == "a tile has size 0, 2 or 4; got 3"
    assert errors["size of one convolution"] == "a tile has size 0, 2 or 4; got 6"
    for place in ("2", "-1"):
        name = "negative place" if place == "-1" else "place without a convolution"
        assert errors[name] == f"convolution {place} does not fit Winograd's algorithm; [0, 1] do"
    assert errors["no channels"] == "`least_channels` of Winograd is 1 or more; got 0"
    assert errors["no tiles"] == "`least_tiles` of Winograd is 1 or more; got 0"
