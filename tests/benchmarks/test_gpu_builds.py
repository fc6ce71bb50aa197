"""The table of builds for GPUs, and the sequences that are built."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def module(load_benchmark: Callable[[str], Any]) -> Any:
    """The module ``benchmarks/gpu/builds.py``."""
    return load_benchmark("gpu.builds")


def test_builds_that_start_as_many_kernels_share_a_line(module: Any) -> None:
    made = {"launches": 84, "kernels": 20, "registers": 48, "stack_bytes": 0}
    builds = {"sm_80": made, "sm_90": {**made, "registers": 64}, "sm_75": {"failure": "compile_error: no"}}
    lines = module.table({"bert_base": {"builds": {"float16": builds}}}).splitlines()
    assert lines[2:] == [
        "| bert_base | float16 | sm_80, sm_90 | 84 | 84 | 20 | 48 to 64 | 0 |",
        "| bert_base | float16 | sm_75 | compile_error: no | 84 | – | – | – |",
    ]


def test_each_precision_is_in_the_pipeline(module: Any) -> None:
    texts = {each: str(module.candidate(each).pipeline) for each in module.PRECISIONS}
    assert "tf32" not in texts["float32"] and 'ScheduleGPU{precision="tf32"}' in texts["tf32"]
    assert 'ToMixedPrecision{out_dtype="float16"},FoldConstant{evaluator="numpy"},LegalizeOps' in texts["float16"]
