"""Install the toolchain of a dialect from its lock files: completely or not at all."""

import json
import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passsearch.dialects import Dialect, dialect
from passsearch.errors import EnvironmentFault, PassSearchError, UserError
from passsearch.toolchain.folders import toolchains_folder
from passsearch.toolchain.host_python import HostPython, describe
from passsearch.toolchain.partial_folder import delete_partial_folders, delete_scripts, partial_folder, replace_folder
from passsearch.toolchain.pip import Pip, make_environment
from passsearch.toolchain.probe import ProbeResult, absolute, probe
from passsearch.toolchain.recipe import Recipe, check_frameworks, make_recipe
from passsearch.toolchain.record import Toolchain
from passsearch.toolchain.registry import get_toolchain, hold_lock, register, write_error

DISK_BYTES = 1_500_000_000
"""Free space required without frameworks: an environment takes 0.6 GB, and pip unpacks the wheels beside it."""

INSTALL_TIMEOUT_S = 3600.0
_MARKER = "passsearch.json"
_COMPATIBILITY = "passsearch_compatibility.pth"

Progress = Callable[[str], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InstallSteps:
    """The steps of an installation that start other processes, and the disk space it requires.

    Attributes:
        describe_host: Returns version and platform of an interpreter.
        create_environment: Creates an empty environment and returns its interpreter.
        make_pip: Returns the pip of an environment.
        probe_tvm: Returns what the TVM of an interpreter reports.
        disk_bytes: Free space required for a toolchain without frameworks.
    """

    describe_host: Callable[[Path], HostPython] = describe
    create_environment: Callable[..., Path] = make_environment
    make_pip: Callable[..., Pip] = Pip
    probe_tvm: Callable[[Path], ProbeResult] = probe
    disk_bytes: int = DISK_BYTES


_STEPS = InstallSteps()


def install(
    dialect_name: str,
    *,
    frameworks: Sequence[str] = (),
    python: Path | None = None,
    find_links: Path | None = None,
    progress: Progress = lambda stage: None,
    steps: InstallSteps = _STEPS,
) -> Toolchain:
    """Install the toolchain of a dialect in the user's data folder; return at once if it is installed and current.

    A toolchain that lacks a framework is installed again, with the frameworks it has and the new ones. A framework is
    lost only when the toolchain is removed. An installation that is interrupted leaves the old toolchain, or none.

    Args:
        dialect_name: Name of the dialect, which becomes the name of the toolchain.
        frameworks: Names of the frameworks whose files the toolchain must be able to import.
        python: Interpreter to create the environment with; the one that runs passsearch if ``None``.
        find_links: Folder of wheels to install from; the package index if ``None``.
        progress: A callback that receives one line when a stage begins.
        steps: The operations that start other processes.

    Raises:
        UserError: The dialect, a framework, the interpreter or the folder of wheels does not exist.
        EnvironmentFault: There are no wheels for the platform or the Python version, the network does not answer, the
            disk is full, or ``venv`` is missing.
    """
    if find_links is not None and not find_links.is_dir():
        raise UserError(f"`{find_links}` is not a folder; give one that holds the wheels.")
    declaration = dialect(dialect_name)
    check_frameworks(frameworks, declaration)
    folder = toolchains_folder() / declaration.name
    with hold_lock(f"install-{declaration.name}", timeout_s=INSTALL_TIMEOUT_S):
        present = _read_marker(folder).get("frameworks", ())
        current = _find_current(declaration, python=python, steps=steps)
        if current is not None and set(frameworks) <= set(present):
            return current
        host = steps.describe_host(absolute(python or Path(sys.executable)))
        recipe = make_recipe(declaration, host, frameworks={*frameworks, *present})
        try:
            toolchain = _create(recipe, folder=folder, find_links=find_links, progress=progress, steps=steps)
        except OSError as error:
            raise write_error(folder, error) from None
        register(toolchain)
        return toolchain


def is_current(toolchain: Toolchain) -> bool:
    """Return true if a toolchain was installed from the lock files of this passsearch, or was added by the user."""
    folder = toolchains_folder() / toolchain.name
    if not toolchain.python.is_relative_to(folder):
        return True
    marker = _read_marker(folder)
    try:
        host = HostPython(**marker["host"])
        # Markers of toolchains that were installed before frameworks could be have no such key.
        recipe = make_recipe(dialect(toolchain.dialect), host, frameworks=marker.get("frameworks", ()))
    except (KeyError, TypeError, PassSearchError):
        return False
    return bool(marker.get("digest") == recipe.digest)


def installed_frameworks(toolchain: Toolchain) -> tuple[str, ...]:
    """Return the frameworks that passsearch installed with a toolchain; those the user installed are not listed."""
    return tuple(_read_marker(toolchains_folder() / toolchain.name).get("frameworks", ()))


def _read_marker(folder: Path) -> dict[str, Any]:
    """Return the recipe that an environment was installed from; empty if the file is missing or damaged."""
    try:
        marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return marker if isinstance(marker, dict) else {}


def _find_current(declaration: Dialect, *, python: Path | None, steps: InstallSteps) -> Toolchain | None:
    """Return the installed toolchain of a dialect if it need not be installed again."""
    folder = toolchains_folder() / declaration.name
    try:
        toolchain = get_toolchain(declaration.name)
    except PassSearchError as error:
        _log.debug("Installing `%s`: %s", declaration.name, error)
        return None
    if not toolchain.python.is_relative_to(folder):
        raise UserError(
            f"`{toolchain.name}` is registered as {toolchain.python}; "
            f"run first: passsearch toolchain remove {toolchain.name}"
        )
    if python is not None and steps.describe_host(absolute(python)).version_text != toolchain.python_version:
        _log.debug("Installing `%s` again: it has Python %s.", toolchain.name, toolchain.python_version)
        return None
    if not is_current(toolchain):
        _log.debug("Installing `%s` again: the lock files have changed since.", toolchain.name)
        return None
    return toolchain


def _create(
    recipe: Recipe, *, folder: Path, find_links: Path | None, progress: Progress, steps: InstallSteps
) -> Toolchain:
    """Create an environment beside its final folder, probe it, and only then rename it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    delete_partial_folders(folder)
    _check_disk(recipe, folder.parent, disk_bytes=steps.disk_bytes)
    _log.info("Installing toolchain `%s` with Python %s.", recipe.arguments, recipe.host.version_text)
    with partial_folder(folder) as partial:
        progress(f"making an environment with Python {recipe.host.version_text}")
        python = steps.create_environment(partial, base=recipe.host)
        pip = steps.make_pip(python=python, install_arguments=recipe.arguments, find_links=find_links)
        _install_packages(pip, recipe=recipe, progress=progress)
        progress("probing its TVM")
        result = steps.probe_tvm(python)
        (partial / _MARKER).write_text(json.dumps(recipe.to_json()))
        replace_folder(folder, partial)
    return result.to_toolchain(recipe.dialect.name, folder / python.relative_to(partial))


def _check_disk(recipe: Recipe, folder: Path, *, disk_bytes: int) -> None:
    """Raise before the download if the disk has too little free space for the recipe."""
    free = shutil.disk_usage(folder).free
    required = disk_bytes + sum(framework.disk_bytes for framework in recipe.frameworks)
    if free < required:
        raise EnvironmentFault(
            f"`{folder}` has {free / 1e9:.1f} GB free; {required / 1e9:.1f} GB are needed. "
            "Make room or set PASSSEARCH_DATA_DIR to another folder."
        )


def _install_packages(pip: Pip, *, recipe: Recipe, progress: Progress) -> None:
    progress(f"fetching what TVM needs ({recipe.lock.name})")
    pip.install(recipe.lock)
    compiler = recipe.dialect.compiler
    if compiler is not None:
        progress(f"fetching the compiler ({compiler.lock})")
        # The compiler's wheels carry the tag of one Python version, but TVM's ctypes interface runs on others as well.
        other_python = compiler.python if compiler.python != recipe.host.version[:2] else None
        pip.install(recipe.dialect.requirements / compiler.lock, wheel_python=other_python)
    for lock in recipe.framework_locks:
        progress(f"fetching a framework ({lock.name})")
        pip.install(lock)
    for requirement in recipe.unlocked_requirements:
        progress(f"fetching a framework ({requirement})")
        pip.resolve(requirement, locks=(recipe.lock, *recipe.framework_locks))
    if recipe.compatibility is not None:
        shutil.copyfile(recipe.compatibility, pip.site_packages / _COMPATIBILITY)
    delete_scripts(pip.python.parent)
