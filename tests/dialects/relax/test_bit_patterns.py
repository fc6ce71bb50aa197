"""Own passes keep the values of elementwise functions for all of float32, sampled by bit patterns."""

from typing import Any

import pytest

from passsearch.catalog import load

OWN = "passsearch."
WITH_KERNELS = {"ExpandMath", "ScheduleCPU", "ScheduleRows", "ExpandNorms", "FuseRows", "FoldConstant"}
"""Passes that change what elementwise functions are computed by."""


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_own_passes_keep_elementwise_functions_over_all_of_float32(cases: Any, every: bool) -> None:
    # ScheduleCPU is in every case, because what is compared must run.
    entries = load("relax").entries.values()
    passes = {each.name: each.factory for each in entries if each.factory.startswith(OWN) and each.devices != ("gpu",)}
    passes = {name: factory for name, factory in passes.items() if every or name in WITH_KERNELS}
    results = cases("bit_cases.py", *(f"{name}={factory}" for name, factory in passes.items()))
    assert len(results) == len(passes)
    tried = {case["case"] for case in results if not case["skipped"]}
    assert tried >= WITH_KERNELS
    assert {case["case"]: case["faults"] for case in results if case["faults"]} == {}
