"""A run folder: the settings of the run, every fact it measured, and its result."""

import contextlib
import json
import logging
import math
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from passsearch.core import MACHINE_FAULTS, parse_json, replace_durably
from passsearch.errors import EnvironmentFault, UserError
from passsearch.results import RunResult
from passsearch.store.locks import acquire
from passsearch.store.log import Log
from passsearch.store.result_schema import schema_problem

SCHEMA = "passsearch/1"
RESULT = "result.json"
"""File name of the result in a run folder."""

NETWORK, SAMPLES_FILE = "network.json", "samples.npz"
"""File name of the imported network's IR, in a run folder and in a deployment."""

LABELS_FILE = "labels.npy"
"""File of a run folder with the labels of its samples."""

EXPECTED = "expected.npz"
"""File of a run folder with the outputs that the network's own framework computed."""

STATES = "states"
"""Name of the folder, among the artifacts, with the IRs that compile workers share while they run."""

LIMIT_KEYS = frozenset({"trials", "timeout_s", "least_gain"})
"""Settings that may differ when a run is continued: they only limit how far it goes."""

SEARCH_KEYS = LIMIT_KEYS | {
    *("objectives", "seed", "keep_throughput", "passes", "additional", "sampler", "repetitions", "plans"),
}
"""Settings of a search on which no build depends."""

LATER_KEYS = frozenset({"device", "onnxscript"})
"""Settings that earlier versions did not write; a run without them takes over those of the call that continues it."""

NETWORK_KEY = "model"
"""Setting with the digest of the network."""

VERSION_KEYS = {"log_version": "log format", "dialect_code": "passes with the digest"}
"""Settings that depend on the version of this program, with their meaning."""

BASELINE_FACTS = frozenset({"run", "load", "source", "first", "reference", "build", "import", "lost nan"})
"""Kinds of the facts that a run records before its baseline is measured."""

_log = logging.getLogger(__name__)


class RunInUse(UserError):
    """A run folder that another process has."""


class OtherSettings(UserError):
    """The folder has results of other settings, or of another version of this program."""


