"""A real worker process with a bridge that crashes, hangs and answers on demand."""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from passsearch.errors import EnvironmentFault, UserError, WorkerDied
from passsearch.worker import Worker, shorten_log

PROGRAMS = Path(__file__).parent / "programs"


def start(folder: Path, target: str = "any", bridge: str = "stub_bridge:StubBridge") -> Worker:
    return Worker(
        Path(sys.executable),
        bridge=bridge,
        target=target,
        threads=1,
        log=folder / "worker.log",
        paths=(str(PROGRAMS),),
    )


def load(name: str) -> dict[str, Any]:
    return {"verb": "load", "source": {"path": name, "format": "ir", "inputs": {}}}


def check(behaviour: str) -> dict[str, Any]:
    return {"verb": "check", "checker": "stub_bridge:check", "arguments": {"behaviour": behaviour}}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = start(tmp_path)
    yield worker
    worker.close()


def test_an_exception_is_an_answer_with_its_last_line(worker: Worker) -> None:
    answer = worker.ask(load("exception"), deadline_s=30)
    assert answer["error"]["kind"] == "compile_error"
    # The bridge of this test lies where modules of users do.
    assert re.fullmatch(r"ValueError: the cause \(.*stub_bridge\.py, line \d+\)", answer["error"]["reason"])


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs a Python with descriptors of processes")
def test_a_fork_has_given_back_its_memory_when_its_answer_arrives(worker: Worker) -> None:
    (fork,) = worker.ask(check("slow-end"), deadline_s=30)["problems"]
    with contextlib.suppress(OSError):  # the usual case: it is gone
        assert "zombie" in Path("/proc", fork, "status").read_text()


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("crash", "crash", "killed by SIGSEGV"),
        ("out-of-memory", "oom", "killed by SIGKILL"),
        ("other-processor", "crash", "killed by SIGILL: the target has instructions that this processor lacks"),
    ],
)
def test_a_worker_that_dies_is_reported_by_kind(
    worker: Worker, caplog: pytest.LogCaptureFixture, name: str, kind: str, reason: str
) -> None:
    with caplog.at_level(logging.DEBUG, "passsearch.worker"), pytest.raises(WorkerDied, match=reason) as error:
        worker.ask(load(name), deadline_s=30)
    assert error.value.kind == kind and not worker.alive
    levels = {record.levelname: record.getMessage() for record in caplog.records}
    assert "`load`, deadline 30 s" in levels["DEBUG"] and reason in levels["WARNING"]


def test_a_worker_that_hangs_is_killed(worker: Worker) -> None:
    with pytest.raises(WorkerDied) as error:
        worker.ask(load("hang"), deadline_s=0.2)
    assert error.value.kind == "timeout" and not worker.alive


def test_a_closed_worker_kills_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, killed = start(tmp_path), []
    worker.close()
    monkeypatch.setattr(os, "killpg", lambda *numbers: killed.append(numbers))
    worker.close()
    assert killed == [], "its number may be another process's now"


@pytest.mark.parametrize(("behaviour", "deadline_s", "kind"), [("crash", 30, "crash"), ("hang", 0.2, "timeout")])
def test_a_worker_outlives_its_forks(worker: Worker, behaviour: str, deadline_s: float, kind: str) -> None:
    with pytest.raises(WorkerDied) as error:
        worker.ask(check(behaviour), deadline_s=deadline_s)
    assert error.value.kind == kind
    assert worker.ask(check("fine"), deadline_s=30) == {"problems": ["fine"]}


def test_a_target_that_the_compiler_refuses_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such target"):
        start(tmp_path, target="impossible")


def test_a_compiler_that_does_not_start_is_the_environments_fault(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"does not start \(killed by SIGSEGV\).*worker.log` is empty"):
        start(tmp_path, target="crash")
    with pytest.raises(EnvironmentFault, match="ends with `ModuleNotFoundError: No module named 'tvm_of_nobody'`"):
        start(tmp_path, bridge="tvm_of_nobody:Bridge")


def test_a_long_log_keeps_its_end_while_a_process_appends_to_it(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("ab", buffering=0) as process:
        process.write(b"begin" + 100 * b"x" + b"end")
        shorten_log(log, most_bytes=1000)
        assert log.stat().st_size == 108
        shorten_log(log, most_bytes=20)
        process.write(b"!")
    assert log.read_bytes() == b"xxxxxxxend!"
    shorten_log(tmp_path / "missing.log", most_bytes=20)


def test_no_file_of_the_working_folder_is_run_and_the_worker_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    # `logging` is what Python 3.11 would take from there, `runpy` what 3.10 would.
    for module in ("runpy", "logging", "json", "numpy", "sitecustomize", "passsearch"):
        (foreign / f"{module}.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w').close()\n")
    monkeypatch.chdir(foreign)
    worker = start(Path())
    (folder,) = worker.ask(check("folder"), deadline_s=30)["problems"]
    assert Path(folder) != foreign and Path(folder).stat().st_mode & 0o777 == 0o700 and not list(Path(folder).iterdir())
    worker.close()
    assert not Path(folder).exists() and not (tmp_path / "canary").exists()
