"""The soak goes on where it stopped, counts by kind and prints its table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from passsearch.toolchain import Toolchain


def test_a_soak_goes_on(relax: Toolchain, load_benchmark: Callable[[str], Any], tmp_path: Path) -> None:
    soak = load_benchmark("soak")
    file = tmp_path / "soak-relax.json"
    assert soak.soak("relax", 6, block=50, file=file)["done"] == 6
    record = soak.soak("relax", 8, block=50, file=file)
    assert record["done"] == 8 and record["internal_errors"] == [] and record["untyped"] == 0
    assert [row["done"] for row in record["over_time"]] == [6, 8]
    assert "| pipelines | 8 |" in soak.table([record])
