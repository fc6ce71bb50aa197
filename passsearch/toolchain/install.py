"""Make an environment for a dialect from its lock files: whole or not at all."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from passsearch.dialects import Dialect, dialect
from passsearch.errors import EnvironmentFault, PassSearchError, UserError
from passsearch.toolchain.folders import toolchains_folder
from passsearch.toolchain.host_python import HostPython, describe
from passsearch.toolchain.pip import Pip, make_environment
from passsearch.toolchain.probe import absolute, probe
from passsearch.toolchain.recipe import Recipe, check_frameworks, make_recipe
from passsearch.toolchain.record import Toolchain
from passsearch.toolchain.registry import get_toolchain, locked, put, unwritable

DISK_BYTES = 1_500_000_000
"""Free room asked for without frameworks: an environment takes 0.6 GB, the wheels being unpacked as much again."""

INSTALL_TIMEOUT_S = 3600.0
_MARKER = "passsearch.json"
_COMPATIBILITY = "passsearch_compatibility.pth"

Progress = Callable[[str], None]


def install(
    dialect_name: str,
    *,
    frameworks: Sequence[str] = (),
    python: Path | None = None,
    find_links: Path | None = None,
    progress: Progress = lambda stage: None,
) -> Toolchain:
    """Create the toolchain of a dialect in the user's data folder; returns at once if it is there.

    One that lacks a framework is made anew with those it has and those asked for; none is lost until the toolchain
    is removed. Interrupted at any moment, it leaves the toolchain that was there, or none.

    Args:
        dialect_name: Becomes the toolchain's name.
        frameworks: Names of those whose files it is to read, if it cannot yet.
        python: Interpreter to base it on; the one that runs passsearch if not given.
        find_links: Folder of wheels to install from instead of the network.
        progress: Called with one line as each stage begins.

    Raises:
        UserError: No such dialect, framework, interpreter or folder of wheels.
        EnvironmentFault: The platform or Python has no wheels, no network, no room, or no ``venv``.
    """
    if find_links is not None and not find_links.is_dir():
        raise UserError(f"`{find_links}` is not a folder; give one that holds the wheels.")
    wanted = dialect(dialect_name)
    check_frameworks(frameworks, wanted)
    folder = toolchains_folder() / wanted.name
    with locked(f"install-{wanted.name}", timeout_s=INSTALL_TIMEOUT_S):
        held = _marker(folder).get("frameworks", ())
        ready = _ready(wanted, python=python)
        if ready is not None and set(frameworks) <= set(held):
            return ready
        host = describe(absolute(python or Path(sys.executable)))
        recipe = make_recipe(wanted, host, frameworks={*frameworks, *held})
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
    marker = _marker(folder)
    try:
        host = HostPython(**marker["host"])
        recipe = make_recipe(dialect(toolchain.dialect), host, frameworks=marker.get("frameworks", ()))
    except (KeyError, TypeError, PassSearchError):
        return False
    return bool(marker.get("digest") == recipe.digest)


def held_frameworks(toolchain: Toolchain) -> tuple[str, ...]:
    """Frameworks that were installed with it; what the user put beside a TVM of his own is not known."""
    return tuple(_marker(toolchains_folder() / toolchain.name).get("frameworks", ()))


def _marker(folder: Path) -> dict[str, Any]:
    """What an environment says of how it was made; empty if it is not there or damaged."""
    try:
        found = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


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
    needed = DISK_BYTES + sum(framework.disk_bytes for framework in recipe.frameworks)
    if free < needed:
        raise EnvironmentFault(
            f"`{folder.parent}` has {free / 1e9:.1f} GB free; {needed / 1e9:.1f} GB are needed. "
            "Make room or set PASSSEARCH_DATA_DIR to another folder."
        )
    with _partial(folder) as partial:
        progress(f"making an environment with Python {recipe.host.version_text}")
        python = make_environment(partial, base=recipe.host)
        pip = Pip(python=python, wanted=recipe.words, find_links=find_links)
        _fill(pip, recipe=recipe, progress=progress)
        progress("asking its TVM what it can do")
        probed = probe(python)
        (partial / _MARKER).write_text(json.dumps(recipe.to_json()))
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
    for lock in recipe.framework_locks:
        progress(f"fetching a framework ({lock.name})")
        pip.install(lock)
    for requirement in recipe.resolved:
        progress(f"fetching a framework ({requirement})")
        pip.resolve(requirement, locks=(recipe.lock, *recipe.framework_locks))
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
