"""Run ``venv`` and ``pip`` as processes and translate their failures into errors."""

import logging
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from passsearch.dialects import Version
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain.host_python import HostPython

VENV_TIMEOUT_S = 300.0
PIP_TIMEOUT_S = 3000.0
_REMOVED_VARIABLES = (
    "PIP_USER",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_REQUIRE_VIRTUALENV",
    "PYTHONPATH",
    "PYTHONHOME",
)
"""Environment variables that would install packages elsewhere; the user's index and proxy settings stay in force."""

_OPTIONS = (
    # A source package would run its build script, and would need compilers that few machines have.
    "--only-binary=:all:",
    # The cache would keep a second copy of wheels that take over a gigabyte.
    "--no-cache-dir",
    "--no-input",
    "--disable-pip-version-check",
    "--quiet",
)
_LOCK_OPTIONS = ("--require-hashes", "--no-deps")

_PIN = re.compile(r"^[\w.-]+==[\w.+!-]+", re.MULTILINE)
_UNAVAILABLE = re.compile(r"No matching distribution found for (\S+)")
_OFFERED = re.compile(r"satisfies the requirement (\S+==\S+) \(from versions: ([^)]*)\)")
_UNREACHABLE = re.compile(r"Max retries|ConnectTimeout|NewConnectionError|Temporary failure|ReadTimeout")

_log = logging.getLogger(__name__)


def make_environment(folder: Path, *, base: HostPython, timeout_s: float = VENV_TIMEOUT_S) -> Path:
    """Create an environment that holds only pip.

    Args:
        folder: The folder to create.
        base: The interpreter to create it with.
        timeout_s: Seconds after which ``venv`` is killed.

    Returns:
        The environment's interpreter.

    Raises:
        EnvironmentFault: The base interpreter cannot create an environment.
    """
    if not base.has_venv:
        short = ".".join(map(str, base.version[:2]))
        raise EnvironmentFault(
            f"`{base.python}` lacks `venv` or `ensurepip`; install them "
            f"(Debian, Ubuntu: apt install python{short}-venv)."
        )
    result = _run([base.python, "-I", "-m", "venv", str(folder)], timeout_s=timeout_s)
    if result.returncode:
        raise EnvironmentFault(f"`{base.python} -m venv` failed: {_error_line(result)}")
    return folder / "bin" / "python"


