"""Submit what is left to do, and nothing twice; cancel what is queued or running."""

import logging
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from passsearch.batch.job import BatchJob
from passsearch.batch.jobs_file import Device
from passsearch.batch.queues import Queue, open_queue
from passsearch.batch.records import FAILED, FINISHED, INTERRUPTED, RECORDS, RUNNING, Submission
from passsearch.batch.state import LOGS, NEW, QUEUED, JobState, OpenQueue, job_states
from passsearch.core import NOTICE_LOG, timestamp
from passsearch.errors import EnvironmentFault, UserError

SUBMIT = frozenset({NEW, INTERRUPTED})
"""States of the jobs that `submit` takes: a job that failed would most likely fail again."""

RESUBMIT = frozenset({FAILED, INTERRUPTED})
"""States of the jobs that `resubmit` takes."""

MOST_SILENCES = 20
"""Number of times in a row that a queue may give no answer while somebody waits for its jobs."""

MOST_SIGNALS, LONGEST_END_S, END_POLL_S = 2, 10.0, 0.5
"""Number of times that a job is told to end, seconds in which it should, and seconds between two looks."""

LONGEST_SUBMISSION_S = 300.0
"""Seconds that a submission waits for another one."""

_log = logging.getLogger(__name__)
_notices = logging.getLogger(NOTICE_LOG)


def submit(
    jobs: Sequence[BatchJob],
    *,
    runs: Path,
    executor: str,
    states: Collection[str] = SUBMIT,
    queues: OpenQueue = open_queue,
) -> list[BatchJob]:
    """Submit the jobs in some states, and return them; all others are left alone.

    Args:
        jobs: The jobs.
        runs: Folder of all runs of the batch.
        executor: Name of the queue.
        states: States of the jobs to submit.
        queues: Function that opens a queue.

    Raises:
        EnvironmentFault: The queue cannot be used here.
        UserError: The queue refuses the jobs.
    """
    if not jobs:
        return []
    records, queue = runs / RECORDS, queues(executor, runs / RECORDS / LOGS)
    if not records.is_dir():  # so that a refusal leaves nothing
        queue.require_usable()
    _make_folder(records)
    # Held from looking to writing, so that two people who submit at the same time do not both take a job.
    with _only_one(records / ".lock"):
        due = [state.job for state in job_states(jobs, queues) if state.state in states]
        if due:
            for device in _devices(due):
                _submit_device([job for job in due if job.device == device], device, queue)
    return due


def cancel(jobs: Sequence[BatchJob], *, runs: Path, queues: OpenQueue = open_queue) -> list[BatchJob]:
    """Tell the jobs that are queued or running to end, wait some seconds for it, and return them.

    Each keeps what it has measured and is interrupted then; a later submission continues it.

    Args:
        jobs: The jobs.
        runs: Folder of all runs of the batch.
        queues: Function that opens a queue.

    Raises:
        EnvironmentFault: A queue cannot be used here.
    """
    if not (runs / RECORDS).is_dir():
        return []
    with _only_one(runs / RECORDS / ".lock"):
        reachable = _cancel_once(jobs, queues)
        # A process that is just starting does not take the signal.
        for _ in range(MOST_SIGNALS - 1):
            if not _await_end(reachable, queues):
                break
            _cancel_once(reachable, queues)
        return reachable


def _cancel_once(jobs: Sequence[BatchJob], queues: OpenQueue) -> list[BatchJob]:
    """Let the jobs that are queued or running end, and return those that their queues could reach."""
    by_executor: defaultdict[str, dict[str, BatchJob]] = defaultdict(dict)
    for state in job_states(jobs, queues):
        if state.state in (QUEUED, RUNNING) and state.submission is not None:
            by_executor[state.submission.executor][state.submission.id] = state.job
    if number := sum(map(len, by_executor.values())):
        _notices.warning("ending %d jobs; they keep what they have measured", number)
    reachable = []
    for executor, by_id in by_executor.items():
        folder = next(iter(by_id.values())).records.folder / LOGS
        reachable += [by_id[id_] for id_ in queues(executor, folder).cancel(by_id.keys())]
    return reachable


def _await_end(jobs: Sequence[BatchJob], queues: OpenQueue) -> bool:
    """Wait some seconds until jobs have ended; return whether one has not."""
    end_s = time.monotonic() + LONGEST_END_S
    while any(state.state in (QUEUED, RUNNING) for state in job_states(jobs, queues)):
        if time.monotonic() > end_s:
            return True
        time.sleep(END_POLL_S)
    return False


def wait(
    jobs: Sequence[BatchJob],
    *,
    queues: OpenQueue = open_queue,
    look: Callable[[Sequence[JobState]], None],
    every_s: float,
) -> list[JobState]:
    """Wait until no job is queued or running, and return the states.

    Args:
        jobs: The jobs.
        queues: Function that opens a queue.
        look: Function that gets the states each time they are read.
        every_s: Seconds between two readings.

    Raises:
        EnvironmentFault: A queue gave no answer many times in a row. Its jobs go on.
    """
    silences, finished = 0, dict[str, JobState]()
    while True:
        try:
            # A finished job is not looked at again, because that reads its whole result.
            others = [job for job in jobs if job.name not in finished]
            found = {state.job.name: state for state in job_states(others, queues)}
        except EnvironmentFault as error:  # the controller of a cluster may be busy for minutes
            silences += 1
            if silences > MOST_SILENCES:
                raise
            _log.warning("%s", error)
        else:
            silences = 0
            finished |= {name: state for name, state in found.items() if state.state == FINISHED}
            states = [(finished | found)[job.name] for job in jobs]
            look(states)
            if not any(state.state in (QUEUED, RUNNING) for state in states):
                return states
        time.sleep(every_s)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UserError(
            f"Cannot write to the folder `{path}`: {error.strerror}; choose another with `runs`."
        ) from error


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    try:
        with FileLock(lock, timeout=LONGEST_SUBMISSION_S):
            yield
    except Timeout:
        raise EnvironmentFault(
            f"`{lock}` has been held for {LONGEST_SUBMISSION_S:.0f} s by another submission; wait for it, or delete "
            "the file if its machine is gone."
        ) from None


def _devices(jobs: Sequence[BatchJob]) -> list[Device]:
    return list({job.device.name: job.device for job in jobs}.values())


def _submit_device(jobs: Sequence[BatchJob], device: Device, queue: Queue) -> None:
    _notices.warning("submitting %d jobs of device %s to the queue `%s`", len(jobs), device.name, queue.name)
    submitted_at = timestamp()
    # Read before the queue has the jobs, because one may begin at once.
    reports = {job.name: job.records.report for job in jobs}
    starts = {name: report.starts if report else 0 for name, report in reports.items()}
    # A local job is written down before the next one is started. Slurm takes all at once, and signals wait while they
    # are written down.
    for job, id_ in zip(jobs, queue.submit(jobs, device), strict=True):
        job.records.write_submission(Submission(queue.name, id_, submitted_at, starts[job.name]))
