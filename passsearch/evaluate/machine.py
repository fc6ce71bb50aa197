"""Whether the machine is well. Where it is not, a failure says nothing about the candidate."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import psutil

LEAST_DISK_BYTES = 32 << 20
"""Free space of a folder below which a failed build may be the disk's fault; the linker needs about as much."""

LEAST_MEMORY_BYTES = 256 << 20
"""Free memory below which a failure may be the machine's fault."""


def machine_trouble(folders: Sequence[Path]) -> str:
    """Return what is wrong with the machine in one phrase; empty if it is well.

    Args:
        folders: Folders that the failed request may have written to.
    """
    for folder in folders:
        existing = next(each for each in (folder, *folder.parents) if each.exists())
        free_bytes = shutil.disk_usage(existing).free
        if free_bytes < LEAST_DISK_BYTES:
            return f"`{folder}` has {free_bytes / (1 << 20):.1f} MiB left"
    available_bytes = psutil.virtual_memory().available
    if available_bytes < LEAST_MEMORY_BYTES:
        return f"{available_bytes / (1 << 20):.0f} MiB of memory are left"
    return ""
