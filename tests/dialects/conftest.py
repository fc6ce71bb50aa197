"""The fixture that runs a script of test cases in an interpreter with one dialect's compiler."""

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
def cases(request: pytest.FixtureRequest, toolchain_of: Callable[[str], Toolchain]) -> Cases:
    """Return a function that runs a script of the test's folder and returns its cases, one per line of its output.

    Such a line is a JSON object whose first key is ``case``. The folder has the name of the dialect, whose toolchain
    runs the script.
    """
    folder = request.path.parent
    toolchain = toolchain_of(folder.name)

    def run(script: str, *arguments: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [str(toolchain.python), str(folder / script), *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        # TVM prints to stdout as well.
        results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
        assert done.returncode == 0, f"after {results[-1:]}: {done.stderr[-2000:]}"
        assert results, f'no line of {script} begins with {{"case": {done.stdout[-2000:]}'
        return results

    return run
