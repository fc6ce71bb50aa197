"""Submitting twice does nothing twice; what was cut off goes on, what failed waits for `resubmit`."""

import os
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from filelock import FileLock

from passsearch import cli
from passsearch.api import Progress
from passsearch.batch import (
    RESUBMIT,
    SUBMIT,
    BatchJob,
    Device,
    JobState,
    Queue,
    QueueState,
    cancel,
    job_states,
    read_jobs,
    submit,
    tune_jobs,
    wait,
)
from passsearch.batch.job import Reporter
from passsearch.batch.queues import _queued_again
from passsearch.batch.records import JobRecords, Report
from passsearch.core import NOTICE_LOG
from passsearch.errors import EnvironmentFault, TimeTooShort, UserError
from passsearch.store import RunInUse


@dataclass(frozen=True, kw_only=True)
class Countdown(BatchJob):
    """A job that measures three things, each of them once, and notes every measurement."""

    fails: bool = False

    @property
    def facts(self) -> list[str]:
        path = self.runs / f"{self.name}.facts"
        return path.read_text().split() if path.exists() else []

    @property
    def is_finished(self) -> bool:
        return len(self.facts) >= 3

    def run(self, progress: Progress) -> bool:
        if self.fails and not (self.runs / "mended").exists():
            raise ValueError("no such\ndevice")
        while not self.is_finished:
            progress("measuring", len(self.facts), 3)
            with (self.runs / f"{self.name}.facts").open("a") as file:
                file.write(f"fact{len(self.facts)}\n")
            if (self.runs / "preempt").exists():
                os.kill(os.getpid(), signal.SIGTERM)
        return True


@dataclass
class InProcess:
    """A queue whose jobs run when the test says so, in this process."""

    name: str = "local"
    jobs: dict[str, BatchJob] = field(default_factory=dict)
    submitted: int = 0
    is_pending: bool = True
    is_seen: bool = True
    silences: int = 0

    def require_usable(self) -> None:
        pass

    def submit(self, jobs: Sequence[BatchJob], device: Device) -> list[str]:
        ids = [str(self.submitted + number) for number in range(len(jobs))]
        self.submitted += len(jobs)
        self.jobs |= dict(zip(ids, jobs, strict=True))
        return ids

    def cancel(self, ids: Collection[str]) -> Collection[str]:
        known = [id_ for id_ in ids if id_ in self.jobs]
        for id_ in known:
            del self.jobs[id_]
        return known

    def states(self, ids: Collection[str]) -> Mapping[str, QueueState]:
        if self.silences:
            self.silences -= 1
            raise EnvironmentFault("Slurm does not answer")
        reason = "Priority" if self.is_pending else ""
        return {id_: QueueState(self.is_pending, reason, self.is_seen) for id_ in ids if id_ in self.jobs}

    def open(self, name: str, folder: Path) -> Queue:
        return self

    def work(self) -> None:
        while self.jobs:
            id_ = next(iter(self.jobs))
            with suppress(ValueError):
                Reporter(self.jobs[id_].records).watch(self.jobs[id_])
            del self.jobs[id_]


@pytest.fixture
def queue() -> InProcess:
    return InProcess()


def _jobs(runs: Path) -> list[Countdown]:
    device = Device("cpu")
    return [Countdown(name=name, device=device, runs=runs, fails=name == "bad") for name in ("good", "bad")]


def _submit(jobs: list[Countdown], queue: InProcess, states: Collection[str] = SUBMIT) -> list[str]:
    due = submit(jobs, runs=jobs[0].runs, executor="local", states=states, queues=queue.open)
    return [job.name for job in due]


def _states(jobs: list[Countdown], queue: InProcess) -> list[tuple[str, str]]:
    return [(state.state, state.reason) for state in job_states(jobs, queue.open)]


