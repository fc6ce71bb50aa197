"""A job: one search with a run folder of its own, as a node runs it."""

import json
import logging
import os
import re
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from passsearch.batch.jobs_file import Device, JobsFile, Network
from passsearch.batch.records import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    RECORDS,
    RUNNING,
    WAITING,
    JobRecords,
    Report,
    read_document,
)
from passsearch.core import USUAL_TRIALS, interruptible, safe_file_name, timestamp
from passsearch.errors import EnvironmentFault, PassSearchError, TimeTooShort, UserError
from passsearch.evaluate import catalog_files
from passsearch.store import OUTCOME_KEYS, RESULT, RunInUse, accident_in, read_result

if TYPE_CHECKING:
    from passsearch.api import Progress

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BatchJob(ABC):
    """A job that may be submitted, cut off and submitted again until it is finished. Calling it runs it here.

    Attributes:
        name: Name of the job, the same in every submission.
        device: The device.
        runs: Folder of all runs of the batch.
    """

    name: str
    device: Device
    runs: Path

    @property
    def records(self) -> JobRecords:
        """The files of the job."""
        return JobRecords(self.runs / RECORDS, self.name)

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """True if the job's result is there and nothing is left to do."""

    @property
    def unfinished_reason(self) -> str:
        """Why the result that is there is not enough; empty if it is enough or there is none."""
        return ""

    @property
    def accident(self) -> str:
        """Which accident of the machine left the result incomplete; empty if none did or there is none."""
        return ""

    @property
    def shortfall(self) -> str:
        """What the job had no time for; empty if it had time for all."""
        return ""

    @property
    def particulars(self) -> str:
        """What tells the job from others and is not in its name."""
        return ""

    @abstractmethod
    def run(self, progress: "Progress") -> bool:
        """Do the work that is left; return False if it was interrupted."""

    def __call__(self, turn: AbstractContextManager[object] | None = None) -> None:
        """Run the job and report how it goes; ``turn`` is entered first, and may wait."""
        _log_to_stderr()
        if self.device.gpu:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.device.gpu
        Reporter(self.records).watch(self, turn)

    def checkpoint(self) -> Any:
        """Return what submitit queues again after a preemption or a time limit: the same job, which goes on."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@dataclass(frozen=True, kw_only=True)
class TuneJob(BatchJob):
    """A search.

    Attributes:
        network: The network.
        objective: One objective, or two with a comma.
        toolchain: Name of the toolchain; ``None`` is the first of the node.
        target: TVM's target; ``None`` is the CPU of the node.
        options: Arguments of ``tune`` by name.
    """

    network: Network
    objective: str
    toolchain: str | None
    target: str | None
    options: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.runs / self.name

    @property
    def result(self) -> Mapping[str, Any] | None:
        """The run's result; ``None`` if the run was interrupted or has none yet."""
        return self._read(None)

    @property
    def _outcome(self) -> Mapping[str, Any] | None:
        """What of the result says whether the run is done; hundreds of them are read at once."""
        return self._read(OUTCOME_KEYS)

    def _read(self, keys: Collection[str] | None) -> Mapping[str, Any] | None:
        try:
            result = read_result(self.folder, keys=keys)
        except UserError:
            return None
        return None if result["interrupted"] else result

    @property
    def is_finished(self) -> bool:
        """True if the run has a result by these limits, of these files; larger limits continue it."""
        result = self._outcome
        return result is not None and not self._reason_against(result)

    @property
    def unfinished_reason(self) -> str:
        """Why the result that is there is not enough; empty if it is enough or there is none."""
        result = self._outcome
        return "" if result is None else self._reason_against(result)

    @property
    def accident(self) -> str:
        """Which accident of the machine left the result incomplete; empty if none did or there is none."""
        result = self._outcome
        return "" if result is None else accident_in(result)

    @property
    def shortfall(self) -> str:
        """What the search had no time for; empty if it had time for all."""
        verdict = (self._outcome or {}).get("verdict", {})
        failure = verdict.get("failure")
        return str(failure["reason"]) if failure and failure["kind"] == "timeout" else ""

    @property
    def particulars(self) -> str:
        """Batch, inputs, samples and target: what tells the job from others and is not in its name."""
        network = self.network
        batch = f"batch {network.batch}" if network.batch is not None else ""
        samples = network.samples.name if network.samples else ""
        return ", ".join(filter(None, [batch, *network.inputs, samples, self.target or ""]))

    @property
    def answer(self) -> Mapping[str, Any] | None:
        """The result, unless an accident left it incomplete and did not do so a second time."""
        result = self.result
        accident = "" if result is None else accident_in(result)
        return None if accident and not self._is_accepted(accident) else result

    def run(self, progress: "Progress") -> bool:
        """Search; return False if it was interrupted."""
        # It takes a second to load, which those who look at jobs do not need.
        from passsearch.api import tune

        result = tune(
            self.network.model,
            batch=self.network.batch,
            inputs=list(self.network.inputs) or None,
            samples=self.network.samples,
            objective=self.objective,
            toolchain=self.toolchain,
            target=self.target,
            out=self.folder,
            progress=progress,
            **self.options,
        )
        return not result.document["interrupted"]

    def _reason_against(self, result: Mapping[str, Any]) -> str:
        if self._limits_grew(result):
            return "finished by smaller limits"
        accident = accident_in(result)
        if accident and not self._is_accepted(accident):
            return accident
        catalogs = [Path(catalog) for catalog in self.options.get("catalogs", ())]
        samples = [self.network.samples] if self.network.samples else []
        files = [Path(self.network.model), *samples, *catalog_files(catalogs)]
        finished_at = (self.folder / RESULT).stat().st_mtime
        is_outdated = any(_written_at(file) > finished_at for file in files)
        return "finished before its network or its passes changed" if is_outdated else ""

    def _is_accepted(self, accident: str) -> bool:
        """Return whether a second start ended with the same accident, so that it is the answer."""
        report = self.records.report
        return report is not None and report.state == FINISHED and report.reason == accident

    def _limits_grew(self, result: Mapping[str, Any]) -> bool:
        # Those of `run.json`, for results of earlier versions, are of the newest start, which may have been cut off.
        limits = result.get("limits") or read_document(self.folder / "run.json")
        if limits is None:
            return False  # nothing says by which limits the result was made
        timeout, earlier = self.options.get("timeout"), limits.get("timeout_s")
        # No time limit is the largest one.
        longer = earlier is not None and (timeout is None or timeout > earlier)
        return bool(longer or self.options.get("trials", USUAL_TRIALS) > limits.get("trials", 0))


