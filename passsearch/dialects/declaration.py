"""What the rest of passsearch may know of a dialect without loading its compiler."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from passsearch.core import BuildOptions, Candidate

Version: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class CompilerWheel:
    """A lock file of wheels tagged for one Python that run, by TVM's ctypes path, on others too.

    Attributes:
        lock: File in the dialect's requirements folder.
        python: The version its wheels are tagged for.
    """

    lock: str
    python: Version


@dataclass(frozen=True)
class Framework:
    """A framework that a toolchain can hold, for the dialect's importers to read its files.

    Attributes:
        name: As the user types it.
        disk_bytes: Free room it needs beyond what a toolchain without it does.
        requirement: What pip is to resolve where one lock file cannot hold it; empty if ``pyXY-NAME.txt`` does.
    """

    name: str
    disk_bytes: int
    requirement: str = ""


@dataclass(frozen=True)
class Dialect:
    """One IR: which compilers have it and where its code is.

    Attributes:
        name: As the user types it.
        tvm_versions: Half-open range. The dialect is chosen by it, never by what imports: TVM 0.19 ships two.
        bridge: ``module:Class``, loaded only in a worker.
        script: Files of the deployment script, which need no more than the compiler: the script itself first, then what
            it imports from beside it.
        saver: ``module:function`` that writes an in-memory module to a file; loaded where its compiler is.
        opener: ``module:function`` that makes a function of a built network; loaded where its compiler is;
            empty where there is none.
        checker: ``module:function`` that holds one catalog entry against the compiler; loaded only in a worker.
        baselines: Named candidates measured like any other.
        default_baseline: The one to beat.
        builds: What a search builds after a pipeline, each of its level. First mandatory lowering alone, without the
            passes that even the lowest level runs though a pipeline may have them itself.
        requirements: Folder with one lock file for each Python (``py311.txt``, …), and one to use in its stead
            beside frameworks (``py311-frameworks.txt``, …) for each Python that can have them.
        isolated_imports: Formats that a process of their own imports, each with what it imports before the compiler.
        compiler: Lock file of the compiler itself where its wheels serve other Pythons than their tag says.
        frameworks: Those its toolchain can hold, in the order of installing.
    """

    name: str
    tvm_versions: tuple[Version, Version]
    bridge: str
    script: tuple[Path, ...]
    saver: str
    checker: str
    baselines: tuple[Candidate, ...]
    default_baseline: str
    requirements: Path
    builds: tuple[BuildOptions, ...] = (BuildOptions(),)
    isolated_imports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compiler: CompilerWheel | None = None
    frameworks: tuple[Framework, ...] = ()
    opener: str = ""

    def supports(self, version: Version) -> bool:
        """Whether a TVM of this version has the dialect."""
        low, high = self.tvm_versions
        return low <= version < high

    @property
    def lowering(self) -> BuildOptions:
        """Mandatory lowering alone."""
        return self.builds[0]

    @property
    def formats(self) -> frozenset[str]:
        """What its importers read: ONNX, its own IR, and what needs a process of its own."""
        return frozenset({"onnx", "ir", *self.isolated_imports})

    @property
    def baseline(self) -> Candidate:
        """The baseline to beat."""
        return next(candidate for candidate in self.baselines if candidate.name == self.default_baseline)