def test_a_second_submission_takes_no_job_that_is_queued_finished_or_failed(tmp_path: Path, queue: InProcess) -> None:
    jobs = _jobs(tmp_path)
    assert _states(jobs, queue) == [("new", ""), ("new", "")]
    assert _submit(jobs, queue) == ["good", "bad"]
    assert _states(jobs, queue) == [("queued", "Priority")] * 2
    assert _submit(jobs, queue) == _submit(jobs, queue, RESUBMIT) == []
    queue.work()
    assert _states(jobs, queue) == [("finished", ""), ("failed", "ValueError: no such device")]
    assert _submit(jobs, queue) == []
    assert queue.submitted == 2 and jobs[0].facts == ["fact0", "fact1", "fact2"]


def test_resubmission_takes_what_failed(tmp_path: Path, queue: InProcess) -> None:
    jobs = _jobs(tmp_path)
    _submit(jobs, queue)
    queue.work()
    (tmp_path / "mended").touch()
    assert _submit(jobs, queue, RESUBMIT) == ["bad"]
    # The report of the first attempt says nothing about the second one, whose process has not written any yet.
    queue.is_pending = False
    assert _states(jobs, queue)[1] == ("queued", "")
    queue.work()
    assert _states(jobs, queue)[1] == ("finished", "")
    assert job_states(jobs, queue.open)[1].starts == 2


def test_a_job_that_a_signal_ended_goes_on_where_it_stopped(tmp_path: Path, queue: InProcess) -> None:
    [job, _] = jobs = _jobs(tmp_path)
    _submit(jobs, queue)
    (tmp_path / "preempt").touch()
    queue.work()
    assert _states([job], queue) == [("interrupted", "ended by a signal")] and job.facts == ["fact0"]
    (tmp_path / "preempt").unlink()
    assert _submit(jobs, queue) == ["good"]
    queue.work()
    assert job.is_finished and job.facts == ["fact0", "fact1", "fact2"]


def test_a_job_that_the_machine_ended_is_submitted_again(tmp_path: Path, queue: InProcess) -> None:
    [job, _] = jobs = _jobs(tmp_path)
    _submit(jobs, queue)
    reporter = Reporter(job.records)
    with (
        pytest.raises(OSError, match="disk full"),
        mock.patch.object(Countdown, "run", side_effect=OSError("disk full")),
    ):
        reporter.watch(job)
    queue.jobs.clear()
    assert _states([job], queue) == [("interrupted", "OSError: disk full")]
    assert _submit([job], queue) == ["good"]


@pytest.mark.parametrize(
    ("further", "expected"),
    [
        ({}, {"requeue": True}),
        ({"nice": 1}, {"requeue": True, "nice": 1}),
        ({"no-requeue": True}, {"no-requeue": True}),
    ],
)
def test_slurm_is_asked_to_queue_jobs_again_unless_the_file_says_otherwise(
    further: dict[str, Any], expected: dict[str, Any]
) -> None:
    slurm = {"time": 5, "additional_parameters": further}
    assert _queued_again(slurm) == {"time": 5, "additional_parameters": expected}


