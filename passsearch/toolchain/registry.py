"""The user's toolchains: one JSON file that is locked while it changes and always replaced as a whole."""

import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock, Timeout

from passsearch.core import Json, parse_json, replace_durably
from passsearch.dialects import DIALECTS
from passsearch.errors import EnvironmentFault, PassSearchError, UserError
from passsearch.toolchain.folders import data_folder, toolchains_folder
from passsearch.toolchain.probe import probe
from passsearch.toolchain.record import Toolchain

THIS_INTERPRETER = "this"
"""Name of the interpreter that runs passsearch, which is a toolchain whenever it has a TVM."""

LOCK_TIMEOUT_S = 60.0
_SCHEMA = 1

_log = logging.getLogger(__name__)


def list_toolchains() -> tuple[Toolchain, ...]:
    """Return the registered toolchains in the order of registration, then this interpreter if it has a TVM."""
    this = _this_interpreter()
    return (*_read(), this) if isinstance(this, Toolchain) else _read()


def get_toolchain(name: str | None = None, *, dialect: str | None = None) -> Toolchain:
    """Return the toolchain of a name, or the first one that has a dialect.

    Args:
        name: The toolchain's name; ``None`` for the first one of the first dialect that any has.
        dialect: Without a name, the dialect that the toolchain must have; ``None`` for any.

    Raises:
        EnvironmentFault: No toolchain is installed, or its interpreter no longer exists.
        UserError: The name is unknown, or it is ``this`` and the TVM of this interpreter does not work.
    """
    if name is not None:
        return _check_interpreter(_find(name))
    order = [*DIALECTS, *(toolchain.dialect for toolchain in _read())]  # another version may have another dialect
    for toolchain in sorted(_read(), key=lambda toolchain: order.index(toolchain.dialect)):
        if dialect in (None, toolchain.dialect):
            return _check_interpreter(toolchain)
    # Registered toolchains come first: the user set them up on purpose, and this interpreter must be probed.
    this = _this_interpreter()
    if isinstance(this, Toolchain) and dialect in (None, this.dialect):
        return this
    raise missing_toolchain_error(dialect)


def add_toolchain(name: str, python: Path) -> Toolchain:
    """Probe an interpreter that has a TVM and register it.

    Raises:
        UserError: The name is in use or has characters that are not allowed, or the interpreter has no TVM that works.
    """
    _check_new_name(name)
    toolchain = probe(python).to_toolchain(name, python)
    with hold_lock("toolchains.json"):
        # Another process may have registered the name during the probe, which takes seconds.
        _check_new_name(name)
        _write((*_read(), toolchain))
    return toolchain


def remove_toolchain(name: str) -> Toolchain:
    """Remove a toolchain from the registry, and delete its environment if passsearch installed it.

    Raises:
        UserError: The name is unknown.
    """
    if name == THIS_INTERPRETER:
        raise UserError(f"`{THIS_INTERPRETER}` is the interpreter passsearch runs in; it is not registered.")
    with hold_lock("toolchains.json"):
        toolchain = _find(name)
        _write(tuple(other for other in _read() if other.name != name))
    # An environment outside the data folder belongs to the user.
    environment = toolchains_folder() / name
    if toolchain.python.is_relative_to(environment):
        _log.info("Deleting the environment `%s`.", environment)
        shutil.rmtree(environment, ignore_errors=True)
    return toolchain


def register(toolchain: Toolchain) -> None:
    """Write a toolchain to the registry; it replaces one of the same name."""
    with hold_lock("toolchains.json"):
        # In the place of the other one: the first toolchain is the default.
        _write(tuple({**{other.name: other for other in _read()}, toolchain.name: toolchain}.values()))


def missing_toolchain_error(dialect: str | None) -> EnvironmentFault:
    """Return the error for a machine without a toolchain, or without one that has a dialect."""
    subject = f"No toolchain for {dialect}" if dialect else "No toolchain"
    name = dialect or next(iter(DIALECTS))
    return EnvironmentFault(
        f"{subject} is installed. Run: passsearch toolchain install {name} "
        "(or register your own TVM: passsearch toolchain add NAME --python PATH)"
    )


def write_error(path: Path, error: OSError) -> EnvironmentFault:
    """Return the error for a file or folder that cannot be written in the data folder."""
    return EnvironmentFault(
        f"Cannot write `{path}`: {error.strerror or error}. Make room or set PASSSEARCH_DATA_DIR to another folder."
    )


