"""The catalog contradicts the paper exactly where the committed measurements do."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from passsearch.catalog import load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "reproduction" / "cf22"))
    import tables  # type: ignore[import-not-found]

    yield tables
    for name in ("tables", "networks", "figures"):
        sys.modules.pop(name, None)


def test_the_catalog_marks_what_the_measurements_contradict(tables: Any) -> None:
    files = sorted((ROOT / "benchmarks" / "results" / "relay" / "cf22").glob("*.json"))
    _, _, rows = tables.contradictions({file.stem: json.loads(file.read_text()) for file in files})
    marked = [
        [entry.name, category, evidence]
        for entry in load("relay").entries.values()
        for category, evidence in entry.contradicted.items()
    ]
    assert sorted(rows) == sorted(marked) != []
