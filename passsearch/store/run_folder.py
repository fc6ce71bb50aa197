"""One folder per run: what was asked, everything that was measured, and the result."""

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from passsearch.errors import UserError
from passsearch.store.log import Log

SCHEMA = "passsearch/1"
NETWORK = "network.json"
"""The imported network's IR, in a run folder and in a deployment."""

STATES = "states"
"""Folder, among the artifacts, of the states that compiling workers share while they run."""

REQUIRED = (
    "model",
    "target",
    "toolchain",
    "device",
    "fingerprint",
    "classes",
    "space",
    "baseline",
    "best",
    "verdict",
    "pareto",
    "failures",
    "seconds",
)
"""Keys of a result that others rely on; a result without one of them is refused by its name."""
GROWABLE = frozenset({"trials", "timeout_s"})
"""Settings that may differ when a run is continued: they only say how far it goes."""


class RunFolder:
    """An opened, locked run folder."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Open or create the folder for one set of settings.

        Raises:
            UserError: It belongs to a run with other settings, is in use, or cannot be written.
        """
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"Cannot make the run folder `{path}`: {error.strerror}; choose another with --out."
            ) from error
        if not os.access(path, os.W_OK):
            raise UserError(f"Cannot write to the run folder `{path}`; choose another with --out.")
        self._lock = FileLock(str(path / ".lock"))
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UserError(
                f"The run `{path}` is in use by another process; wait for it or choose another --out."
            ) from None
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.release)
            self._settle(settings)
            self.log = Log(path / "log.jsonl")
            undo.pop_all()

    @property
    def artifacts(self) -> Path:
        """Where built networks are while they are needed."""
        return self.path / "artifacts"

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write ``result.json`` whole or not at all."""
        write_json(self.path / "result.json", result)

    def abandon(self) -> None:
        """Leave nothing behind, if nothing was learned: a mistake must not stand in the way of its correction."""
        self.close()
        if self.log.latest:
            return
        shutil.rmtree(self.artifacts, ignore_errors=True)
        for name in ("run.json", "log.jsonl", ".lock"):
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def close(self) -> None:
        """Close the log and release the lock."""
        self.log.close()
        self._lock.release()

    def _settle(self, settings: Mapping[str, Any]) -> None:
        file = self.path / "run.json"
        if file.exists():
            earlier = _read_settings(file)
            for key in sorted(set(earlier) | set(settings)):
                if key not in GROWABLE and earlier.get(key) != settings.get(key):
                    raise UserError(
                        f"The run `{self.path}` was made with {key} = `{earlier.get(key)}`, now it is "
                        f"`{settings.get(key)}`; give the same settings to continue it, or another --out."
                    )
        elif any(each.name not in (".lock", "run.json.partial") for each in self.path.iterdir()):
            raise UserError(f"`{self.path}` is neither empty nor a run folder; choose another --out.")
        write_json(file, settings)


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = json.loads(file.read_text())
    except ValueError as error:
        raise UserError(f"`{file}` is damaged ({error}); choose another --out.") from error
    return settings


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Replace a JSON file in one step."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n")
    partial.replace(path)


def read_result(run: Path) -> dict[str, Any]:
    """The result of a finished run.

    Raises:
        UserError: There is none, it is of another schema, or a key is missing.
    """
    file = run / "result.json"
    if not file.exists():
        raise UserError(
            f"No result in `{run}`; a run folder with result.json is needed. See: passsearch tune --out RUN"
        )
    try:
        result: dict[str, Any] = json.loads(file.read_text())
    except json.JSONDecodeError as error:
        raise UserError(f"`{file}` is not JSON: {error}.") from error
    schema = result.get("schema") if isinstance(result, dict) else None
    if schema != SCHEMA:
        raise UserError(f"`{file}` has schema `{schema}`; this version reads `{SCHEMA}`.")
    missing = [key for key in REQUIRED if key not in result]
    if missing:
        raise UserError(f"`{file}` lacks `{missing[0]}`.")
    return result


def read_deployment(result: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """What a finished run wrote down for whoever builds its winner again.

    Raises:
        UserError: The run was interrupted before its winner was confirmed, or its network file is gone.
    """
    recorded = result.get("deployment")
    if not recorded:
        raise UserError(f"The run `{run}` has no finished winner; continue it: passsearch tune … --out {run}")
    if not (run / NETWORK).exists():
        raise UserError(f"`{run / NETWORK}` is gone; continue the run: passsearch tune … --out {run}")
    return dict(recorded)
