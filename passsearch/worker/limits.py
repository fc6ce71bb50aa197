"""The memory and the disk that workers may use, by what the machine has."""

import contextlib
import os
import shutil
from pathlib import Path

from passsearch.standalone.deployment.processor import GROUPS, MEMBERSHIP, group_folders

MEMORY_SHARE = 0.75
"""Share of the machine's memory that one worker may use, unless the user gives another limit."""

DISK_SHARE = 0.5
"""Share of the free disk that the states of all workers may fill, and that one file may take."""


def machine_memory_bytes(cgroup: Path = GROUPS, membership: Path = MEMBERSHIP) -> int:
    """Return the memory that this process may use: the machine's, or the least limit of its control groups.

    Args:
        cgroup: Folder of the file systems of control groups.
        membership: File with the groups of this process, in the form of ``/proc/self/cgroup``.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for group in group_folders("memory", cgroup, membership):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            # "max" stands for no limit; a group that is not mounted here has no file.
            with contextlib.suppress(OSError, ValueError):
                limits.append(int((group / name).read_text()))
    return min(limits)


def free_disk_bytes(folder: Path) -> int:
    """Return the free space of the disk that a folder is on, or will be on."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free
