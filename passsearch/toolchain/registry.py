"""The toolchains of this user: one JSON file, locked and replaced whole."""

import json
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

from passsearch.core import Json
from passsearch.dialects import DIALECTS
from passsearch.errors import EnvironmentFault, PassSearchError, UserError
from passsearch.toolchain.folders import data_folder, toolchains_folder
from passsearch.toolchain.probe import probe
from passsearch.toolchain.record import Toolchain

OWN = "this"
"""Name of the user's own interpreter, a toolchain whenever it has a TVM."""

LOCK_TIMEOUT_S = 60.0
_SCHEMA = 1


def list_toolchains() -> tuple[Toolchain, ...]:
    """Every registered toolchain in the order of adding, then the user's own interpreter if it is one."""
    own = _own()
    return (*_read(), own) if isinstance(own, Toolchain) else _read()


def get_toolchain(name: str | None = None, *, dialect: str | None = None) -> Toolchain:
    """One toolchain by name, or the first there is (of a dialect, if one is given).

    Raises:
        EnvironmentFault: There is none to choose from, or its interpreter is gone.
        UserError: None of that name, proposing the nearest; or the user's own interpreter's TVM is broken.
    """
    if name is not None:
        return _present(_named(name))
    for toolchain in _read():
        if dialect in (None, toolchain.dialect):
            return _present(toolchain)
    own = _own()
    if isinstance(own, Toolchain) and dialect in (None, own.dialect):
        return own
    raise none_installed(dialect)


def add_toolchain(name: str, python: Path) -> Toolchain:
    """Probe an interpreter that has its own TVM and register it.

    Raises:
        UserError: The name is taken or not a plain word, or the interpreter has no TVM that works.
    """
    _check_free(name)
    toolchain = probe(python).named(name, python)
    with locked("toolchains.json"):
        _check_free(name)
        _write((*_read(), toolchain))
    return toolchain


def remove_toolchain(name: str) -> Toolchain:
    """Forget a toolchain, and delete its environment if passsearch made it.

    Raises:
        UserError: None of that name.
    """
    if name == OWN:
        raise UserError(f"`{OWN}` is the interpreter passsearch runs in; it is not registered.")
    with locked("toolchains.json"):
        toolchain = _named(name)
        _write(tuple(other for other in _read() if other.name != name))
    installed = toolchains_folder() / name
    if toolchain.python.is_relative_to(installed):
        shutil.rmtree(installed, ignore_errors=True)
    return toolchain


def put(toolchain: Toolchain) -> None:
    """Register a toolchain, in place of one with its name."""
    with locked("toolchains.json"):
        others = tuple(other for other in _read() if other.name != toolchain.name)
        _write((*others, toolchain))


def none_installed(dialect: str | None) -> EnvironmentFault:
    """What to say when there is no toolchain (of a dialect)."""
    wanted = f"No toolchain for {dialect}" if dialect else "No toolchain"
    name = dialect or next(iter(DIALECTS))
    return EnvironmentFault(
        f"{wanted} is installed. Run: passsearch toolchain install {name} "
        "(or register your own TVM: passsearch toolchain add NAME --python PATH)"
    )


@contextmanager
def locked(name: str, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold a lock in the data folder against other processes of the user.

    Raises:
        EnvironmentFault: Another process keeps it, or the folder cannot be written.
    """
    folder = data_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name}.lock", timeout=timeout_s)
        lock.acquire()
    except Timeout:
        raise EnvironmentFault(f"Another passsearch holds `{folder / name}.lock`; try again later.") from None
    except OSError as error:
        raise unwritable(folder, error) from None
    try:
        yield
    finally:
        lock.release()


def unwritable(path: Path, error: OSError) -> EnvironmentFault:
    """What to say when the data folder cannot be used."""
    return EnvironmentFault(
        f"Cannot write `{path}`: {error.strerror or error}. Make room or set PASSSEARCH_DATA_DIR to another folder."
    )


def _check_free(name: str) -> None:
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
        raise UserError(f"Toolchain name `{name}` must be letters, digits, `-`, `_` and `.`.")
    if name == OWN or any(toolchain.name == name for toolchain in _read()):
        remove = f"passsearch toolchain remove {name}"
        raise UserError(f"Toolchain `{name}` exists; choose another name or run: {remove}")


def _present(toolchain: Toolchain) -> Toolchain:
    if toolchain.python.exists():
        return toolchain
    raise EnvironmentFault(
        f"The interpreter of toolchain `{toolchain.name}`, {toolchain.python}, is gone. "
        f"Run: passsearch toolchain remove {toolchain.name}, and add or install it again."
    )


def _named(name: str) -> Toolchain:
    own = _own() if name == OWN else None
    if isinstance(own, Toolchain):
        return own
    if own is not None:
        raise own
    registered = {toolchain.name: toolchain for toolchain in _read()}
    if name in registered:
        return registered[name]
    if not registered and name in DIALECTS:
        raise none_installed(name)
    near = get_close_matches(name, registered, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(registered) or 'none'}."
    raise UserError(f"Unknown toolchain `{name}`; {hint} See: passsearch toolchain list")


@cache
def _own() -> Toolchain | PassSearchError | None:
    spec = find_spec("tvm")
    if spec is None or spec.origin is None:
        return None
    python = Path(sys.executable)
    try:
        return probe(python).named(OWN, python)
    except PassSearchError as error:
        return error


def _path() -> Path:
    return data_folder() / "toolchains.json"


def _read() -> tuple[Toolchain, ...]:
    try:
        document = json.loads(_path().read_text(encoding="utf-8"))
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
    partial = _path().with_name(f"toolchains.json.{os.getpid()}")
    try:
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, _path())
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise unwritable(_path(), error) from None
