"""The limit of the disk that one run fills with its artifacts and its log."""

import shutil
from pathlib import Path

from passsearch.core import folder_bytes
from passsearch.errors import EnvironmentFault
from passsearch.store import STATES, Log
from passsearch.toolchain import RUN_VARIABLE
from passsearch.worker import free_disk_bytes

RUN_SHARE = 0.8
"""Share of the disk, without what others hold on it, that the artifacts and the log of one run may fill."""

# The states of the workers may fill the other half (`DISK_SHARE` of `worker.limits`).
AMPLE_SHARE = 0.5
"""Share of that limit beyond which a run deletes the artifacts that it does not need now."""


class DiskLimit:
    """What the artifacts and the log of a run may hold together.

    Attributes:
        most_bytes: The limit.
    """

    def __init__(self, folder: Path, log: Log, *, most_bytes: float | None = None) -> None:
        """Read the free space of the disk.

        Args:
            folder: Folder of the artifacts; it exists.
            log: The log of the run.
            most_bytes: The limit; a share of the disk by default.
        """
        self._folder, self._log = folder, log
        # With what the run holds already, so that a continued run has the limit of its first start.
        share = RUN_SHARE * (free_disk_bytes(folder) + self.held_bytes)
        self.most_bytes = share if most_bytes is None else most_bytes

    @property
    def held_bytes(self) -> int:
        """Size of the artifacts and of the log; the states have a limit of their own."""
        artifacts = (path for path in self._folder.iterdir() if path.name != STATES)
        return self._log.size_bytes + sum(folder_bytes(path) if path.is_dir() else _size(path) for path in artifacts)

    def is_short(self) -> bool:
        """Return whether the run should delete the artifacts that it does not need now."""
        return self.held_bytes > AMPLE_SHARE * self.most_bytes

    def require_room(self) -> None:
        """Refuse to make another artifact.

        Raises:
            EnvironmentFault: The run holds more than it may.
        """
        if (held_bytes := self.held_bytes) > self.most_bytes:
            raise self._fault(held_bytes)

    def require_room_in_log(self) -> None:
        """Refuse to go on with a log that is larger than artifacts and log together may be; takes microseconds.

        Raises:
            EnvironmentFault: The log is too large.
        """
        if self._log.size_bytes > self.most_bytes:
            raise self._fault(self._log.size_bytes)

    def _fault(self, held_bytes: int) -> EnvironmentFault:
        held, most = (f"{size / 1e6:,.1f} MB" for size in (held_bytes, self.most_bytes))
        return EnvironmentFault(
            f"The artifacts in `{self._folder}` and the log of the run hold {held}, of {most} that one run may "
            f"({RUN_SHARE:.0%} of the free disk, or {RUN_VARIABLE}), and all of them are needed. What was measured is "
            f"kept: free space or set {RUN_VARIABLE} to more gigabytes, and the same command continues a run."
        )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # the log of what the compiler prints is replaced while it is shortened
        return 0


def delete_folder(folder: Path) -> None:
    """Delete the folder of an artifact."""
    if folder.exists():
        # Renaming is atomic and deleting is not: an interruption must not leave half an artifact under its own name.
        obsolete = folder.with_name(folder.name + ".partial")
        shutil.rmtree(obsolete, ignore_errors=True)
        folder.rename(obsolete)
        shutil.rmtree(obsolete, ignore_errors=True)
