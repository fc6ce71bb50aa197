"""Fixture that runs the programs of this folder, each in its own process."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[..., str]:
    """Run a program that asserts, and return its output; skip the test if its framework is not installed."""

    def run(
        name: str,
        *,
        framework: str | None = None,
        python: Path = Path(sys.executable),
        search_path: list[str] = sys.path,
        **variables: str,
    ) -> str:
        if framework is not None and find_spec(framework) is None:
            pytest.skip(f"needs {framework}")
        process = subprocess.run(
            [str(python), str(PROGRAMS / name), str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *search_path]), **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    return run
