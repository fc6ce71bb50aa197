"""ONNX's own tests are right on Relax, or refused as the list ``backend_refusals.txt`` says."""

import sys
from pathlib import Path

import pytest

from passsearch.toolchain import Toolchain

HERE = Path(__file__).parent
BENCHMARKS = str(HERE.parents[2] / "benchmarks")


@pytest.mark.slow
def test_backend_tests_are_right_or_refused_as_listed(relax: Toolchain) -> None:
    sys.path.insert(0, BENCHMARKS)
    try:
        from onnx_backend_tests import run
    finally:
        sys.path.remove(BENCHMARKS)
    answers = run(relax.name)
    assert {name: each for name, each in answers.items() if each["state"] not in ("right", "refused")} == {}
    assert [name for name, each in answers.items() if "\n" in each.get("reason", "")] == []
    # A line that is no longer true must be deleted; none may be added.
    listed = set((HERE / "backend_refusals.txt").read_text().splitlines())
    refused = {name for name, each in answers.items() if each["state"] == "refused"}
    assert sorted(refused - listed) == [], "refused, and not listed"
    assert sorted(listed & answers.keys() - refused) == [], "listed, and right"
