"""The memory and the disk that workers may use, by what the machine has."""

import contextlib
import os
import shutil
from pathlib import Path

MEMORY_SHARE = 0.75
"""Share of the machine's memory that one worker may use, unless the user gives another limit."""

DISK_SHARE = 0.5
"""Share of the free disk that the states of all workers may fill, and that one file may take."""

CGROUP = Path("/sys/fs/cgroup")


def machine_memory_bytes(cgroup: Path = CGROUP) -> int:
    """Return the memory that this process may use: the machine's, or its container's if that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    # Version 2 and 1 of control groups, as a container sees its own group; "max" stands for no limit.
    for file in (cgroup / "memory.max", cgroup / "memory" / "memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(file.read_text()))
    return min(limits)


def free_disk_bytes(folder: Path) -> int:
    """Return the free space of the disk that a folder is on, or will be on."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free
