"""Where jobs wait and run: processes of this machine, or a Slurm cluster. Both are submitit's."""

import os
import shutil
import signal
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil
from filelock import FileLock

from passsearch.batch.job import BatchJob
from passsearch.batch.jobs_file import EXECUTORS, Device
from passsearch.batch.start import LOCAL, python_words, setup_lines
from passsearch.core import install_command
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import lock_file

MOST_REQUEUES = 100
"""Number of times that a job which reached the scheduler's time limit is queued again."""

JOB_NAME = "passsearch-"
"""Beginning of the names of Slurm jobs."""

POLL_S = 2.0
"""Seconds after which a process that waits for the machine looks again."""

_YEAR_MIN = 365 * 24 * 60
_MISSING = f"Batch jobs need submitit; install it: {install_command('batch')}"


@dataclass(frozen=True)
class QueueState:
    """What a queue says about a job that it has.

    Attributes:
        is_pending: True if the job has not begun.
        reason: Reason why it waits, in the queue's words.
        is_seen: False for a process of another machine, which may have ended.
    """

    is_pending: bool
    reason: str = ""
    is_seen: bool = True


class Queue(Protocol):
    """A queue of jobs."""

    @property
    def name(self) -> str:
        """One of ``EXECUTORS``."""
        ...

    def require_usable(self) -> None:
        """Raise an ``EnvironmentFault`` if this machine cannot submit jobs to the queue."""
        ...

    def submit(self, jobs: Sequence[BatchJob], device: Device) -> Iterator[str]:
        """Queue jobs of one device, and yield the name of each in the queue as soon as the queue has it."""
        ...

    def states(self, ids: Collection[str]) -> Mapping[str, QueueState]:
        """Return the state of each of these jobs that has not ended."""
        ...

    def cancel(self, ids: Collection[str]) -> Collection[str]:
        """Let jobs end, and return those that it could reach: this program's own, and no process of another machine."""
        ...


def open_queue(name: str, folder: Path) -> Queue:
    """Return the queue of an executor.

    Args:
        name: One of ``EXECUTORS``.
        folder: Folder of the jobs' output.

    Raises:
        EnvironmentFault: submitit is missing, or this machine belongs to no Slurm cluster.
    """
    queues: dict[str, Queue] = {queue.name: queue for queue in (LocalQueue(folder), SlurmQueue(folder))}
    if name not in queues:
        raise UserError(f"Unknown executor `{name}`; choose from: {', '.join(EXECUTORS)}.")
    return queues[name]


@dataclass(frozen=True)
class LocalQueue:
    """Processes of this machine, which go on after the terminal is closed. One job has the device at a time."""

    folder: Path
    name: str = "local"

    def require_usable(self) -> None:
        """Raise an ``EnvironmentFault`` without submitit."""
        _submitit()

    def submit(self, jobs: Sequence[BatchJob], device: Device) -> Iterator[str]:
        """Start a process for each job; it waits for the device."""
        executor = _submitit().LocalExecutor(self.folder, python=python_words(device, recorded_in=self.folder))
        setup = setup_lines(device, self.folder, number=LOCAL)
        executor.update_parameters(timeout_min=_YEAR_MIN, setup=["\n".join(setup)] if setup else [])
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        for job in jobs:
            with _detached():
                submission = executor.submit(_LocalWork(job, gpus))
            yield f"{socket.gethostname()}:{submission.job_id}"

    def states(self, ids: Collection[str]) -> Mapping[str, QueueState]:
        """Return the jobs whose process runs; those of another machine count as running."""
        here, running, states = socket.gethostname(), _local_jobs(self.folder), {}
        for id_ in ids:
            host, _, pid = id_.partition(":")
            if host != here:
                way_out = "ask there, or delete its .submission.json if that machine is gone"
                states[id_] = QueueState(False, f"of {host}; {way_out}", is_seen=False)
            elif pid in running:
                states[id_] = QueueState(False)
        return states

    def cancel(self, ids: Collection[str]) -> Collection[str]:
        """Send SIGTERM to the processes of jobs, which keep what they have measured."""
        # A record is a file that others may have written, so its number alone is no reason to end a process.
        processes = _processes(self.folder)
        by_id = {id_: _processes_to_end(processes, id_) for id_ in ids}
        for process in (process for each in by_id.values() for process in each):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.terminate()
        return [id_ for id_, each in by_id.items() if each]