def _written_at(path: Path) -> float:
    """Return when a file, or the newest file of a folder, was written; 0 if there is none."""
    files = path.rglob("*") if path.is_dir() else [path]
    return max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)


def tune_jobs(file: JobsFile) -> list[TuneJob]:
    """Return the jobs of a file, in its order: networks, then objectives, then devices.

    Raises:
        UserError: Two jobs are the same.
    """
    jobs = {}
    for job in _product(file):
        if job.name in jobs:
            raise UserError(f"The job {job.name} is in the file twice; name each network, objective and target once.")
        jobs[job.name] = job
    return list(jobs.values())


def _product(file: JobsFile) -> Iterator[TuneJob]:
    for network, objective, device in product(file.networks, file.objectives, file.devices):
        for toolchain, target in product(device.toolchains, device.targets):
            job = TuneJob(
                name="",
                device=device,
                runs=file.runs,
                network=network,
                objective=objective,
                toolchain=toolchain,
                target=target,
                options=file.options,
            )
            yield replace(job, name=_name(job))


def _name(job: TuneJob) -> str:
    """Return a name that people can read, with a digest of all that decides the run's result."""
    # Neither the limits, which may grow, nor absolute paths, which change if the folder of the file moves.
    options = {name: value for name, value in job.options.items() if name not in ("timeout", "trials")}
    if "catalogs" in options:
        options["catalogs"] = [Path(path).name for path in options["catalogs"]]
    network: tuple[object, ...] = (job.network.text, job.network.batch, job.network.inputs)
    network += (job.network.samples.name,) if job.network.samples else ()
    identity = [network, job.objective, job.device.name, job.toolchain, job.target, options]
    words = [Path(job.network.text.removeprefix("zoo:")).stem, job.objective, job.toolchain or "", job.device.name]
    return f"{plain_name(words)}-{digest(identity)}"


def plain_name(words: list[str]) -> str:
    """Return words as one file name that is easy to type."""
    return safe_file_name(re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(filter(None, words))))


def digest(identity: Sequence[object]) -> str:
    """Return eight characters that are the same for the same values."""
    return f"{crc32(json.dumps(identity, sort_keys=True, default=list).encode()):08x}"


class Reporter:
    """Writes the reports of a job from inside the process that runs it."""

    def __init__(self, records: JobRecords) -> None:
        """Count the process among those that began the job."""
        self._records = records
        earlier = records.report
        starts = 1 + (earlier.starts if earlier else 0)
        self._earlier_reason = earlier.reason if earlier else ""
        self._report = Report("", socket.gethostname(), os.getpid(), starts, "")

    def write(self, state: str, *, progress: str | None = None, reason: str = "") -> None:
        """Write a report; without a step it keeps the last one."""
        step = self._report.progress if progress is None else progress
        self._report = replace(self._report, state=state, at=timestamp(), progress=step, reason=reason)
        self._records.write_report(self._report)

    def watch(self, job: BatchJob, turn: AbstractContextManager[object] | None = None) -> None:
        """Wait for the job's turn, run the job, and report its progress and its end."""
        if turn is not None:
            self.write(WAITING, reason="another job has the device")
        try:
            with interruptible(), turn or nullcontext():
                self.write(RUNNING)
                complete = job.run(self._progress)
        except KeyboardInterrupt:
            complete = False
        # A disk, a network drive, an earlier process, or a time limit that a larger one continues.
        except (OSError, RunInUse, TimeTooShort) as error:
            self.write(INTERRUPTED, reason=_reason(error))
            raise
        except EnvironmentFault as error:  # of this node; another one may be sound
            reason = _reason(error)
            self.write(FAILED if self._is_again(reason) else INTERRUPTED, reason=reason)
            raise
        except Exception as error:  # all of them: the report is what the user sees of a node
            self.write(FAILED, reason=_reason(error))
            raise
        # The last step tells a reader where an interrupted job stopped, and nothing of a finished one.
        if not complete:
            self.write(INTERRUPTED)
            return
        accident = job.accident
        is_final = not accident or self._is_again(accident)
        self.write(FINISHED if is_final else INTERRUPTED, progress="", reason=accident or job.shortfall)

    def _is_again(self, reason: str) -> bool:
        """Return whether the job ended for this reason before: what happens a second time is no accident."""
        # After the colon stand a number or words of the system.
        return reason.partition(":")[0] == self._earlier_reason.partition(":")[0]

    def _progress(self, text: str, done: int, total: int) -> None:
        # A total of 0 marks a note, which is no step.
        if total:
            try:
                self.write(RUNNING, progress=f"{text} ({done} of {total})")
            except OSError as error:  # of a file server that is busy, which is worth no search
                _log.warning("no report of progress: %s", error)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, PassSearchError) else f"{type(error).__name__}: {text}"


def _log_to_stderr() -> None:
    """Write the log to standard error, which the executor keeps in a file."""
    logger, handler = logging.getLogger("passsearch"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
