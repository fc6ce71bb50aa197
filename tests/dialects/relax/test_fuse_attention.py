"""Attentions: which become one function, and that results stay the same."""

from typing import Any

import pytest

COPIED = {"token of one head", "token of one group", "few rows of a large group", "token of depth 12"}
"""Networks whose attention stays several kernels, and whose keys are transposed or repeated by a kernel."""

SEPARATE = {"softmax of columns", "few rows", "double precision", "half precision", "weights read again", *COPIED}
"""Networks whose attention stays several kernels."""

UNPACKED = {"token", "token of groups", "few rows of groups"}
"""Networks with few rows in one kernel, which reads the keys where they are."""


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_attentions_are_one_function_and_computed_the_same(cases: Any, every: int) -> None:
    results = {case.pop("case"): case for case in cases("attention_cases.py", str(every))}
    choices = results.pop("choices")
    assert len(results) == 3 * len(range(0, 29, every))
    for name, case in results.items():
        network = name.partition(" on ")[0]
        number = 2 if network == "chained" else int(network not in SEPARATE)
        assert (case["attentions"], case["regions"]) == (number, number), name
        assert case["well_formed"] and case["same"] is not False, (name, case)
        assert case["same"] or name.endswith("x86-64-v4"), (name, case)
        assert case["scheduled"] and case["vectors"], (name, case)
        assert case["packed_first"] == (network not in UNPACKED), (name, case)
        assert bool(case["copies"]) == (network in COPIED), (name, case)
    assert choices.pop("two blocks") == [0, True] and choices.pop("reshaped values") == [1]
    assert choices.pop("no such place").startswith("there is no attention 2; the network has 2")
    assert choices.pop("no such value") == "an attention has 0 or 1; got 2"
    assert choices == {
        "by default": [],
        "from 30": [40],
        "all": [40, 20],
        "the second": [20],
        "all but the first": [20],
        "places": ["0", "1"],
    }
