"""Runs an exported script as a deployment does: with the compiler's interpreter and without this package."""

import os
import subprocess
from pathlib import Path
from typing import Any

# The number of the descriptor, not `sys.stderr`: a notebook or a test replaces that object by one without a descriptor.
_STDERR = 2


def run_script(python: Path, script: Path, *, to_stderr: bool = False, log: Path | None = None) -> int:
    """Run a script to its end, pass its output through, and return its exit status.

    Args:
        python: The toolchain's interpreter.
        script: The script to run; its folder is the working folder.
        to_stderr: Sends the script's standard output to standard error.
        log: File that gets all of the script's output instead.
    """
    # PYTHONPATH, PYTHONHOME and the like belong to the user's interpreter; a deployment does not have them.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python), str(script.absolute())]
    options: dict[str, Any] = {"cwd": script.absolute().parent, "env": environment, "check": False}
    if log is not None:
        with log.open("wb") as sink:
            return subprocess.run(command, stdout=sink, stderr=subprocess.STDOUT, **options).returncode
    return subprocess.run(command, stdout=_STDERR if to_stderr else None, **options).returncode
