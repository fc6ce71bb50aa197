"""What TVM's loops of operators get wrong is right, by TVM's own pipeline and by the catalog's sequences."""

import json
from pathlib import Path
from typing import Any

import pytest

from passsearch.catalog import load


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_loops_are_right(cases: Any, tmp_path: Path, every: int) -> None:
    catalog = load("relax")
    sequences: dict[str, list[dict[str, Any]]] = {"TVM": []}
    for name in ("schedule-cpu", "simplify-schedule-cpu", "winograd-schedule-cpu"):
        sequences[name] = [
            {
                "name": step.name,
                "arguments": step.argument_values,
                "factory": catalog.entry(step.name).factory,
                "phases": list(catalog.entry(step.name).phases),
            }
            for step in catalog.sequence(name).pipeline.passes
        ]
    (tmp_path / "sequences.json").write_text(json.dumps(sequences))
    results = cases("legalization_cases.py", str(tmp_path / "sequences.json"), str(every))
    assert len(results) == 9 * len(range(0, len(sequences), every))
    assert [each for each in results if not each["is_right"]] == []
