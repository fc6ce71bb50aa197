"""Elementwise functions over all of float32 are the same by every sequence of the catalog as without passes."""

import json
from pathlib import Path
from typing import Any

import pytest

from passsearch.catalog import load


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_sequences_keep_extreme_values(cases: Any, tmp_path: Path, every: int) -> None:
    catalog = load("relay")
    sequences = {
        sequence.name: [
            {
                "name": step.name,
                "arguments": step.argument_values,
                "factory": catalog.entry(step.name).factory,
                "phases": list(catalog.entry(step.name).phases),
            }
            for step in sequence.pipeline.passes
        ]
        for sequence in catalog.sequences.values()
        # TVM's FastMath loses NaN, as the catalog says, and sequences with 16 bits lose denormal numbers.
        if not any(catalog.entry(step.name).numerics == "approximate" for step in sequence.pipeline.passes)
    }
    (tmp_path / "sequences.json").write_text(json.dumps(sequences))
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3"
    results = cases("function_cases.py", str(tmp_path / "sequences.json"), target, str(every))
    assert {each["case"] for each in results} == set(list(sequences)[::every])
    assert [each for each in results if each["wrong"]] == []
