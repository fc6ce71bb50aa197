"""Elementwise functions over all of float32, by every sequence of the catalog for a CPU, against numpy in float64."""

import json
from pathlib import Path
from typing import Any

import pytest

from passsearch.catalog import load

ULPS = {"exp": 1.5, "sigmoid": 3, "silu": 6, "erf": 5, "tanh": 6.5, "log of exp": 2**11}
"""Largest error of normal results in units of the last place, where the default is not enough.

The logarithm of an exponential has the error of the exponential, and around 0 the result is much smaller than that.
"""
DEFAULT_ULPS = 2.0

OF_TINY = {"sigmoid": 2**22, "silu": 2**28}
"""Largest error of denormal results, in units of the smallest number.

A sigmoid is 0 where an exponential overflows, below -88.7, and a product with it too.
"""


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_functions_keep_extreme_values(cases: Any, tmp_path: Path, every: int) -> None:
    catalog = load("relax")
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
        if "cpu" in sequence.name or sequence.name == "default-passes"
    }
    (tmp_path / "sequences.json").write_text(json.dumps(sequences))
    results = cases("function_cases.py", str(tmp_path / "sequences.json"), "llvm -mcpu=x86-64-v3", str(every))
    assert {each["case"] for each in results} == set(list(sequences)[::every])
    for each in results:
        # Infinities and NaN are where they are in numpy.
        assert each["wrong"] == [], each
        # Without ExpandMath, functions are TVM's: its tanh is 0 below 3e-8.
        if "schedule" not in each["case"]:
            continue
        assert each["ulps"] <= ULPS.get(each["function"], DEFAULT_ULPS), each
        assert each["of_tiny"] <= OF_TINY.get(each["function"], 1), each
        assert each["zeros"] == 0 or each["function"] == "relu", each