class RunFolder:
    """A run folder that this process has opened and locked.

    Attributes:
        earlier_limit_s: Time limit of the start before this one; infinite without one.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, is_further: bool = False) -> None:
        """Open the folder of a run, or make a new one.

        Args:
            path: The folder.
            settings: All that decides the run's result; a run with results is continued only with equal settings.
            is_further: True for further measurements in the folder of a search, whose ``SEARCH_KEYS`` stay.

        Raises:
            OtherSettings: The folder belongs to a run with other settings.
            RunInUse: Another process has it.
            UserError: It cannot be written, or has links.
        """
        self.path = path = path.absolute()  # workers, which write to it, have another working folder
        _make_writable_folder(path)
        self._lock = FileLock(str(path / ".lock"))
        try:
            acquire(self._lock)
        except Timeout:
            raise RunInUse(
                f"The run `{path}` is in use by another process; wait for it or choose another folder (--out). If the "
                f"machine of that process is gone, delete `{path / '.lock'}`."
            ) from None
        # If the settings or the log are refused, the lock must go: the caller gets no object to close.
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.release)
            self.earlier_limit_s: float = math.inf
            is_further = self._check_settings(settings, is_further=is_further)
            self.log = Log(path / "log.jsonl", is_further=is_further)
            undo.pop_all()
        if facts := len(self.log.times):
            _log.info("run folder %s: continuing with %d facts, %.0f s into the run", path, facts, self.log.seconds)
        else:
            _log.info("run folder %s: new run", path)

    @property
    def artifacts(self) -> Path:
        """Folder of the built networks while they are needed."""
        return self.path / "artifacts"

    @property
    def measured_at(self) -> float:
        """Time of the last fact, in seconds since 1970; a start that measures nothing does not change it."""
        return (self.path / "log.jsonl").stat().st_mtime

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write ``result.json`` completely or not at all."""
        write_json(self.path / RESULT, result)

    def abandon(self) -> None:
        """Close the folder and, if its log is empty, remove it: a mistaken command must not block the corrected one."""
        if self.log.times:
            self.close()
            return
        _log.debug("removing %s: nothing was measured", self.path)
        try:
            self.log.close()
            shutil.rmtree(self.artifacts, ignore_errors=True)
            for name in ("run.json", "log.jsonl", ".lock"):
                (self.path / name).unlink(missing_ok=True)
            # The folder may hold files of others; then it stays.
            with contextlib.suppress(OSError):
                self.path.rmdir()
        finally:
            self._lock.release()  # last: what another process writes after it has opened the folder must stay

    def close(self) -> None:
        """Close the log and release the lock."""
        try:
            self.log.close()
        finally:  # on a full disk too, so that a notebook can open the run again
            self._lock.release()

    def _check_settings(self, settings: Mapping[str, Any], *, is_further: bool) -> bool:
        """Check that the run may be continued; return whether this caller measures further in a search."""
        file, is_search = self.path / "run.json", False
        if file.exists():
            earlier = _read_settings(file)
            is_search = "objectives" in earlier
            if isinstance(limit_s := earlier.get("timeout_s"), int | float):
                self.earlier_limit_s = limit_s
            if is_further and is_search:
                own = {key: value for key, value in settings.items() if key not in SEARCH_KEYS}
                settings = {**own, **{key: earlier[key] for key in SEARCH_KEYS & earlier.keys()}}
            changed = [key for key in sorted(set(earlier) | set(settings)) if earlier.get(key) != settings.get(key)]
            free = LIMIT_KEYS | (LATER_KEYS - set(earlier))
            # Another network or version first: it is the reason for other differences.
            order = (NETWORK_KEY, *VERSION_KEYS, *changed)
            key = next((key for key in order if key in changed and key not in free), None)
            if key is not None and self._has_results():
                raise OtherSettings(self._refusal(key, earlier.get(key), settings.get(key)))
            if key is not None:
                self._discard(reason=f"{key} was `{earlier.get(key)}`")
        # Written for a continued run too: its limits may have grown.
        write_json(file, settings)
        return is_further and is_search

    def _refusal(self, key: str, earlier: object, now: object) -> str:
        if key == NETWORK_KEY:
            return f"The run `{self.path}` is of another network; choose another folder (--out)."
        if key in VERSION_KEYS:
            return (
                f"The run `{self.path}` was made by another version of passsearch ({VERSION_KEYS[key]} {earlier}, this "
                f"version has {now}); continue it with that version, or choose another folder (--out)."
            )
        return (
            f"The run `{self.path}` was started with {key} = `{earlier}`, now it is `{now}`; give the same settings to "
            "continue it, or another folder (--out)."
        )

    def _has_results(self) -> bool:
        """Return whether the run got past its baseline, so that a user may want to continue it."""
        facts = Log(self.path / "log.jsonl", writable=False)
        return (self.path / "result.json").exists() or not facts.kinds <= BASELINE_FACTS

    def _discard(self, *, reason: str) -> None:
        """Remove a run without results, so that a command which failed does not block the corrected one."""
        _log.info("run folder %s: starting anew, as %s and nothing was measured", self.path, reason)
        shutil.rmtree(self.artifacts, ignore_errors=True)
        (self.path / "log.jsonl").unlink(missing_ok=True)


def _make_writable_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the run folder `{path}`: {error.strerror}; choose another with --out.") from error
    if not os.access(path, os.W_OK):
        raise UserError(f"Cannot write to the run folder `{path}`; choose another with --out.")
    # A run makes no links. Those of another user's folder could lead writing, and deleting, out of it.
    # What is no run folder is refused later, without a walk through all of it.
    entries = path.rglob("*") if (path / "run.json").exists() else path.iterdir()
    if link := next((entry for entry in entries if entry.is_symlink()), None):
        raise UserError(f"`{link}` is a link, and a run folder has none; choose another folder (--out).")
    # Before the lock is made, so that nothing is left where no run belongs.
    names = {entry.name for entry in path.iterdir()}
    # Both files are what remains of a process that died before it wrote `run.json`.
    if "run.json" not in names and names - {".lock", "run.json.partial"}:
        raise UserError(f"`{path}` is neither empty nor a run folder; choose another folder (--out).")


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        settings = parse_json(file.read_text())
    except ValueError as error:
        raise UserError(f"`{file}` is damaged ({error}); choose another folder (--out).") from error
    if not isinstance(settings, dict):
        raise UserError(f"`{file}` is damaged (it is no mapping); choose another folder (--out).")
    return settings


