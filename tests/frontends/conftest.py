"""Programs that need a framework, each in a process of its own: not all of them live in one."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRELUDE = """
import sys
from pathlib import Path
import numpy as np
from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends import resolve

folder = Path(sys.argv[1])

def refused(model, **said):
    try:
        resolve(model, folder=folder, **said)
    except UserError as error:
        assert "\\n" not in str(error)
        return str(error)
    raise AssertionError("not refused")
"""


@pytest.fixture
def run_with(tmp_path: Path) -> Callable[[str, str], None]:
    """Run a program that asserts, after ``PRELUDE``; skipped where its framework is not installed."""

    def run(framework: str, program: str) -> None:
        if find_spec(framework) is None:
            pytest.skip(f"needs {framework}")
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + program, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return run
