"""Norms as one operator are written out and give the same results."""

from typing import Any

import pytest

UNCHANGED = {
    *("layer norm without scale", "layer norm without shift", "layer norm over channels", "layer norm in float16"),
    *("instance norm of channels last", "mean and variance of outer axes", "no norm"),
}

KERNELS = {"layer norm": 1, "root mean square": 2, "mean and variance of the last axis": 2}
"""Kernels of norms over the last axis; all others have two more, for the reshape and for the scale."""


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_norms_are_written_out_and_keep_their_results(cases: Any, every: int) -> None:
    results = {case["case"]: case for case in cases("norm_cases.py", str(every))}
    assert len(results) == len(range(0, 19, every))
    assert {name for name, case in results.items() if not case["changed"]} == UNCHANGED & results.keys()
    for name, case in results.items():
        assert case["well_formed"] and case["same_shape"] and case["error"] < 1e-5, case
        if name not in UNCHANGED:
            assert case["kernels"] == KERNELS.get(name, 3), case
