"""The Python interpreter that an environment is created with."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from passsearch.errors import UserError

_TIMEOUT_S = 60.0
_SCRIPT = Path(__file__).with_name("host_script.py")


@dataclass(frozen=True)
class HostPython:
    """A Python interpreter and the platform it runs on.

    Attributes:
        python: The interpreter's path.
        version: Major, minor and micro version.
        implementation: ``CPython`` or another implementation.
        system: ``Linux``, ``Darwin`` or ``Windows``.
        machine: ``x86_64``, ``aarch64``, ….
        libc: ``glibc``, or empty if Python cannot detect the C library, as on musl.
        has_venv: True if ``venv`` can create an environment with pip.
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
        """The version as text, for example ``3.11.7``."""
        return ".".join(map(str, self.version))

    @property
    def tag(self) -> str:
        """The prefix of the lock files for this version, for example ``py311``."""
        return f"py{self.version[0]}{self.version[1]}"

    @property
    def platform(self) -> str:
        """The Python implementation, machine, system and C library in words, for error messages."""
        libc = f" ({self.libc or 'no glibc'})" if self.system == "Linux" else ""
        return f"{self.implementation} on {self.machine} {self.system}{libc}"

    @property
    def is_supported_platform(self) -> bool:
        """True if there are compiler wheels for this platform."""
        return (self.implementation, self.system, self.machine, self.libc) == (
            "CPython",
            "Linux",
            "x86_64",
            "glibc",
        )


def describe(python: Path) -> HostPython:
    """Run an interpreter and return its version and platform.

    Raises:
        UserError: The file does not start or is not a Python 3 interpreter.
    """
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise UserError(f"`{python}` is not an executable file; give the path of a Python interpreter.")
    # -I keeps PYTHONPATH and the user's site-packages from changing what the interpreter reports.
    command = [str(python), "-I", str(_SCRIPT)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
        fields = json.loads(result.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise UserError(f"`{python}` does not answer like a Python 3; name another interpreter.") from None
    return HostPython(**{**fields, "version": tuple(fields["version"])})
