"""The packages that an inference engine needs."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class EngineEnvironment:
    """A Python environment for an inference engine, as its adapter declares it.

    Attributes:
        name: Name that users type after ``passsearch toolchain install``.
        requirements: Folder of the lock files ``NAME-pyXY.txt``, one for each Python version.
        modules: Modules that must import in the environment; the first is the engine itself.
        disk_bytes: Disk space that an installation needs.
        requirement: Package that pip resolves after the lock file, because its builds for several devices have one
            version and different hashes; empty if the lock file pins everything.
    """

    name: str
    requirements: Path
    modules: tuple[str, ...]
    disk_bytes: int
    requirement: str = ""

    def lock(self, tag: str) -> Path:
        """Return the lock file for a Python version, for example ``py311``; it may not exist."""
        return self.requirements / f"{self.name}-{tag}.txt"
