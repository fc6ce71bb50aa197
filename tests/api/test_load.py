"""A winner in the user's own process, which needs PyTorch and the run's TVM there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import short_plans

import passsearch
from passsearch.errors import UserError
from passsearch.toolchain import Toolchain

PROGRAM = Path(__file__).parent / "programs" / "compiled_winner.py"


def test_the_winner_is_a_function_of_torch_tensors(relax: Toolchain, tmp_path: Path) -> None:
    imports = "import torch, optuna, onnx, typer"
    if subprocess.run([str(relax.python), "-c", imports], capture_output=True).returncode:
        pytest.skip("the toolchain's interpreter has not both PyTorch and what passsearch needs")
    done = subprocess.run(
        [str(relax.python), str(PROGRAM), relax.name, str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": str(Path(passsearch.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_interpreter_without_that_tvm_says_how_to_get_it(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    if Path(sys.executable) == relax.python:
        pytest.skip("this interpreter has the TVM")
    result = short_plans.tune(
        tiny_network, toolchain=relax.name, trials=1, confirm=0, passes=["LegalizeOps"], out=tmp_path / "run"
    )
    with pytest.raises(UserError, match=r"pip install -e '\.\[relax\]'"):
        result.compiled  # noqa: B018, a property
