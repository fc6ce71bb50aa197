"""The memory and the disk that workers may use, by what the machine has."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MEMORY_SHARE = 0.75
"""Share of the machine's memory that one worker may use, unless the user gives another limit."""

DISK_SHARE = 0.5
"""Share of the free disk that the states of all workers may fill, and that one file may take."""

CGROUP, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Where Linux mounts the file systems of control groups, and the list of the groups that this process is in."""


def machine_memory_bytes(cgroup: Path = CGROUP, membership: Path = MEMBERSHIP) -> int:
    """Return the memory that this process may use: the machine's, or the least limit of its control groups.

    Args:
        cgroup: Folder of the file systems of control groups.
        membership: File with the groups of this process, in the form of ``/proc/self/cgroup``.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in _limit_files(cgroup, membership):
        # "max" stands for no limit; a group that is not mounted here has no file.
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(file.read_text()))
    return min(limits)


def _limit_files(cgroup: Path, membership: Path) -> Iterator[Path]:
    """Yield the files with limits of memory of all groups of this process, up to the outermost that it can see.

    Source: ``cgroups(7)``; a limit of a group bounds all groups below it. A batch system or systemd sets it on a group
    of its own. A container sees its own group as the outermost one, whatever the list says.
    """
    try:
        lines = membership.read_text(errors="surrogateescape").splitlines()
    except OSError:
        lines = []
    paths = {
        kinds: PurePosixPath(path) for _, kinds, path in (line.split(":", 2) for line in lines if line.count(":") > 1)
    }
    nothing = PurePosixPath("/")
    # The second version has one hierarchy, whose line names no kinds; the first has one for memory.
    first = next((path for kinds, path in paths.items() if "memory" in kinds.split(",")), nothing)
    for folder, path, names in (
        (cgroup, paths.get("", nothing), ("memory.max", "memory.high")),
        (cgroup / "memory", first, ("memory.limit_in_bytes",)),
    ):
        for group in (path, *path.parents):
            # A group outside of the namespace of this process begins with "..", and is nowhere in its file system.
            if ".." not in group.parts:
                yield from (folder / group.relative_to("/") / name for name in names)


def free_disk_bytes(folder: Path) -> int:
    """Return the free space of the disk that a folder is on, or will be on."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free