@contextmanager
def hold_lock(name: str, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold a lock file in the data folder, which excludes the user's other processes.

    Args:
        name: Name of the file or operation that the lock protects.
        timeout_s: Seconds to wait for a process that holds the lock.

    Raises:
        EnvironmentFault: Another process still holds the lock, or the folder cannot be written.
    """
    folder = data_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name}.lock", timeout=timeout_s)
        _log.debug("Waiting at most %.0f s for the lock `%s`.", timeout_s, lock.lock_file)
        lock.acquire()
    except Timeout:
        raise EnvironmentFault(f"Another passsearch holds `{folder / name}.lock`; try again later.") from None
    except OSError as error:
        raise write_error(folder, error) from None
    try:
        yield
    finally:
        lock.release()


def _check_new_name(name: str) -> None:
    # The name becomes a folder name, so it must not lead out of the toolchains folder.
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
        raise UserError(f"Toolchain name `{name}` must be letters, digits, `-`, `_` and `.`.")
    if name == THIS_INTERPRETER or any(toolchain.name == name for toolchain in _read()):
        remove = f"passsearch toolchain remove {name}"
        raise UserError(f"Toolchain `{name}` exists; choose another name or run: {remove}")


def _check_interpreter(toolchain: Toolchain) -> Toolchain:
    """Return the toolchain, or raise if its interpreter no longer exists."""
    if toolchain.python.exists():
        return toolchain
    raise EnvironmentFault(
        f"The interpreter of toolchain `{toolchain.name}`, {toolchain.python}, is gone. "
        f"Run: passsearch toolchain remove {toolchain.name}, and add or install it again."
    )


def _find(name: str) -> Toolchain:
    """Return the toolchain of a name; raise if the name is unknown or its TVM does not work."""
    this = _this_interpreter() if name == THIS_INTERPRETER else None
    if isinstance(this, Toolchain):
        return this
    if this is not None:
        raise this
    toolchains = {toolchain.name: toolchain for toolchain in _read()}
    if name in toolchains:
        return toolchains[name]
    # On a fresh machine the name of a dialect is no spelling mistake: the user expects its default toolchain.
    if not toolchains and name in DIALECTS:
        raise missing_toolchain_error(name)
    near = get_close_matches(name, toolchains, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(toolchains) or 'none'}."
    raise UserError(f"Unknown toolchain `{name}`; {hint} See: passsearch toolchain list")


def _this_interpreter() -> Toolchain | PassSearchError | None:
    """Return this interpreter as a toolchain, the error of its TVM, or ``None`` if it has no TVM."""
    spec = find_spec("tvm")
    # A folder named `tvm` without `__init__.py`, for example a source checkout, has a spec but no origin.
    if spec is None or spec.origin is None:
        return None
    return _probe_this_interpreter()


@cache
def _probe_this_interpreter() -> Toolchain | PassSearchError:
    python = Path(sys.executable)
    try:
        return probe(python).to_toolchain(THIS_INTERPRETER, python)
    except PassSearchError as error:
        _log.debug("The TVM of this interpreter does not work: %s", error)
        return error


def _path() -> Path:
    return data_folder() / "toolchains.json"


def _read() -> tuple[Toolchain, ...]:
    try:
        document = parse_json(_path().read_text(encoding="utf-8"))
        if document["schema"] != _SCHEMA:
            raise EnvironmentFault(
                f"`{_path()}` has schema `{document['schema']}`, this version reads `{_SCHEMA}`: another version of "
                "passsearch wrote it; use that one, or delete the file and add the toolchains again."
            )
        return tuple(Toolchain.from_json(row) for row in document["toolchains"])
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise EnvironmentFault(f"Cannot read `{_path()}`: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise EnvironmentFault(f"`{_path()}` is damaged; delete it and add the toolchains again.") from None


def _write(toolchains: tuple[Toolchain, ...]) -> None:
    rows: list[Json] = [dict(toolchain.to_json()) for toolchain in toolchains]
    text = json.dumps({"schema": _SCHEMA, "toolchains": rows}, indent=2)
    # Readers take no lock; the rename shows them either the old file or the new one, even if this process is killed.
    partial = _path().with_name(f"toolchains.json.{os.getpid()}")
    try:
        partial.write_text(text + "\n", encoding="utf-8")
        replace_durably(partial, _path())
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise write_error(_path(), error) from None
