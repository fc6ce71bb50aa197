"""The polynomials that replace elementary functions."""

from typing import Any

SMALLEST_NORMAL = 1.17549435e-38
"""The smallest number of float32 that is not denormal."""


def test_elementary_functions_keep_the_accuracy_of_float32(cases: Any) -> None:
    results = cases("math_cases.py")
    assert len(results) == 5
    for case in results:
        # Five machine epsilons; TVM's own tanh is off by a thousand.
        assert case["error"] < 6e-7, case
        # Denormal numbers, such as the weights of masked positions in an attention, slow every product down.
        assert case["far_below"] == 0.0 or abs(case["far_below"]) >= SMALLEST_NORMAL, case
        assert not case["calls"] and case["untouched"], case
        assert case["keeps_nan"], case
        assert case["largest"] <= 1.0 or case["case"] in ("exp", "pow"), case
