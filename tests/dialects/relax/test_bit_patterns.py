"""Own passes keep the values of elementwise functions for all of float32, sampled by bit patterns."""

from typing import Any

from passsearch.catalog import load

OWN = "passsearch."


def test_own_passes_keep_elementwise_functions_over_all_of_float32(cases: Any) -> None:
    # ScheduleCPU is in every case, because what is compared must run.
    entries = load("relax").entries.values()
    passes = {each.name: each.factory for each in entries if each.factory.startswith(OWN) and each.devices != ("gpu",)}
    results = cases("bit_cases.py", *(f"{name}={factory}" for name, factory in passes.items()))
    assert len(results) == len(passes)
    tried = {case["case"] for case in results if not case["skipped"]}
    assert {"ExpandMath", "ScheduleCPU", "ScheduleRows", "ExpandNorms", "FuseRows", "FoldConstant"} <= tried
    assert {case["case"]: case["faults"] for case in results if case["faults"]} == {}
