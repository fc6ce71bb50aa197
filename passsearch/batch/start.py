"""What of a device runs before a job begins: its `setup` lines and its container, and how they failed."""

import re
import shlex
import sys
from pathlib import Path

from passsearch.batch.jobs_file import Device

LOCAL, SLURM = "$$", "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
"""Number of a job, as a shell has it on this machine and on a node of a cluster."""

CANCELLED = 128 + 15
"""Exit status of what a SIGTERM ended."""

_IN_CONTAINER = """\
files="$0/${SUBMITIT_LOCAL_JOB_ID}_0"
rm -f "${files}_exit"
trap : TERM INT USR2
"$@"
status=$?
[ "$status" = 0 ] || echo "container $status" >"${files}_exit"
exit "$status"
"""
_RECORD = re.compile(r"(setup|container) (\d+)\s*")


def setup_lines(device: Device, folder: Path, *, number: str = SLURM) -> list[str]:
    """Return the lines of a shell before a job. The first one that fails ends the job, and its status is written down.

    Args:
        device: The device of the job.
        folder: Folder of the jobs' output.
        number: Number of the job in words of the shell.
    """
    if not device.setup:
        return []
    files = f"_job_files={shlex.quote(str(folder))}/{number}_0"
    # submitit opens these files later, and only where the script of a cluster does not name them.
    output = ['exec >>"${_job_files}_log.out" 2>>"${_job_files}_log.err"'] if number == LOCAL else []
    record = ['rm -f "${_job_files}_exit"', 'trap \'echo "setup $?" >"${_job_files}_exit"\' EXIT', "set -e"]
    # With a trap the shell stays, and has the number that submitit takes for the job's.
    return [files, *output, *record, *device.setup, "trap : EXIT"]


def python_words(device: Device, *, recorded_in: Path | None = None) -> str:
    """Return the words that start Python for a device, in its container if it has one.

    Args:
        device: The device.
        recorded_in: Folder where a container of this machine writes down how it failed; ``None`` on a cluster.
    """
    if not device.container:
        return shlex.quote(sys.executable)
    record = "" if recorded_in is None else f"{shlex.join(['sh', '-c', _IN_CONTAINER, str(recorded_in)])} "
    return f"{record}{device.container} python3"


def start_failure(device: Device, folder: Path, id_: str) -> str:
    """Return how `setup` or the container of a job failed; empty if they did not, or were cancelled.

    Args:
        device: The device of the job.
        folder: Folder of the jobs' output.
        id_: Name of the job in its queue.
    """
    if not device.setup and not device.container:
        return ""  # a file may be of an earlier process with the same number
    number = id_.rpartition(":")[2]
    record = _RECORD.fullmatch(_read(folder / f"{number}_0_exit"))
    if record is None or int(record[2]) in (0, CANCELLED):
        return ""
    lines = _read(folder / f"{number}_0_log.err").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
    return f"its {record[1]} ended with exit status {record[2]}: {last}"


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:  # none, or not here yet on a network drive
        return ""
