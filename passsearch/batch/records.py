"""The files by which the person who submits a job and the node that runs it know of each other."""

import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from passsearch.core import parse_json
from passsearch.store import write_json

_Record = TypeVar("_Record", "Submission", "Report")

RECORDS = "batch"
"""Folder of these files and of the jobs' output, in the folder of runs."""

WAITING, RUNNING, FINISHED, INTERRUPTED, FAILED = "waiting", "running", "finished", "interrupted", "failed"


@dataclass(frozen=True)
class Submission:
    """The latest submission of a job.

    Attributes:
        executor: Name of the queue that has the job.
        id: Name of the job in that queue.
        submitted_at: Time in ISO 8601 and UTC.
        starts: Number of processes that began the job before.
    """

    executor: str
    id: str
    submitted_at: str
    starts: int


@dataclass(frozen=True)
class Report:
    """How far a job is, in the words of the process that runs it.

    Attributes:
        state: ``WAITING`` for its device, ``RUNNING``, or how it ended.
        host: Name of the node.
        pid: Number of the process on the node.
        starts: Number of processes that began the job, this one included.
        at: Time of this report in ISO 8601 and UTC.
        progress: The current or last step.
        reason: Reason of the state; empty where there is nothing to explain.
    """

    state: str
    host: str
    pid: int
    starts: int
    at: str
    progress: str = ""
    reason: str = ""


@dataclass(frozen=True)
class JobRecords:
    """The files of one job.

    Attributes:
        folder: The folder of all records.
        name: Name of the job.
    """

    folder: Path
    name: str

    @property
    def submission(self) -> Submission | None:
        """The latest submission; ``None`` if there is none."""
        content = read_document(self._path("submission"))
        return _record(Submission, content)

    @property
    def report(self) -> Report | None:
        """The latest report; ``None`` if the job has not begun."""
        content = read_document(self._path("report"))
        return _record(Report, content)

    def write_submission(self, submission: Submission) -> None:
        """Replace the submission."""
        self._write("submission", asdict(submission))

    def write_report(self, report: Report) -> None:
        """Replace the report."""
        self._write("report", asdict(report))

    def _path(self, kind: str) -> Path:
        return self.folder / f"{self.name}.{kind}.json"

    def _write(self, kind: str, content: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # A job that was queued again may have an earlier process that still lives.
        write_json(self._path(kind), content, writer=f".{socket.gethostname()}-{os.getpid()}")


def read_document(path: Path) -> Any:
    """Return a JSON document; ``None`` if it is not there yet, or damaged."""
    try:
        return parse_json(path.read_text())
    except (OSError, ValueError):  # on a network drive, a file that another machine replaces just now
        return None


def _record(kind: type[_Record], content: object) -> _Record | None:
    """Return a record; keys of later versions are ignored, and one that lacks a key is none."""
    names = [field.name for field in fields(kind)]
    if not isinstance(content, dict) or not content.keys() >= set(names):
        return None
    return kind(**{name: content[name] for name in names})
