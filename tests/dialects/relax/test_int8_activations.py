"""Products of narrow weights and of activations in int8 are those of numpy, and what is not so says why."""

import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import passsearch
from passsearch.catalog import load
from passsearch.toolchain import Toolchain


@pytest.mark.parametrize(("every", "count"), [(3, 8), pytest.param(1, 19, marks=pytest.mark.slow)])
def test_kernels_multiply_integers(cases: Any, every: int, count: int) -> None:
    results = defaultdict(list)
    for case in cases("int8_activation_cases.py", str(every)):
        results[case.pop("kind")].append(case)
    assert len(results["integers"]) == count
    for case in results["integers"]:
        # In float64 with the same integers; one that differs by 1 would be seen.
        assert case["deviation"] < 2e-6, case
        ((line,),) = case["notes"].values()
        reason = ": groups of 32 do not divide the sum" if case["case"].startswith("groups of") else ""
        assert line.endswith(f" with int8 activations{reason}"), case
    assert len(results["arguments"]) == count
    for case in results["arguments"]:
        assert case["plain"] < 1e-6 and case["rounded"] < 3e-6 and case["activations"] > 1e-3, case
    notes = {case["case"]: [line for lines in case["notes"].values() for line in lines] for case in results["notes"]}
    assert notes == {
        "open rows": ["128x256 in int4 in groups of 32: activations in float32: their size or order does not fit"],
        "odd sum in columns": ["127x256 in int8: activations in float32: no groups of 16 to 256 divide the sum"],
        "images": ["64x128x3x3 in int8: activations in float32: their size or order does not fit"],
        "integers in one kernel": ["128x256 in int8 with int8 activations"],
        "old processor": ["128x256 in int4 in groups of 32: activations in float32: the processor has no AVX2"],
    }
    (error,) = results["error"]
    assert error["text"].endswith("is float32, or int8 for int8 or int4; got int8 for float16")


@pytest.mark.toolchain
def test_exported_products_of_integers_run(relax: Toolchain, tmp_path: Path) -> None:
    name, sequence = "zoo:llama_tiny_decode", load("relax").sequences["narrow-int4-activations-schedule-cpu"]
    text = str(sequence.pipeline).replace('storage="int4"', 'least=64,storage="int4"')
    steps = passsearch.apply(name, text, toolchain=relax.name)["steps"]
    lines = [line for step in steps for line in step.get("weights", ())]
    assert any(line.endswith("in int4 in groups of 32 with int8 activations") for line in lines), lines
    folder = tmp_path / "deployment"
    # Whether it runs is asked; with all weights in 4 bits, outputs deviate by most of the largest on some inputs.
    passsearch.compile(name, to=folder, pipeline=text, rivals=[], toolchain=relax.name, tolerance=2.0)
    command = [str(relax.python), str(folder / "build_model.py")]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
