"""Tells our processes on a GPU from foreign ones, by the ids that its driver lists."""

from collections.abc import Collection
from pathlib import Path

import psutil

FIRST_NAMESPACE = "pid:[4026531836]"
"""The namespace of ids that a driver lists processes by (``PROC_PID_INIT_INO`` of Linux)."""


def has_drivers_ids(link: Path = Path("/proc/self/ns/pid")) -> bool:
    """Return true if this process sees the ids that the driver lists; in most containers it does not."""
    try:
        return str(link.readlink()) == FIRST_NAMESPACE
    except OSError:  # a system that hides it has no containers of this kind
        return True


class GpuProcesses:
    """The processes on one GPU since a moment when none of ours was on it.

    Every id is looked up once. Looking through all processes of a machine at every reading would take the processor
    from the thread that launches kernels.
    """

    def __init__(self, *, knows_ids: bool) -> None:
        """Begin with no process.

        Args:
            knows_ids: True if the ids are those of this process's namespace.
        """
        self._knows_ids = knows_ids
        self._before: frozenset[int] = frozenset()
        self._is_ours: dict[int, bool] = {}
        self._has_new = False

    def begin(self, ids: Collection[int]) -> None:
        """Remember the processes on the GPU while none of ours is on it."""
        self._before, self._has_new = frozenset(ids), False
        self._is_ours.clear()

    def count_foreign(self, ids: Collection[int]) -> int | None:
        """Return the number of foreign processes; ``None`` where the driver does not show ours, so nothing is known."""
        if not self._knows_ids:
            # A new one is ours: we hold the lock of the GPU, and nothing else tells.
            self._has_new |= not self._before.issuperset(ids)
            return len(self._before.intersection(ids)) if self._has_new else None
        for number in set(ids) - self._is_ours.keys():
            self._is_ours[number] = _descends_from_us(number)
        return sum(not self._is_ours[number] for number in ids)


def _descends_from_us(number: int) -> bool:
    """Return true for this process and all that it started."""
    own = psutil.Process().pid
    try:
        process = psutil.Process(number)
        return own in (process.pid, *(parent.pid for parent in process.parents()))
    except psutil.Error:  # it has ended since, or its ancestors have
        return False
