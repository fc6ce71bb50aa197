"""A failure is a fact of a candidate only if it happens again in a fresh process on a machine that is well."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from passsearch.errors import WorkerDied
from passsearch.evaluate import Session
from passsearch.evaluate.facts import FactStore
from passsearch.evaluate.machine_health import machine_problem
from passsearch.evaluate.pool import WorkerPool
from passsearch.store import Log
from passsearch.worker import Worker

ANSWER = {"verb": "build"}


class ScriptedWorker:
    """A worker that dies by a list of kinds; a real one cannot be killed at a certain request."""

    alive = True

    def __init__(self, deaths: list[str]) -> None:
        self._deaths = deaths

    def ask(self, request: dict[str, Any], **_: object) -> dict[str, Any]:
        kind = self._deaths.pop(0) if self._deaths else ""
        if kind:
            raise WorkerDied(f"died by {kind}", kind=kind)
        return {"verb": request["verb"]}

    def close(self) -> None:
        pass


def ask(folder: Path, deaths: list[str]) -> tuple[dict[str, Any], WorkerPool]:
    class Pool(WorkerPool):
        def start(self, *, threads: int) -> Worker:
            return cast(Worker, ScriptedWorker(deaths))

    session = SimpleNamespace(device_lock=None, threads=1, deadline_s=5.0)
    pool = Pool(cast(Session, session), folder)
    return pool.ask(pool.compiler, "build", request=ANSWER), pool


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a full file system of 64 KiB."""
    folder = tmp_path / "full"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("kind", ["infra", "crash", "compile_error"])
def test_a_failure_that_does_not_come_again_is_no_failure(kind: str, tmp_path: Path) -> None:
    answer, pool = ask(tmp_path, [kind])
    assert answer == ANSWER and pool.accidents == 1


@pytest.mark.parametrize(
    ("deaths", "kind"), [(["crash"] * 2, "crash"), (["infra"] * 3, "infra"), (["infra", "crash", "crash"], "crash")]
)
def test_a_failure_that_comes_again_is_typed(deaths: list[str], kind: str, tmp_path: Path) -> None:
    answer, _ = ask(tmp_path, deaths)
    assert answer["failure"]["kind"] == kind


def test_a_failure_beside_a_full_disk_is_the_machines(full_disk: Path) -> None:
    answer, _ = ask(full_disk, ["compile_error"] * 3)
    assert answer["failure"]["kind"] == "infra" and "is full" in answer["failure"]["reason"]


def test_a_machine_that_is_well_has_no_problem(tmp_path: Path) -> None:
    assert not machine_problem([tmp_path / "not made yet"], reason="no schedule")
    assert machine_problem([tmp_path], reason="ld: no space left on device")


@pytest.mark.parametrize("kind", ["infra", "oom", "unstable"])
def test_accidents_are_not_remembered(kind: str, tmp_path: Path) -> None:
    fact = {"failure": {"kind": kind, "stage": "build", "step": "", "reason": "killed"}}
    session = cast(Session, SimpleNamespace(deadline_s=5.0))
    with Log(tmp_path / "log") as log:
        log.record("build", "of an earlier version", fact=fact)
        facts = FactStore(session, log, cache=None, seconds={})
        facts.record("build", "key", fact=fact)
        assert facts.recall("build", "key") is None
        assert facts.recall("build", "of an earlier version") is None
