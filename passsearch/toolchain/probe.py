"""Ask an interpreter what its TVM can do."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from passsearch import dialects
from passsearch.errors import UserError
from passsearch.toolchain.record import Toolchain

TIMEOUT_S = 120.0
"""A first import on a network file system takes a minute."""

_SCRIPT = Path(dialects.__file__).with_name("probe_script.py")
_MARK = "passsearch-probe:"


@dataclass(frozen=True)
class ProbeResult:
    """What the interpreter answered; the fields are those of ``Toolchain``."""

    python_version: str
    tvm_version: str
    tvm_commit: str
    llvm_version: str
    targets: tuple[str, ...]
    cuda: bool
    cuda_device: bool
    default_triple: str
    host_triple: str

    def named(self, name: str, python: Path) -> Toolchain:
        """The toolchain this interpreter makes.

        Raises:
            UserError: No dialect goes with its TVM version.
        """
        dialect = dialects.dialect_for_version(self.tvm_version).name
        return Toolchain(name=name, python=absolute(python), dialect=dialect, **vars(self))


def absolute(python: Path) -> Path:
    """Absolute and normalised, links kept: resolving one would leave the environment."""
    return Path(os.path.abspath(python.expanduser()))


def probe(python: Path, *, timeout_s: float = TIMEOUT_S) -> ProbeResult:
    """Import TVM in a process of that interpreter and ask it.

    Raises:
        UserError: No such interpreter, no TVM in it, or its TVM does not import; says which in one line.
    """
    python = absolute(python)
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise UserError(f"`{python}` is not an executable file; give the path of a Python interpreter.")
    try:
        done = subprocess.run(
            [str(python), str(_SCRIPT)], capture_output=True, text=True, errors="replace", timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"`{python}` did not answer in {timeout_s:.0f} s; does TVM import there?") from None
    except OSError as error:
        raise UserError(f"`{python}` does not start: {error.strerror}.") from None
    return _read(done, python)


def _read(done: "subprocess.CompletedProcess[str]", python: Path) -> ProbeResult:
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            return _result(json.loads(line.removeprefix(_MARK)))
    raise UserError(_complaint(done, python))


def _result(answer: Mapping[str, object]) -> ProbeResult:
    targets = answer["targets"]
    assert isinstance(targets, list)
    return ProbeResult(**{**answer, "targets": tuple(targets)})  # type: ignore[arg-type]


def _complaint(done: "subprocess.CompletedProcess[str]", python: Path) -> str:
    if done.returncode < 0:
        return f"`{python}` was killed by signal {-done.returncode} while it imported TVM."
    lines = done.stderr.strip().splitlines()
    last = lines[-1] if lines else f"it answered nothing and exited {done.returncode}"
    if "No module named 'tvm'" in last:
        return f"`{python}` has no TVM; install one there or name another interpreter."
    return f"TVM does not import in `{python}`: {last[:300]}"