def write_json(path: Path, data: Mapping[str, Any], *, writer: str = "") -> None:
    """Write a JSON file completely or not at all.

    Args:
        path: The file.
        data: Its content.
        writer: Name of this process, if another one may write the file at the same time.
    """
    # A rename is atomic; a process that dies during the write leaves the earlier file whole.
    partial = path.with_name(f"{path.name}{writer}.partial")
    partial.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n")
    replace_durably(partial, path)


def seconds_without_baseline(log: Log) -> float:
    """Return the time of the earlier starts of a run that has measured no baseline, so that no result needs them.

    Once there is a baseline it is 0: a later start may have to make again what the result needs.
    """
    return log.earlier_s if log.kinds <= BASELINE_FACTS else 0.0


def read_result(run: Path, *, keys: Collection[str] | None = None) -> dict[str, Any]:
    """Return the result of a finished run.

    Args:
        run: The run folder.
        keys: The only keys that the caller uses; all others may be damaged then.

    Raises:
        EnvironmentFault: The file cannot be read.
        UserError: There is no result, its schema is another one, or a key is missing or has a wrong value.
    """
    file = run / RESULT
    if not file.exists() and (run / "run.json").exists():
        raise UserError(
            f"No result in `{run}` yet: the search in it is running, or was stopped before it measured enough; the "
            "same command continues it."
        )
    if not file.exists():
        raise UserError(
            f"No result in `{run}`; a run folder with result.json is needed, which a search writes (--out RUN)."
        )
    try:
        result: dict[str, Any] = parse_json(file.read_text())
    except OSError as error:  # of a network drive, where another machine may replace the file
        raise EnvironmentFault(f"Cannot read `{file}`: {error.strerror or error}; try again.") from error
    except ValueError as error:
        raise UserError(f"`{file}` is not JSON: {error}. Run the same `passsearch tune` again.") from error
    schema = result.get("schema") if isinstance(result, dict) else None
    if schema != SCHEMA:
        raise UserError(
            f"`{file}` has schema `{schema}`; this version reads `{SCHEMA}`. Tune again with another --out."
        )
    if problem := schema_problem(result, RunResult.json_schema(), keys=keys):
        raise UserError(f"`{file}`: {problem}; run the same `passsearch tune` again.")
    return result


def read_settings(run: Path) -> dict[str, Any]:
    """Return all that decided a run's result; empty if that cannot be read."""
    try:
        return _read_settings(run / "run.json")
    except (OSError, UserError):
        return {}


OUTCOME_KEYS = ("interrupted", "limits", "verdict", "failures", "deployment")
"""Keys of a result that say whether its run has anything left to do."""


def accident_in(result: Mapping[str, Any]) -> str:
    """Return which accident of the machine left a result incomplete; empty if none did.

    The same command measures again what such an accident spoiled.
    """
    failure = result["verdict"].get("failure")
    if failure and failure["kind"] in MACHINE_FAULTS:
        return f"an accident ended its confirmation: {failure['reason']}"
    failures = result.get("failures", {})
    if number := sum(failures.get(kind, 0) for kind in MACHINE_FAULTS):
        return f"accidents of the machine spoiled candidates: {number}"
    # A result by which a time limit ended is none of an accident: more time continues it.
    is_short = failure and failure["kind"] == "timeout"
    return "its winner could not be written" if result.get("deployment", {}) is None and not is_short else ""


def read_deployment(result: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """Return what a finished run recorded for rebuilding its winner: pass factories, inputs, IR hashes, outputs.

    Raises:
        UserError: The run was interrupted before its winner was confirmed, or its network file is missing.
    """
    deployment = result.get("deployment")
    if not deployment:
        raise UserError(f"The run `{run}` has no finished winner; continue it: passsearch tune … --out {run}")
    if not (run / NETWORK).exists():
        raise UserError(f"`{run / NETWORK}` is gone; continue the run: passsearch tune … --out {run}")
    return dict(deployment)
