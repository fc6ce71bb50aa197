"""Scripts of cases, which only an interpreter with TVM's Relay can run."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

ROOT = Path(__file__).parents[3]
Cases: TypeAlias = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def cases(relay_python: Path) -> Cases:
    """Runs a script beside this file; answers the lines it prints, one for each case."""

    def run(script: str) -> list[dict[str, Any]]:
        ended = subprocess.run(
            [str(relay_python), str(Path(__file__).with_name(script))],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        # TVM writes to the output as well.
        told = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"case"')]
        assert ended.returncode == 0, f"after {told[-1:]}: {ended.stderr[-2000:]}"
        return told

    return run
