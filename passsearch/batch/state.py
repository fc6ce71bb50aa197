"""The state of each job, from its result, its queue and its own reports."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from passsearch.batch.job import BatchJob
from passsearch.batch.queues import Queue, QueueState, open_queue
from passsearch.batch.records import FAILED, FINISHED, INTERRUPTED, RUNNING, WAITING, Report, Submission
from passsearch.batch.start import start_failure
from passsearch.results import JobProgress

NEW, QUEUED = "new", "queued"
LOGS = "output"
"""Folder of the jobs' output, among the records."""

OpenQueue: TypeAlias = Callable[[str, Path], Queue]


@dataclass(frozen=True)
class JobState:
    """A job and how far it is.

    Attributes:
        job: The job.
        state: new, queued, running, finished, interrupted or failed.
        progress: The current or last step.
        reason: Reason of the state; empty where there is nothing to explain.
        submission: The latest submission; ``None`` if there is none.
        starts: Number of processes that began the job.
        host: Name of the node; empty if the job has not begun.
        at: Time of the job's last report, in ISO 8601 and UTC; empty if there is none.
    """

    job: BatchJob
    state: str
    progress: str = ""
    reason: str = ""
    submission: Submission | None = None
    starts: int = 0
    host: str = ""
    at: str = ""

    @property
    def row(self) -> JobProgress:
        """The state as documents have it."""
        return JobProgress(
            job=self.job.name,
            device=self.job.device.name,
            state=self.state,
            progress=self.progress,
            reason=self.reason,
            executor=self.submission.executor if self.submission else None,
            id=self.submission.id if self.submission else None,
            starts=self.starts,
            host=self.host,
            reported_at=self.at,
            particulars=self.job.particulars,
        )


def job_states(jobs: Iterable[BatchJob], queues: OpenQueue = open_queue) -> list[JobState]:
    """Return the state of each job, in the order of the jobs.

    Raises:
        EnvironmentFault: A job was submitted to a queue that does not answer here.
    """
    listed = list(jobs)
    submissions = {job.name: job.records.submission for job in listed}
    # Once, because that reads the result. A queue may be out of reach when all of its jobs are finished.
    finished = {job.name for job in listed if job.is_finished}
    in_queue = _in_queue([job for job in listed if job.name not in finished], submissions, queues)
    return [
        _state(job, submissions[job.name], in_queue.get(job.name), is_finished=job.name in finished) for job in listed
    ]


def _in_queue(
    jobs: Iterable[BatchJob], submissions: Mapping[str, Submission | None], queues: OpenQueue
) -> dict[str, QueueState]:
    """Return, by name, the jobs that their queues still have."""
    names: dict[tuple[str, Path], dict[str, str]] = defaultdict(dict)
    for job in jobs:
        submission = submissions[job.name]
        if submission is not None:
            names[submission.executor, job.records.folder / LOGS][submission.id] = job.name
    states: dict[str, QueueState] = {}
    for (executor, folder), by_id in names.items():
        found = queues(executor, folder).states(by_id.keys())
        states |= {by_id[id_]: state for id_, state in found.items()}
    return states


def _state(job: BatchJob, submission: Submission | None, in_queue: QueueState | None, *, is_finished: bool) -> JobState:
    report = job.records.report
    if is_finished:
        # An accident that is accepted as the answer; the result, which takes longer to read, has it as well.
        state, reason = FINISHED, report.reason if report and report.state == FINISHED else ""
    else:
        state, reason = _judge(job, submission, report, in_queue)
    if report is None:
        return JobState(job, state, reason=reason, submission=submission)
    return JobState(job, state, report.progress, reason, submission, report.starts, report.host, report.at)


def _judge(
    job: BatchJob, submission: Submission | None, report: Report | None, in_queue: QueueState | None
) -> tuple[str, str]:
    """Return the state of a job that is not finished, and the reason."""
    if submission is None:
        return NEW, ""
    if in_queue is not None and not _has_ended(submission, report, in_queue):
        return _unfinished(submission, report, in_queue)
    begun = report is not None and report.starts > submission.starts
    if not begun and (failure := start_failure(job.device, job.records.folder / LOGS, submission.id)):
        return FAILED, failure
    if report is None:
        return INTERRUPTED, "ended before it began"
    if report.state == FAILED:
        return FAILED, report.reason
    if report.state == FINISHED:
        return INTERRUPTED, job.unfinished_reason or "its result is gone or cannot be read"
    if report.state == INTERRUPTED:
        return INTERRUPTED, report.reason or "ended by a signal"
    return INTERRUPTED, f"killed while {report.state}"


def _has_ended(submission: Submission, report: Report | None, in_queue: QueueState) -> bool:
    """Return whether a job that its queue cannot see from here has reported its end."""
    if in_queue.is_seen or report is None or report.starts <= submission.starts:
        return False
    return report.state in (FAILED, FINISHED, INTERRUPTED)


def _unfinished(submission: Submission, report: Report | None, in_queue: QueueState) -> tuple[str, str]:
    # A report of an earlier submission says nothing about this one.
    begun = report is not None and report.starts > submission.starts
    if report is None or not begun or in_queue.is_pending:
        return QUEUED, in_queue.reason
    return (QUEUED, report.reason) if report.state == WAITING else (RUNNING, in_queue.reason)
