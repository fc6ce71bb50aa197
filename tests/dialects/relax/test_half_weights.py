"""Weights that a file has in 16 bits are built in 16 bits, whatever a network reads them through."""

import json
from typing import Any

from passsearch.catalog import load


def test_files_of_weights_have_16_bits_and_outputs_are_those_of_float32(cases: Any) -> None:
    catalog = load("relax")
    pipeline = catalog.sequences["halves-schedule-cpu"].pipeline
    passes = [(step.name, dict(step.argument_values), catalog.entries[step.name].factory) for step in pipeline.passes]
    results = {case.pop("case"): case for case in cases("half_cases.py", json.dumps(passes))}
    # numpy has no bfloat16: its bits are stored.
    assert {name: case["types"] for name, case in results.items()} == {"float16": ["float16"], "bfloat16": ["int16"]}
    # The weights are each in one file, those that two products read, too.
    assert [case["bytes"] for case in results.values()] == [2, 2]
    # Two bytes in base64, and the text around them; float32 would take 5.3.
    assert all(case["saved"] is not None and case["saved"] < 2.9 for case in results.values()), results
    assert all(case["deviation"] < 3e-6 for case in results.values()), results
