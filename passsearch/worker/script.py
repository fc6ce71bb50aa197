"""Run an exported script the way a deployment does: with the compiler's interpreter and nothing of ours."""

import os
import subprocess
from pathlib import Path

_STDERR = 2


def run_script(python: Path, script: Path, *, to_stderr: bool = False) -> int:
    """Run a script to its end, its output passed through; returns its exit status.

    Args:
        python: The toolchain's interpreter.
        script: What to run; its folder is the working folder.
        to_stderr: Sends what it prints to standard error.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python), str(script.absolute())]
    sink = _STDERR if to_stderr else None
    return subprocess.run(command, cwd=script.absolute().parent, env=environment, stdout=sink, check=False).returncode
