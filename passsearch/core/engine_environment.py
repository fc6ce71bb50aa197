"""The packages that an inference engine needs."""

import re
from dataclasses import dataclass, replace
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
        version: Version of the engine, where it is another than that of the lock file; pip then resolves everything.
        pins: Beginnings of versions, each with a package that they need in one version, and do not say so.
    """

    name: str
    requirements: Path
    modules: tuple[str, ...]
    disk_bytes: int
    requirement: str = ""
    version: str = ""
    pins: tuple[tuple[str, str], ...] = ()

    def lock(self, tag: str) -> Path:
        """Return the lock file for a Python version, for example ``py311``; it may not exist."""
        return self.requirements / f"{self.name}-{tag}.txt"

    @property
    def package(self) -> str:
        """The package that is the engine itself, without a version."""
        return re.split(r"[\[=]", self.requirement)[0] or self.modules[0]

    def of_version(self, version: str) -> "EngineEnvironment":
        """Return an environment of its own for a version of the engine, which has no lock file."""
        return replace(self, name=f"{self.name}=={version}", requirement=f"{self.package}=={version}", version=version)
