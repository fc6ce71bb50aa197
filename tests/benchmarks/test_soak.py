"""The soak goes on where it stopped, counts by kind and prints its table."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from passsearch.core import Failure
from passsearch.toolchain import Toolchain


@pytest.mark.slow
def test_a_soak_goes_on(relax: Toolchain, load_benchmark: Callable[[str], Any], tmp_path: Path) -> None:
    soak = load_benchmark("faults.soak")
    file = tmp_path / "soak-relax.json"
    assert soak.soak("relax", 6, block=50, file=file)["done"] == 6
    record = soak.soak("relax", 8, block=50, file=file)
    assert record["done"] == 8 and record["internal_errors"] == [] and record["untyped"] == 0
    assert [row["done"] for row in record["over_time"]] == [6, 8]
    assert "| pipelines | 8 |" in soak.table([record])


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["relax", "relay"])
def test_what_killed_the_compiler_is_a_failure(
    dialect: str, request: pytest.FixtureRequest, load_benchmark: Callable[[str], Any]
) -> None:
    toolchain, soak = request.getfixturevalue(dialect), load_benchmark("faults.soak")
    record = json.loads((soak.RESULTS / f"soak-{dialect}.json").read_text())
    outcomes = soak.reproduce(record, toolchain.name)
    # A compiler may answer today what it died of then, but nothing else may happen.
    assert all(not isinstance(outcome, Failure) or outcome.kind in soak.DEATHS for outcome in outcomes)
