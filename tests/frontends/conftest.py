"""Programs that need a framework, each in a process of its own: not all of them live in one."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_with(tmp_path: Path) -> Callable[[str, str], None]:
    """Run a program that asserts, with a folder as its argument; skipped where its framework is not installed."""

    def run(framework: str, program: str) -> None:
        if find_spec(framework) is None:
            pytest.skip(f"needs {framework}")
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return run