@dataclass(frozen=True)
class SlurmQueue:
    """A Slurm cluster. The jobs of one device are an array, of which a few run at once."""

    folder: Path
    name: str = "slurm"

    def require_usable(self) -> None:
        """Raise an ``EnvironmentFault`` without submitit or without Slurm."""
        _submitit()
        _require_command("sbatch")

    def submit(self, jobs: Sequence[BatchJob], device: Device) -> Iterator[str]:
        """Submit an array of jobs."""
        submitit = _submitit()
        self.require_usable()
        executor = submitit.SlurmExecutor(self.folder, max_num_timeout=MOST_REQUEUES, python=python_words(device))
        executor.update_parameters(
            job_name=f"{JOB_NAME}{device.name}",
            array_parallelism=device.at_once,
            setup=setup_lines(device, self.folder) or None,
            **_queued_again(device.slurm),
        )
        # A signal between the submission and its record would leave jobs in the queue that nobody knows of.
        with _signals_wait():
            try:
                with executor.batch():
                    submissions = [executor.submit(job) for job in jobs]
            except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
                raise UserError(f"Slurm refuses the jobs of device `{device.name}`: {_one_line(error)}") from None
            yield from (str(submission.job_id) for submission in submissions)

    def states(self, ids: Collection[str]) -> Mapping[str, QueueState]:
        """Return the jobs that `squeue` lists; it needs no accounting database, which many clusters lack."""
        _require_command("squeue")
        # Those of all users: a colleague may have submitted the same file.
        lines = self._ask("squeue", "--noheader", "--array", "--format=%i|%T|%r")
        rows = [line.split("|", 2) for line in lines]
        return {
            id_: QueueState(state == "PENDING", "" if reason == "None" else reason)
            for id_, state, reason in rows
            if id_ in ids
        }

    def cancel(self, ids: Collection[str]) -> Collection[str]:
        """Cancel jobs that have the name of this program's."""
        _require_command("scancel")
        rows = [line.split("|", 1) for line in self._ask("squeue", "--noheader", "--array", "--me", "--format=%i|%j")]
        own = [id_ for id_, name in rows if id_ in ids and name.startswith(JOB_NAME)]
        if own:
            self._ask("scancel", *own)
        return own

    @staticmethod
    def _ask(*words: str) -> list[str]:
        try:
            answer: str = _submitit().helpers.CommandFunction(list(words), verbose=False)()
        except _submitit().core.utils.FailedJobError as error:
            raise EnvironmentFault(f"Slurm does not answer: {_one_line(error)}; try again later.") from None
        return answer.splitlines()


@dataclass(frozen=True)
class _LocalWork:
    """A job as a process of this machine runs it.

    Attributes:
        job: The job.
        gpus: GPUs that were visible to the person who submitted; submitit hides all of them. ``None`` is all.
    """

    job: BatchJob
    gpus: str | None

    def __call__(self) -> None:
        """Wait for the device, then run the job."""
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if self.gpus is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.gpus
        # A GPU has a turn of its own. All else shares one, as compilers and kernels of two searches share processors.
        # Several machines may share the folder.
        self.job(_turn(lock_file(f"batch-{self.job.device.gpu or socket.gethostname()}.lock")))


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    # The processes that wait would disturb the one that is measured if they looked twenty times a second.
    with FileLock(lock).acquire(poll_interval=POLL_S):
        yield


def _queued_again(slurm: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of a job with those that queue it again after a fault of its node, unless they say otherwise.

    Some clusters do so only where a job asks for it.
    """
    further = slurm.get("additional_parameters", {})
    requeue = {} if "no-requeue" in further else {"requeue": True}
    return {**slurm, "additional_parameters": {**requeue, **further}}


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold the signals that would end this process until the block is left."""
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def _submitit() -> Any:
    try:
        import submitit
    except ImportError:
        raise EnvironmentFault(_MISSING) from None
    return submitit


def _require_command(name: str) -> None:
    if shutil.which(name) is None:
        raise EnvironmentFault(f"No `{name}` here; use a machine of the Slurm cluster, or --executor local.")


def _local_jobs(folder: Path) -> set[str]:
    """Return submitit's names of the local jobs that have a process, of those that write into a folder."""
    return {name for _, words, names in _processes(folder, just_started=True) for name in names}


def _processes(folder: Path, *, just_started: bool = False) -> list[tuple[psutil.Process, str, tuple[str, str]]]:
    """Return the processes of jobs that write into a folder, with their words and the names that their job may have.

    A process that is just being started has no words yet; with ``just_started`` it is among them, because it may be the
    one that a job begins with.
    """
    found = []
    for process in psutil.process_iter():
        # Processes end while the list is read, and those of other users do not show their environment.
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            words = " ".join(process.cmdline())
            if ("submitit." in words and str(folder) in words) or (just_started and not words):
                # The job goes on if only the process that watches it was killed.
                names = str(process.pid), process.environ().get("SUBMITIT_LOCAL_JOB_ID", "")
                found.append((process, words, names))
    return found


def _processes_to_end(
    processes: Sequence[tuple[psutil.Process, str, tuple[str, str]]], id_: str
) -> list[psutil.Process]:
    """Return the processes that do a job's work, or those that would start it; none for a job of another machine."""
    host, _, pid = id_.partition(":")
    own = [(process, words) for process, words, names in processes if pid in names and host == socket.gethostname()]
    working = [process for process, words in own if "submitit.core._submit" in words]
    return working or [process for process, _ in own]


@contextmanager
def _detached() -> Iterator[None]:
    """Let processes that start here know nothing of the terminal, as `nohup` does.

    Neither Ctrl-C nor the end of the terminal reaches them, and nobody who reads the output of this process through a
    pipe has to wait for their end.
    """
    with ExitStack() as undo:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGHUP):
                undo.callback(signal.signal, number, signal.signal(number, signal.SIG_IGN))
        with Path(os.devnull).open("r+b", buffering=0) as nothing:
            for stream in range(3):
                saved = os.dup(stream)
                undo.callback(os.close, saved)
                undo.callback(os.dup2, saved, stream)
                os.dup2(nothing.fileno(), stream)
        yield


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