def test_a_submission_does_not_wait_for_ever_for_another_one(
    tmp_path: Path, queue: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = _jobs(tmp_path)
    (tmp_path / "batch").mkdir()
    monkeypatch.setattr(sys.modules[submit.__module__], "LONGEST_SUBMISSION_S", 0.0)
    with (
        FileLock(tmp_path / "batch" / ".lock"),
        pytest.raises(EnvironmentFault, match=r"held .* by another submission"),
    ):
        _submit(jobs, queue)
    assert _submit(jobs, queue) == ["good", "bad"]


def test_a_report_that_cannot_be_written_ends_no_job(tmp_path: Path) -> None:
    [job, _] = _jobs(tmp_path)
    write = JobRecords.write_report

    def refuse(records: JobRecords, report: Report) -> None:
        if report.progress:
            raise OSError("stale file handle")
        write(records, report)

    with mock.patch.object(JobRecords, "write_report", refuse):
        Reporter(job.records).watch(job)
    assert job.is_finished and job.records.report is not None and job.records.report.state == "finished"


def test_a_fault_of_the_node_fails_a_job_the_second_time_only(tmp_path: Path, queue: InProcess) -> None:
    [job, _] = jobs = _jobs(tmp_path)
    for state in ("interrupted", "failed"):
        _submit(jobs, queue)
        fault = EnvironmentFault("the device is lost: code 79")
        with mock.patch.object(Countdown, "run", side_effect=fault), pytest.raises(EnvironmentFault, match="lost"):
            Reporter(job.records).watch(job)
        queue.jobs.clear()
        assert _states([job], queue) == [(state, "the device is lost: code 79")]
    assert _submit([job], queue) == [] and _submit([job], queue, RESUBMIT) == [job.name]
    queue.work()
    assert _states([job], queue) == [("finished", "")]


def test_a_run_folder_in_use_fails_no_job(tmp_path: Path, queue: InProcess) -> None:
    [job, _] = jobs = _jobs(tmp_path)
    for _ in range(2):
        _submit(jobs, queue)
        in_use = RunInUse("The run is in use by another process")
        with mock.patch.object(Countdown, "run", side_effect=in_use), pytest.raises(RunInUse):
            Reporter(job.records).watch(job)
        queue.jobs.clear()
        assert _states([job], queue) == [("interrupted", "The run is in use by another process")]


def test_waiting_reads_the_result_of_a_finished_job_once(tmp_path: Path, queue: InProcess) -> None:
    jobs = [Countdown(name=name, device=Device("cpu"), runs=tmp_path) for name in ("good", "late")]
    _submit(jobs, queue)
    Reporter(jobs[0].records).watch(jobs[0])
    reads: list[str] = []

    def look(states: Sequence[JobState]) -> None:
        reads.append("look")
        if len(reads) > 3:
            queue.work()

    original = Countdown.is_finished.fget
    assert original is not None

    def is_finished(job: Countdown) -> bool:
        reads.append(job.name)
        return bool(original(job))

    with mock.patch.object(Countdown, "is_finished", property(is_finished)):
        states = wait(jobs, queues=queue.open, look=look, every_s=0.0)
    assert [state.job.name for state in states] == ["good", "late"]
    assert reads[:5] == ["good", "late", "look", "late", "look"]


def test_a_job_of_another_machine_has_ended_when_its_report_says_so(tmp_path: Path, queue: InProcess) -> None:
    [_, bad] = jobs = _jobs(tmp_path)
    _submit(jobs, queue)
    queue.is_pending, elsewhere = False, dict(queue.jobs)
    assert _states([bad], queue) == [("queued", "")]
    queue.work()
    queue.jobs = elsewhere  # its process cannot be looked for from here
    assert _states([bad], queue) == [("running", "")]
    queue.is_seen = False
    assert _states([bad], queue) == [("failed", "ValueError: no such device")]
    assert _submit(jobs, queue, RESUBMIT) == ["bad"]
    assert _states([bad], queue) == [("queued", "")]


def test_a_finished_report_without_a_result_says_so(tmp_path: Path, queue: InProcess) -> None:
    [good, _] = jobs = _jobs(tmp_path)
    _submit(jobs, queue)
    queue.work()
    (tmp_path / "good.facts").unlink()
    assert _states([good], queue) == [("interrupted", "its result is gone or cannot be read")]


def test_waiting_bears_a_queue_that_does_not_answer_for_a_while(tmp_path: Path, queue: InProcess) -> None:
    jobs = _jobs(tmp_path)
    _submit(jobs, queue)
    queue.work()
    queue.jobs, queue.silences = dict.fromkeys(["0", "1"], jobs[0]), 3
    (tmp_path / "good.facts").unlink()  # so that the queue is asked
    looked: list[int] = []

    def look(states: Sequence[JobState]) -> None:
        looked.append(len(states))
        queue.jobs.clear()

    wait(jobs, queues=queue.open, look=look, every_s=0.0)
    assert looked == [2, 2]
    queue.silences = 100
    with pytest.raises(EnvironmentFault, match="does not answer"):
        wait(jobs, queues=queue.open, look=look, every_s=0.0)


def test_a_job_that_waits_for_its_device_can_be_ended(tmp_path: Path, queue: InProcess) -> None:
    @contextmanager
    def device() -> Iterator[None]:
        assert _states([job], queue) == [("queued", "another job has the device")]
        os.kill(os.getpid(), signal.SIGTERM)
        yield

    [job, _] = jobs = _jobs(tmp_path)
    _submit(jobs, queue)
    queue.is_pending = False
    Reporter(job.records).watch(job, device())
    queue.jobs.clear()
    assert _states([job], queue) == [("interrupted", "ended by a signal")] and job.facts == []


def test_a_job_that_was_killed_is_not_taken_for_running(tmp_path: Path, queue: InProcess) -> None:
    [job, _] = jobs = _jobs(tmp_path)
    _submit(jobs, queue)
    Reporter(job.records).write("running")
    queue.jobs.clear()
    assert _states([job], queue) == [("interrupted", "killed while running")]
    assert _submit([job], queue) == ["good"]


def test_waiting_ends_when_all_jobs_have_ended(tmp_path: Path, queue: InProcess) -> None:
    jobs, seen = _jobs(tmp_path), []
    _submit(jobs, queue)

    def look(states: Sequence[JobState]) -> None:
        seen.append([state.state for state in states])
        queue.work()

    wait(jobs, queues=queue.open, look=look, every_s=0)
    assert seen == [["queued", "queued"], ["finished", "failed"]]


def test_too_little_time_interrupts_a_job_however_often_it_happens(tmp_path: Path, queue: InProcess) -> None:
    [job, _] = jobs = _jobs(tmp_path)
    for _ in range(2):
        assert "good" in _submit(jobs, queue)
        short = TimeTooShort("The time limit of 20 s ended before the baseline was measured; more time continues.")
        with mock.patch.object(Countdown, "run", side_effect=short), pytest.raises(TimeTooShort):
            Reporter(job.records).watch(job)
        queue.jobs.clear()
        assert _states([job], queue) == [("interrupted", str(short))]


def test_a_folder_that_cannot_be_made_is_named_with_the_key(tmp_path: Path, queue: InProcess) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(UserError, match=r"`.*runs/batch`: Not a directory; choose another with `runs`"):
        _submit(_jobs(tmp_path / "runs"), queue)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text("runs: runs\nexecutor: slurm\nnetworks: [zoo:resnet_tiny]\nobjectives: [throughput, latency]\n")
    return path


def test_named_jobs_are_cancelled_and_no_others(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [first, second] = [job.name for job in tune_jobs(read_jobs(file))]
    cancelled: list[list[str]] = []

    def cancel(jobs: Sequence[BatchJob], *, runs: Path) -> Sequence[BatchJob]:
        cancelled.append([job.name for job in jobs])
        return jobs

    monkeypatch.setattr("passsearch.batch.cancel", cancel)
    assert cli.main(["batch", "cancel", str(file), second]) == cli.main(["batch", "cancel", str(file)]) == 0
    assert cancelled == [[second], [first, second]]
    assert "cancelled: 1 of them" in capsys.readouterr().out
    assert cli.main(["batch", "cancel", str(file), second[:-1]]) == 2
    assert f"Unknown job `{second[:-1]}`; did you mean `{second}`?" in capsys.readouterr().err


def test_who_interrupts_waiting_reads_that_the_jobs_go_on(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("passsearch.batch.submit", lambda *_, **__: [])
    monkeypatch.setattr("passsearch.batch.wait", mock.Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["batch", "submit", str(file), "--wait"]) == 130
    assert f"The jobs go on. To end them: passsearch batch cancel {file}" in capsys.readouterr().err


def test_submitting_and_cancelling_say_how_many_jobs_it_is(
    tmp_path: Path, queue: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = _jobs(tmp_path)
    _submit(jobs, queue)
    cancel(jobs, runs=tmp_path, queues=queue.open)
    notices = [record.getMessage() for record in caplog.records if record.name == NOTICE_LOG]
    assert notices == [
        "submitting 2 jobs of device cpu to the queue `local`",
        "ending 2 jobs; they keep what they have measured",
    ]
