"""``venv`` and ``pip`` as processes, and what their failures mean."""

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
from passsearch.errors import EnvironmentFault
from passsearch.toolchain.host_python import HostPython

_VENV_TIMEOUT_S = 300.0
_PIP_TIMEOUT_S = 3000.0
_FORGOTTEN = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PYTHONPATH", "PYTHONHOME")
"""Settings of the user's shell that would send packages elsewhere; index and proxy stay theirs."""

_OPTIONS = (
    "--only-binary=:all:",
    "--no-cache-dir",
    "--no-input",
    "--disable-pip-version-check",
    "--quiet",
)
_LOCKED = ("--require-hashes", "--no-deps")

_PIN = re.compile(r"^[\w.-]+==[\w.+!-]+", re.MULTILINE)
_UNAVAILABLE = re.compile(r"No matching distribution found for (\S+)")
_UNREACHABLE = re.compile(r"Max retries|ConnectTimeout|NewConnectionError|Temporary failure|ReadTimeout")


def make_environment(folder: Path, *, base: HostPython) -> Path:
    """An empty environment with pip; returns its interpreter.

    Raises:
        EnvironmentFault: The base interpreter cannot make one.
    """
    if not base.has_venv:
        short = ".".join(map(str, base.version[:2]))
        raise EnvironmentFault(
            f"`{base.python}` lacks `venv` or `ensurepip`; install them "
            f"(Debian, Ubuntu: apt install python{short}-venv)."
        )
    done = _run([base.python, "-I", "-m", "venv", str(folder)], timeout_s=_VENV_TIMEOUT_S)
    if done.returncode:
        raise EnvironmentFault(f"`{base.python} -m venv` failed: {_last_line(done)}")
    return folder / "bin" / "python"


@dataclass(frozen=True)
class Pip:
    """The pip of an environment.

    Attributes:
        python: The environment's interpreter.
        wanted: What is being installed, in the words of the command line, for the advice in errors.
        find_links: Folder of wheels to use instead of an index.
    """

    python: Path
    wanted: str
    find_links: Path | None = None

    @property
    def site_packages(self) -> Path:
        """Where the environment's packages lie."""
        (folder,) = (self.python.parent.parent / "lib").glob("python3*/site-packages")
        return folder

    def install(self, lock: Path, *, wheels_of: Version | None = None) -> None:
        """Install a lock file, wheels only, hashes checked.

        Args:
            lock: Requirements pinned with hashes.
            wheels_of: Take the wheels of another Python version, as they are.

        Raises:
            EnvironmentFault: Something cannot be fetched, differs from its hash or finds no room.
        """
        options = [*_LOCKED, "--requirement", str(lock)]
        if wheels_of is not None:
            version = ".".join(map(str, wheels_of))
            options += ["--python-version", version, "--target", str(self.site_packages)]
        self._install(options, name=lock.name, wheels=f"the wheels that {lock.parent} lists")

    def resolve(self, requirement: str, *, locks: Sequence[Path]) -> None:
        """Install one package with what it needs, wheels only, in no other versions than lock files say.

        Not by hash: indexes offer builds for several devices under one version, each with its own hash and its own
        dependencies, and which of them to take is for the user's pip configuration to say.

        Args:
            requirement: The package with its version.
            locks: Where they pin something it needs, that version is taken.

        Raises:
            EnvironmentFault: Something cannot be fetched or finds no room, or contradicts the lock files.
        """
        with TemporaryDirectory() as folder:
            pins = Path(folder) / "constraints.txt"  # a lock file itself would make pip ask for hashes
            pins.write_text("\n".join(pin for lock in locks for pin in _PIN.findall(lock.read_text(encoding="utf-8"))))
            options = ["--constraint", str(pins), requirement]
            self._install(options, name=requirement, wheels=f"the wheels of {requirement} and of what it needs")

    def _install(self, options: Sequence[str], *, name: str, wheels: str) -> None:
        command = [str(self.python), "-m", "pip", "install", *_OPTIONS, *options]
        if self.find_links is not None:
            command += ["--no-index", "--find-links", str(self.find_links.absolute())]
        done = _run(command, timeout_s=_PIP_TIMEOUT_S)
        if done.returncode:
            raise self._fault(done, name=name, wheels=wheels)

    def _fault(self, done: "subprocess.CompletedProcess[str]", *, name: str, wheels: str) -> EnvironmentFault:
        missing = _UNAVAILABLE.search(done.stderr)
        if missing or _UNREACHABLE.search(done.stderr):
            what = missing[1] if missing else f"the packages of {name}"
            return EnvironmentFault(
                f"Could not fetch {what}. Check the network, or fetch {wheels} "
                f"on another machine and run: passsearch toolchain install {self.wanted} --find-links FOLDER"
            )
        if "DO NOT MATCH THE HASHES" in done.stderr:
            return EnvironmentFault(f"A package of {name} differs from its hash; is the index altered?")
        return EnvironmentFault(f"pip could not install {name}: {_last_line(done)}")


def _run(command: Sequence[str], *, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    """Run to the end, or kill it with all it started: an orphan would go on writing into a deleted folder."""
    environment = {key: value for key, value in os.environ.items() if key not in _FORGOTTEN}
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(
            command,
            stdout=pipe,
            stderr=pipe,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        ) as process,
        ExitStack() as undo,
    ):
        undo.callback(_kill, process)
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            what = " ".join(command[1:4])
            raise EnvironmentFault(f"`python {what}` did not end in {timeout_s:.0f} s; try again.") from None
        undo.pop_all()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _kill(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(done: "subprocess.CompletedProcess[str]") -> str:
    errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    lines = errors or (done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
    return lines[-1].removeprefix("ERROR: ").strip()[:300]
