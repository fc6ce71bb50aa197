"""Environments of inference engines that are not TVM: install, find and remove them."""

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain.folders import data_folder
from passsearch.toolchain.host_python import HostPython, describe
from passsearch.toolchain.install import INSTALL_TIMEOUT_S, Progress
from passsearch.toolchain.partial_folder import delete_partial_folders, delete_scripts, partial_folder, replace_folder
from passsearch.toolchain.pip import Pip, make_environment
from passsearch.toolchain.probe import absolute
from passsearch.toolchain.registry import hold_lock, write_error

IMPORT_DEADLINE_S = 300.0
_MARKER = "passsearch.json"

_log = logging.getLogger(__name__)


def engine_python(environment: EngineEnvironment) -> Path | None:
    """Return the interpreter of an installed environment; ``None`` if it is not installed."""
    python = _folder(environment) / "bin" / "python"
    return python if python.exists() else None


def installed_versions() -> dict[str, Path]:
    """Return the interpreters of environments for one version of an engine, by ``NAME==VERSION``."""
    folders = sorted((data_folder() / "engines").glob("*==*"))
    return {each.name: python for each in folders if (python := each / "bin" / "python").exists()}


def install_engine(
    environment: EngineEnvironment,
    *,
    python: Path | None = None,
    find_links: Path | None = None,
    progress: Progress = lambda stage: None,
    create_environment: Callable[..., Path] = make_environment,
    make_pip: Callable[..., Pip] = Pip,
) -> Path:
    """Install the environment of an engine in the user's data folder; return at once if it is installed and current.

    Args:
        environment: The packages.
        python: Interpreter to create the environment with; the one that runs passsearch if ``None``.
        find_links: Folder of wheels to install from; the package index if ``None``.
        progress: A callback that receives one line when a stage begins.
        create_environment: Creates an empty environment and returns its interpreter.
        make_pip: Returns the pip of an environment.

    Returns:
        The environment's interpreter.

    Raises:
        UserError: The interpreter or the folder of wheels does not exist.
        EnvironmentFault: There is no lock file for the interpreter, a package cannot be installed or does not import.
    """
    if find_links is not None and not find_links.is_dir():
        raise UserError(f"`{find_links}` is not a folder; give one that holds the wheels.")
    folder = _folder(environment)
    with hold_lock(f"install-{environment.name}", timeout_s=INSTALL_TIMEOUT_S):
        host, installed = describe(absolute(python or Path(sys.executable))), engine_python(environment)
        # Unless the user asks for a Python, an environment of another one will do.
        if installed is not None and _is_current(environment, installed, host=host if python else None):
            return installed
        lock = None if environment.version else _lock(environment, host)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            delete_partial_folders(folder)
            _check_disk(environment, folder.parent)
            with partial_folder(folder) as partial:
                progress(f"making an environment with Python {host.version_text}")
                interpreter = create_environment(partial, base=host)
                pip = make_pip(python=interpreter, install_arguments=environment.name, find_links=find_links)
                _install_packages(environment, pip, lock=lock, progress=progress)
                _check_import(environment, interpreter)
                (partial / _MARKER).write_text(json.dumps(_marker(environment, host)))
                replace_folder(folder, partial)
        except OSError as error:
            raise write_error(folder, error) from None
    return folder / "bin" / "python"


def remove_engine(environment: EngineEnvironment) -> None:
    """Delete the environment of an engine.

    Raises:
        UserError: It is not installed.
    """
    if engine_python(environment) is None:
        raise UserError(f"Engine environment `{environment.name}` is not installed. See: passsearch doctor")
    with hold_lock(f"install-{environment.name}", timeout_s=INSTALL_TIMEOUT_S):
        _log.info("Deleting the environment `%s`.", _folder(environment))
        (_folder(environment) / _MARKER).unlink(missing_ok=True)  # half of an environment is none
        shutil.rmtree(_folder(environment), ignore_errors=True)


def _folder(environment: EngineEnvironment) -> Path:
    return data_folder() / "engines" / environment.name


def _lock(environment: EngineEnvironment, host: HostPython) -> Path:
    if not host.is_supported_platform:
        raise EnvironmentFault(
            f"The lock files of `{environment.name}` are for x86-64 Linux with glibc, not for {host.platform}; install "
            "the engine yourself and give its interpreter: passsearch bench --engines-python PATH"
        )
    lock = environment.lock(host.tag)
    if not lock.is_file():
        names = environment.requirements.glob(f"{environment.name}-py3*.txt")
        minors = sorted(int(file.stem.rpartition("-py3")[2]) for file in names)
        if not minors:
            raise EnvironmentFault(
                f"Engine `{environment.name}` has no lock file in {environment.requirements}; make one for each "
                "Python, as README.md there says."
            )
        raise EnvironmentFault(
            f"Engine `{environment.name}` needs Python 3.{minors[0]} to 3.{minors[-1]}, but this is Python "
            f"{host.version_text}; run: passsearch toolchain install {environment.name} --python PATH"
        )
    return lock


def _is_current(environment: EngineEnvironment, installed: Path, *, host: HostPython | None) -> bool:
    """Return whether an environment has the packages of today, made with ``host`` if that is given."""
    try:
        return _read_marker(_folder(environment)) == _marker(environment, host or describe(installed))
    except (UserError, EnvironmentFault):  # its Python does not start any more, or has no lock file any more
        return False


def _marker(environment: EngineEnvironment, host: HostPython) -> dict[str, str]:
    """Return what tells an up-to-date environment from one of another Python or of other packages."""
    content = b"" if environment.version else _lock(environment, host).read_bytes()
    content += environment.requirement.encode()
    return {"digest": sha256(content).hexdigest(), "python": host.version_text}


def _read_marker(folder: Path) -> object:
    try:
        return json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _check_disk(environment: EngineEnvironment, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < environment.disk_bytes:
        raise EnvironmentFault(
            f"`{folder}` has {free / 1e9:.1f} GB free; {environment.disk_bytes / 1e9:.1f} GB are needed. "
            "Make room or set PASSSEARCH_DATA_DIR to another folder."
        )


def _install_packages(environment: EngineEnvironment, pip: Pip, *, lock: Path | None, progress: Progress) -> None:
    if lock is not None:
        progress(f"fetching the packages of {environment.name} ({lock.name})")
        pip.install(lock)
    if environment.requirement:
        progress(f"fetching {environment.requirement}")
        pip.resolve(environment.requirement, locks=(lock,) if lock else (), is_named=bool(environment.version))
    # What the adapter needs beside an engine of another version, which may contradict the versions of the lock file.
    pinned = [each for beginning, each in environment.pins if environment.version.startswith(beginning)]
    for package in (*environment.modules[1:], *pinned) if environment.version else ():
        progress(f"fetching {package}")
        pip.resolve(package, locks=())
    delete_scripts(pip.python.parent)


def _check_import(environment: EngineEnvironment, python: Path) -> None:
    for module in environment.modules:
        command = [str(python), "-I", "-c", f"import {module}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise EnvironmentFault(f"`import {module}` did not end in {IMPORT_DEADLINE_S:.0f} s; try again.") from None
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
            raise EnvironmentFault(f"`{module}` was installed but does not import: {reason[:300]}")
