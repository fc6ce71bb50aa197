"""Products of one operand with constant weights become one product, and all others stay as they are."""

from collections import defaultdict
from typing import Any


def test_merged_products_compute_what_single_ones_do(cases: Any) -> None:
    results = defaultdict(list)
    for case in cases("merge_cases.py"):
        results[case.pop("kind")].append(case)
    assert {kind: len(of_kind) for kind, of_kind in results.items()} == {
        "fitting": 10,
        "unfitting": 5,
        "wrong": 3,
        "single": 1,
        "left": 1,
    }
    for case in results["fitting"]:
        assert case["products"] == case["expected"] and case["well_formed"], case
        assert case["deviation"] < 1e-6, case
    assert all(case["unchanged"] and not case["regions"] for case in results["unfitting"]), results["unfitting"]
    (single,) = results["single"]
    assert (single["left"], single["up to 3 and 4 rows"]) == ([3, 3], [4, 2])
    assert results["left"] == [{"case": "constant on the left", "unchanged": True}]
    first, second = "4x16 16x8 16x8", "4x16 16x8 16x24"
    assert single["regions"] == [{"key": "0", "like": first}, {"key": "1", "like": second}]
    errors = {case["case"]: case["error"] for case in results["wrong"]}
    assert errors == {
        "value of two": "a group has 0 or 1; got 2",
        "place without a group": "there is no group 2; the network has 2",
        "negative place": "there is no group -1; the network has 2",
    }
