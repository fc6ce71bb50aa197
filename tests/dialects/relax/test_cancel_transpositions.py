"""Transpositions that cancel each other are removed, and no others."""

from typing import Any

LEFT = {
    "tokens as an image": [2, 0],
    "there and back": [2, 0],
    "result of the same shape": [2, 0],
    "used twice": [3, 2],
    "heads": [1, 1],
    "another image": [2, 2],
    "no elements": [2, 2],
    "reshapes alone": [0, 0],
    "two blocks": [2, 2],
}
"""Number of transpositions before and after."""


def test_only_transpositions_that_leave_elements_in_order_are_removed(cases: Any) -> None:
    results = {case.pop("case"): case for case in cases("transposition_cases.py")}
    moves = results.pop("random moves")
    assert results == {name: {"transpositions": left, "well formed": True, "same": True} for name, left in LEFT.items()}
    assert moves["wrong"] == 0 and 1000 < moves["kept"] < 4000, moves
    # Nothing obliges the pass to find all, but these it does.
    assert moves["found"] == moves["kept"]
