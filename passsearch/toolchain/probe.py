"""Run an interpreter to find out what its TVM can do."""

import json
import logging
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from passsearch.core import child_environment
from passsearch.dialects import dialect_for_version
from passsearch.errors import UserError
from passsearch.toolchain.record import Toolchain

TIMEOUT_S = 120.0
"""A first import of TVM from a network file system takes about a minute."""

_SCRIPT = Path(__file__).parents[1] / "standalone" / "probe_script.py"
_MARK = "passsearch-probe:"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProbeResult:
    """The answer of a probe; the attributes mean the same as those of ``Toolchain``, except one.

    Attributes:
        cuda_fault: Reason why CUDA code cannot be compiled, or cannot run with the driver, and the next step; empty if
            it can or if TVM was built without CUDA. It depends on the machine's drivers, so no record keeps it.
    """

    python_version: str
    tvm_version: str
    tvm_commit: str
    llvm_version: str
    targets: tuple[str, ...]
    cuda: bool
    cuda_device: bool
    default_triple: str
    host_triple: str
    cuda_fault: str = ""

    def to_toolchain(self, name: str, python: Path) -> Toolchain:
        """Return the toolchain record of the interpreter that gave this answer.

        Raises:
            UserError: No dialect supports this TVM version.
        """
        dialect = dialect_for_version(self.tvm_version).name
        answers = {key: value for key, value in vars(self).items() if key != "cuda_fault"}
        return Toolchain(name=name, python=absolute(python), dialect=dialect, **answers)


def absolute(python: Path) -> Path:
    """Return an absolute, normalised path with its links kept.

    The interpreter of an environment is a link. The path it points to would run the base interpreter, without the
    environment's packages.
    """
    return Path(os.path.abspath(python.expanduser()))


def probe(python: Path, *, timeout_s: float = TIMEOUT_S) -> ProbeResult:
    """Import TVM in a process of an interpreter and return what TVM reports.

    Args:
        python: The interpreter to run.
        timeout_s: Seconds after which the process is killed.

    Raises:
        UserError: The interpreter does not exist, has no TVM, or its TVM does not import; the message is one line.
    """
    python = absolute(python)
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise UserError(f"`{python}` is not an executable file; give the path of a Python interpreter.")
    _log.info("Probing the TVM of `%s`.", python)
    try:
        process = subprocess.run(
            [str(python), str(_SCRIPT)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=child_environment(),  # that of the workers, which have to find TVM too
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"`{python}` did not answer in {timeout_s:.0f} s; does TVM import there?") from None
    except OSError as error:
        raise UserError(f"`{python}` does not start: {error.strerror}.") from None
    _log.debug("`%s` exited %d; stderr: %s", python, process.returncode, process.stderr.strip())
    return _parse_output(process, python)


def _parse_output(process: "subprocess.CompletedProcess[str]", python: Path) -> ProbeResult:
    # The answer has a mark, because TVM and site customisations may print lines of their own.
    for line in process.stdout.splitlines():
        if line.startswith(_MARK):
            return _parse_answer(json.loads(line.removeprefix(_MARK)))
    raise UserError(_describe_failure(process, python))


def _parse_answer(answer: Mapping[str, object]) -> ProbeResult:
    targets = answer["targets"]
    assert isinstance(targets, list)
    return ProbeResult(**{**answer, "targets": tuple(targets)})  # type: ignore[arg-type]


def _describe_failure(process: "subprocess.CompletedProcess[str]", python: Path) -> str:
    if process.returncode < 0:
        return f"`{python}` was killed by signal {-process.returncode} while it imported TVM."
    lines = process.stderr.strip().splitlines()
    last = lines[-1] if lines else f"it answered nothing and exited {process.returncode}"
    if "No module named 'tvm'" in last:
        hint = " (PYTHONPATH is not used: add its folders by a .pth file or pip install)" * ("PYTHONPATH" in os.environ)
        return f"`{python}` has no TVM; install one there{hint} or name another interpreter."
    return f"TVM does not import in `{python}`: {last[:300]}"
