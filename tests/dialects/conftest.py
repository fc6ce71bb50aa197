"""Scripts of cases, which only an interpreter with one dialect's compiler can run."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from passsearch.toolchain import Toolchain

ROOT = Path(__file__).parents[2]
Cases: TypeAlias = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> Cases:
    """Runs a script beside the test with arguments, by the toolchain its folder is named after.

    It answers the script's lines, one a case.
    """
    folder = request.path.parent
    toolchain: Toolchain = request.getfixturevalue(folder.name)

    def run(script: str, *arguments: str) -> list[dict[str, Any]]:
        ended = subprocess.run(
            [str(toolchain.python), str(folder / script), *arguments],
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
