"""Make an environment for a dialect from its lock files: whole or not at all."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from passsearch.dialects import Dialect, dialect
from passsearch.errors import EnvironmentFault, PassSearchError, UserError
from passsearch.toolchain.folders import toolchains_folder
from passsearch.toolchain.host_python import HostPython, describe
from passsearch.toolchain.pip import Pip, make_environment
from passsearch.toolchain.probe import absolute, probe
from passsearch.toolchain.record import Toolchain
from passsearch.toolchain.registry import get_toolchain, locked, put, unwritable

DISK_BYTES = 1_500_000_000
"""Free room asked for: an environment takes 0.6 GB, the wheels being unpacked as much again."""

INSTALL_TIMEOUT_S = 3600.0
_MARKER = "passsearch.json"
_COMPATIBILITY = "passsearch_compatibility.pth"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """What an environment is made of.

    Attributes:
        dialect: Whose compiler.
        host: The interpreter it is based on.
        lock: Packages, pinned with hashes.
        compatibility: ``.pth`` line this Python needs to run the compiler, if any.
    """

    dialect: Dialect
    host: HostPython
    lock: Path
    compatibility: Path | None

    @property
    def digest(self) -> str:
        """SHA-256 over everything that decides what is installed."""
        compiler = self.dialect.compiler
        files = [self.lock, self.compatibility, compiler and self.dialect.requirements / compiler.lock]
        content = b"".join(file.read_bytes() for file in files if file)
        return hashlib.sha256(content).hexdigest()


def install(
    dialect_name: str,
    *,
    python: Path | None = None,
    find_links: Path | None = None,
    progress: Progress = lambda stage: None,
) -> Toolchain:
    """Create the toolchain of a dialect in the user's data folder; returns at once if it is there.

    Interrupted at any moment, it leaves the toolchain that was there, or none.

    Args:
        dialect_name: Becomes the toolchain's name.
        python: Interpreter to base it on; the one that runs passsearch if not given.
        find_links: Folder of wheels to install from instead of the network.
        progress: Called with one line as each stage begins.

    Raises:
        UserError: No such dialect, interpreter or folder of wheels.
        EnvironmentFault: The platform or Python has no wheels, no network, no room, or no ``venv``.
    """
    if find_links is not None and not find_links.is_dir():
        raise UserError(f"`{find_links}` is not a folder; give one that holds the wheels.")
    wanted = dialect(dialect_name)
    with locked(f"install-{wanted.name}", timeout_s=INSTALL_TIMEOUT_S):
        ready = _ready(wanted, python=python)
        if ready is not None:
            return ready
        recipe = _recipe(wanted, describe(absolute(python or Path(sys.executable))))
        folder = toolchains_folder() / wanted.name
        try:
            toolchain = _create(recipe, folder=folder, find_links=find_links, progress=progress)
        except OSError as error:
            raise unwritable(folder, error) from None
        put(toolchain)
        return toolchain


def is_current(toolchain: Toolchain) -> bool:
    """Whether an installed toolchain is of this passsearch's lock files; one added by the user always is."""
    folder = toolchains_folder() / toolchain.name
    if not toolchain.python.is_relative_to(folder):
        return True
    try:
        marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        recipe = _recipe(dialect(toolchain.dialect), HostPython(**marker["host"]))
    except (OSError, ValueError, KeyError, TypeError, PassSearchError):
        return False
    return bool(marker["digest"] == recipe.digest)


def _recipe(wanted: Dialect, host: HostPython) -> Recipe:
    tag = f"py{host.version[0]}{host.version[1]}"
    lock = wanted.requirements / f"{tag}.txt"
    if not host.is_supported_platform:
        raise EnvironmentFault(
            f"There are no {wanted.name} wheels for {host.platform}, only for x86-64 Linux with glibc; "
            "build TVM yourself and run: passsearch toolchain add NAME --python PATH"
        )
    if not lock.is_file():
        raise EnvironmentFault(
            f"A {wanted.name} toolchain needs {_pythons(wanted)}, but this is Python {host.version_text}; "
            f"run: passsearch toolchain install {wanted.name} --python PATH"
        )
    compatibility = lock.with_suffix(".pth")
    return Recipe(wanted, host, lock, compatibility if compatibility.is_file() else None)


def _pythons(wanted: Dialect) -> str:
    minors = sorted(int(file.stem.removeprefix("py3")) for file in wanted.requirements.glob("py3*.txt"))
    return f"Python 3.{minors[0]} to 3.{minors[-1]}"


def _ready(wanted: Dialect, *, python: Path | None) -> Toolchain | None:
    folder = toolchains_folder() / wanted.name
    try:
        toolchain = get_toolchain(wanted.name)
    except PassSearchError:
        return None
    if not toolchain.python.is_relative_to(folder):
        raise UserError(
            f"`{toolchain.name}` is registered as {toolchain.python}; "
            f"run first: passsearch toolchain remove {toolchain.name}"
        )
    same_python = python is None or describe(absolute(python)).version_text == toolchain.python_version
    return toolchain if same_python and is_current(toolchain) else None


def _create(recipe: Recipe, *, folder: Path, find_links: Path | None, progress: Progress) -> Toolchain:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    free = shutil.disk_usage(folder.parent).free
    if free < DISK_BYTES:
        raise EnvironmentFault(
            f"`{folder.parent}` has {free / 1e9:.1f} GB free; {DISK_BYTES / 1e9:.1f} GB are needed. "
            "Make room or set PASSSEARCH_DATA_DIR to another folder."
        )
    with _partial(folder) as partial:
        progress(f"making an environment with Python {recipe.host.version_text}")
        python = make_environment(partial, base=recipe.host)
        pip = Pip(python=python, dialect=recipe.dialect.name, find_links=find_links)
        _fill(pip, recipe=recipe, progress=progress)
        progress("asking its TVM what it can do")
        probed = probe(python)
        (partial / _MARKER).write_text(json.dumps({"digest": recipe.digest, "host": asdict(recipe.host)}))
        _swap(partial, folder)
    return probed.named(recipe.dialect.name, folder / python.relative_to(partial))


def _fill(pip: Pip, *, recipe: Recipe, progress: Progress) -> None:
    progress(f"fetching what TVM needs ({recipe.lock.name})")
    pip.install(recipe.lock)
    compiler = recipe.dialect.compiler
    if compiler is not None:
        progress(f"fetching the compiler ({compiler.lock})")
        foreign = compiler.python if compiler.python != recipe.host.version[:2] else None
        pip.install(recipe.dialect.requirements / compiler.lock, wheels_of=foreign)
    if recipe.compatibility is not None:
        shutil.copyfile(recipe.compatibility, pip.site_packages / _COMPATIBILITY)
    _drop_scripts(pip.python.parent)


def _drop_scripts(folder: Path) -> None:
    """Delete the console scripts: their first line names the folder as it is before the rename."""
    for script in folder.iterdir():
        if not script.name.startswith("python"):
            script.unlink()


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _swap(partial: Path, folder: Path) -> None:
    """Put the new environment in the place of the old; two renames, so that no moment has half of one."""
    old = folder.with_name(f"{folder.name}.partial-{os.getpid()}-old")
    if folder.exists():
        folder.rename(old)
    partial.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Delete what installs that were killed left behind; the lock is held, so none is running here."""
    for stale in folder.parent.glob(f"{folder.name}.partial-*"):
        pid = stale.name.removeprefix(f"{folder.name}.partial-").partition("-")[0]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(stale, ignore_errors=True)


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
