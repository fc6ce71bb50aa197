"""Limits of workers, and what they leave: with a real process and a bridge that takes what it can."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from passsearch.errors import WorkerDied
from passsearch.worker import ScratchFolder, Worker, machine_memory_bytes
from passsearch.worker.scratch import MARK, PREFIX

PROGRAMS = Path(__file__).parent / "programs"
MEMORY_BYTES = 1_000_000_000


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of temporary files of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(
        Path(sys.executable),
        bridge="stub_bridge:StubBridge",
        target="any",
        threads=1,
        log=tmp_path / "worker.log",
        paths=(str(PROGRAMS),),
        memory_bytes=MEMORY_BYTES,
    )
    yield worker
    worker.close()


def load(name: str) -> dict[str, Any]:
    return {"verb": "load", "source": {"path": name, "format": "ir", "inputs": {}}}


def check(behaviour: str) -> dict[str, Any]:
    return {"verb": "check", "checker": "stub_bridge:check", "arguments": {"behaviour": behaviour}}


def marked(folder: Path) -> list[psutil.Process]:
    """Return the processes that work for a folder of temporary files."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if f"{MARK}={folder}".encode() in environment and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def test_too_much_memory_is_a_failure_of_the_request(worker: Worker) -> None:
    answer = worker.ask(load("memory"), deadline_s=60)
    assert answer["error"]["kind"] == "oom" and worker.alive


def test_a_death_at_the_limit_is_put_down_to_it(worker: Worker) -> None:
    with pytest.raises(WorkerDied, match=r"the limit is 1.0 GB \(--memory\)") as error:
        worker.ask(check("memory-until-abort"), deadline_s=60)
    assert error.value.kind == "oom" and worker.alive


def test_an_answer_without_end_is_a_crash(worker: Worker) -> None:
    begin = time.monotonic()
    with pytest.raises(WorkerDied, match="pipe of its answers") as error:
        worker.ask(load("flood"), deadline_s=300)
    assert error.value.kind == "crash" and time.monotonic() - begin < 60


def test_a_file_larger_than_the_disk_is_an_accident(worker: Worker) -> None:
    assert "File too large" in worker.ask(load("large-file"), deadline_s=60)["error"]["reason"]


def test_a_process_that_was_stopped_is_no_timeout(worker: Worker) -> None:
    with pytest.raises(WorkerDied, match="stopped by a signal") as error:
        worker.ask(load("stop"), deadline_s=3)
    assert error.value.kind == "infra"


def test_a_process_that_stays_stopped_is_given_up_long_before_the_deadline(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("passsearch.worker.client.LONGEST_STOP_S", 3.0)
    monkeypatch.setattr("passsearch.worker.client.LOOK_AFTER_S", 0.5)
    begin = time.monotonic()
    with pytest.raises(WorkerDied, match="stopped by a signal and not continued for 3 s") as error:
        worker.ask(load("stop"), deadline_s=300)
    assert error.value.kind == "infra" and not worker.alive
    assert time.monotonic() - begin < 100


def test_a_process_that_is_continued_in_time_answers(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passsearch.worker.client.LONGEST_STOP_S", 60.0)
    monkeypatch.setattr("passsearch.worker.client.LOOK_AFTER_S", 0.2)
    pid = worker._process.pid

    def continue_later() -> None:
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "Tt":
            time.sleep(0.05)
        time.sleep(1)
        os.kill(pid, signal.SIGCONT)

    thread = Thread(target=continue_later)
    thread.start()
    assert "the cause" in worker.ask(load("stop"), deadline_s=300)["error"]["reason"]
    thread.join()


def test_an_answer_that_came_while_this_process_was_stopped_counts(worker: Worker) -> None:
    # The deadline is over before the answer is looked at, as after SIGSTOP and SIGCONT to this process.
    assert worker.ask(load("exception"), deadline_s=30)
    worker._send(load("exception"))
    time.sleep(0.5)
    assert worker._receive(time.monotonic() - 100) is not None


@pytest.mark.parametrize("behaviour", ["success", "exit"])
def test_a_fork_that_ends_without_an_answer_is_a_crash(worker: Worker, behaviour: str) -> None:
    with pytest.raises(WorkerDied, match="exited without an answer") as error:
        worker.ask(check(behaviour), deadline_s=30)
    assert error.value.kind == "crash" and worker.alive


@pytest.mark.parametrize("request_", [load("processes"), check("processes")], ids=["worker", "fork"])
def test_processes_in_other_sessions_end_with_their_request(
    worker: Worker, temporary: Path, request_: dict[str, Any]
) -> None:
    worker.ask(request_, deadline_s=30)
    worker.ask(load("exception"), deadline_s=30)  # served after the end of the first request
    assert [process.pid for process in marked(temporary)] == [worker._process.pid]


def test_processes_in_other_sessions_end_with_a_worker_that_was_killed(worker: Worker, temporary: Path) -> None:
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, MARK: str(next(temporary.iterdir()))},
        start_new_session=True,
    )
    # A new program has no environment for a moment, in which it may lose its turn on a busy machine.
    deadline_s = time.monotonic() + 10.0
    while left.pid not in [process.pid for process in marked(temporary)] and time.monotonic() < deadline_s:
        time.sleep(0.01)
    worker.close()
    assert left.wait(10) == -signal.SIGKILL
    assert not list(temporary.iterdir())


def test_what_a_killed_process_left_is_deleted_by_the_next_one(temporary: Path) -> None:
    abandoned = temporary / f"{PREFIX}abandoned"
    abandoned.mkdir()
    with ScratchFolder() as first, ScratchFolder() as second:
        assert sorted(temporary.iterdir()) == sorted([first, second])
        assert first.stat().st_mode & 0o777 == 0o700
    assert not list(temporary.iterdir())


def write_limit(file: Path, limit: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{limit}\n")


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    """A list of control groups like that of a process which a batch system has started."""
    file = tmp_path / "membership"
    file.write_text("9:cpu,cpuacct:/\n4:memory:/job/step\n1:name=systemd:/\n0::/slurm/job_7/step_0\n")
    return file


@pytest.mark.parametrize(
    "files",
    [
        {"memory.max": "1000000"},  # a container, whose own group is the outermost that it sees
        {"memory/memory.limit_in_bytes": "1000000"},
        {"slurm/job_7/step_0/memory.max": "1000000", "memory.max": "max"},
        {"slurm/job_7/step_0/memory.max": "3000000", "slurm/job_7/memory.max": "1000000"},
        {"slurm/job_7/step_0/memory.max": "max", "slurm/memory.high": "1000000"},
        {"memory/job/step/memory.limit_in_bytes": "1000000", "slurm/memory.max": "2000000"},
    ],
)
def test_the_least_limit_of_all_control_groups_counts(tmp_path: Path, membership: Path, files: dict[str, str]) -> None:
    for name, limit in files.items():
        write_limit(tmp_path / "groups" / name, limit)
    assert machine_memory_bytes(tmp_path / "groups", membership) == 1_000_000


@pytest.mark.parametrize(
    "text", ["", "0::/other/group\n", "0::/../other\n", "0::/a:b\n", "no list:", "4:memory:/slurm\n"]
)
def test_limits_of_other_control_groups_do_not_count(tmp_path: Path, text: str) -> None:
    membership, groups = tmp_path / "membership", tmp_path / "groups" / "here"
    membership.write_text(text)
    write_limit(groups / "slurm" / "memory.max", "1000000")
    write_limit(groups.parent / "other" / "memory.max", "1000000")
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert machine_memory_bytes(groups, membership) == machine_memory_bytes(groups, tmp_path / "missing") == machine
