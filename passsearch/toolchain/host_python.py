"""The interpreter an environment is based on."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from passsearch.errors import UserError

_TIMEOUT_S = 60.0
_QUESTION = """
import importlib.util, json, platform, sys
print(json.dumps({
    "python": sys.executable,
    "version": list(sys.version_info[:3]),
    "implementation": platform.python_implementation(),
    "system": platform.system(),
    "machine": platform.machine().lower().replace("amd64", "x86_64"),
    "libc": platform.libc_ver()[0],
    "has_venv": all(map(importlib.util.find_spec, ("venv", "ensurepip"))),
}))
"""


@dataclass(frozen=True)
class HostPython:
    """An interpreter and the platform it runs on.

    Attributes:
        python: Its path.
        version: Three numbers.
        implementation: ``CPython`` or another.
        system: ``Linux``, ``Darwin``, ``Windows``.
        machine: ``x86_64``, ``aarch64``, ….
        libc: ``glibc``, or empty where it cannot be told (musl).
        has_venv: Whether ``venv`` can make an environment with pip in it.
    """

    python: str
    version: tuple[int, ...]
    implementation: str
    system: str
    machine: str
    libc: str
    has_venv: bool

    @property
    def version_text(self) -> str:
        """``3.11.7``."""
        return ".".join(map(str, self.version))

    @property
    def tag(self) -> str:
        """``py311``, as lock files are named."""
        return f"py{self.version[0]}{self.version[1]}"

    @property
    def platform(self) -> str:
        """What a person calls this platform."""
        libc = f" ({self.libc or 'no glibc'})" if self.system == "Linux" else ""
        return f"{self.implementation} on {self.machine} {self.system}{libc}"

    @property
    def is_supported_platform(self) -> bool:
        """Whether compiler wheels exist for it."""
        return (self.implementation, self.system, self.machine, self.libc) == (
            "CPython",
            "Linux",
            "x86_64",
            "glibc",
        )


def describe(python: Path) -> HostPython:
    """Ask an interpreter for its version and platform.

    Raises:
        UserError: It does not start or is no Python; says so in one line.
    """
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise UserError(f"`{python}` is not an executable file; give the path of a Python interpreter.")
    command = [str(python), "-I", "-c", _QUESTION]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise UserError(f"`{python}` does not answer like a Python 3; name another interpreter.") from None
    return HostPython(**{**answer, "version": tuple(answer["version"])})
