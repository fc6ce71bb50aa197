"""Both evaluators of Relay's ``FoldConstant`` give the same IR."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CASES = Path(__file__).with_name("fold_constant_cases.py")


@pytest.mark.toolchain
def test_numpy_folds_to_the_ir_tvm_folds_to(relay_python: Path) -> None:
    run = subprocess.run(
        [str(relay_python), str(CASES)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    # TVM writes to the output as well.
    cases = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"case"')]
    assert run.returncode == 0, f"after {cases[-1:]}: {run.stderr[-2000:]}"
    assert len(cases) > 100
    assert [case["case"] for case in cases if not case["equal"]] == []