@dataclass(frozen=True)
class Pip:
    """The pip of an environment.

    Attributes:
        python: The environment's interpreter.
        install_arguments: Arguments of ``passsearch toolchain install``, for the advice in error messages.
        find_links: Folder of wheels to install from; ``None`` to install from the package index.
    """

    python: Path
    install_arguments: str
    find_links: Path | None = None

    @property
    def site_packages(self) -> Path:
        """The folder of the environment's packages."""
        (folder,) = (self.python.parent.parent / "lib").glob("python3*/site-packages")
        return folder

    def install(self, lock: Path, *, wheel_python: Version | None = None) -> None:
        """Install the packages of a lock file: wheels only, and only those whose hash is in the file.

        Args:
            lock: Requirements with versions and hashes.
            wheel_python: Install the wheels of this Python version, although the environment has another one.

        Raises:
            EnvironmentFault: A package cannot be downloaded, differs from its hash, or the disk is full.
        """
        options = [*_LOCK_OPTIONS, "--requirement", str(lock)]
        if wheel_python is not None:
            version = ".".join(map(str, wheel_python))
            # pip accepts --python-version only together with --target.
            options += ["--python-version", version, "--target", str(self.site_packages)]
        self._install(options, name=lock.name, wheels=f"the wheels that {lock.parent} lists")

    def resolve(self, requirement: str, *, locks: Sequence[Path], is_named: bool = False) -> None:
        """Install a package and its dependencies: wheels only, in the versions that lock files give.

        No hashes are checked. Indexes offer builds for several devices under one version, each with its own hash and
        its own dependencies, and the user's pip configuration decides which of them is installed.

        Args:
            requirement: The package with its version.
            locks: Lock files; a dependency that one of them pins is installed in that version.
            is_named: True if the user named the version.

        Raises:
            UserError: The user named a version that the index does not have.
            EnvironmentFault: A package cannot be downloaded, contradicts the lock files, or the disk is full.
        """
        with TemporaryDirectory() as folder:
            # A lock file cannot be the constraints file itself: its hashes would make pip demand one of every package.
            constraints = Path(folder) / "constraints.txt"
            pins = (pin for lock in locks for pin in _PIN.findall(lock.read_text(encoding="utf-8")))
            constraints.write_text("\n".join(pins))
            options = ["--constraint", str(constraints), requirement]
            wheels = f"the wheels of {requirement} and of what it needs"
            self._install(options, name=requirement, wheels=wheels, is_named=is_named)

    def _install(self, options: Sequence[str], *, name: str, wheels: str, is_named: bool = False) -> None:
        # With -I a `pip.py` in the working folder is not run.
        command = [str(self.python), "-I", "-m", "pip", "install", *_OPTIONS, *options]
        if self.find_links is not None:
            command += ["--no-index", "--find-links", str(self.find_links.absolute())]
        _log.info("pip installs %s.", name)
        result = _run(command, timeout_s=PIP_TIMEOUT_S)
        if result.returncode:
            # A folder of wheels does not say which versions there are.
            if is_named and self.find_links is None and (versions := _offered(result.stderr, name)):
                last = ", ".join(versions[-8:])
                raise UserError(f"There is no `{name}` for this Python; the last versions are: {last}.")
            raise self._fault(result, name=name, wheels=wheels)

    def _fault(self, result: "subprocess.CompletedProcess[str]", *, name: str, wheels: str) -> EnvironmentFault:
        missing = _UNAVAILABLE.search(result.stderr)
        if missing or _UNREACHABLE.search(result.stderr):
            subject = missing[1] if missing else f"the packages of {name}"
            return EnvironmentFault(
                f"Could not fetch {subject}. Check the network, or fetch {wheels} on another machine "
                f"and run: passsearch toolchain install {self.install_arguments} --find-links FOLDER"
            )
        if "DO NOT MATCH THE HASHES" in result.stderr:
            return EnvironmentFault(
                f"A package of {name} differs from its hash; the index or a proxy changed it. Use another index."
            )
        return EnvironmentFault(f"pip could not install {name}: {_error_line(result)}")


def _offered(errors: str, requirement: str) -> list[str]:
    """Return the versions that the index has in place of one that it has not; empty if another package is missing."""
    found = _OFFERED.search(errors)
    listed = found[2] if found and found[1] == requirement else ""
    return [each for each in listed.split(", ") if each not in ("", "none")]


def _run(command: Sequence[str], *, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; on a timeout or an interrupt kill it with all processes it started."""
    _log.debug("Running %s", command)
    environment = {key: value for key, value in os.environ.items() if key not in _REMOVED_VARIABLES}
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(
            command,
            stdout=pipe,
            stderr=pipe,
            text=True,
            errors="replace",
            env=environment,
            # A session of its own is what `_kill` can end as a whole.
            start_new_session=True,
        ) as process,
        ExitStack() as undo,
    ):
        undo.callback(_kill, process)
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            name = " ".join(command[1:4])
            raise EnvironmentFault(f"`python {name}` did not end in {timeout_s:.0f} s; try again.") from None
        undo.pop_all()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _kill(process: "subprocess.Popen[str]") -> None:
    # The whole group: a child of pip that survives would go on writing into a folder that is deleted next.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _error_line(result: "subprocess.CompletedProcess[str]") -> str:
    """Return the last line of an output that names an error, else the last line."""
    errors = [line for line in result.stderr.splitlines() if "error" in line.lower()]
    lines = errors or (result.stderr or result.stdout).strip().splitlines() or [f"exit {result.returncode}"]
    return lines[-1].removeprefix("ERROR: ").strip()[:300]
