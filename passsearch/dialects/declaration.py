"""The description of a dialect that the rest of passsearch reads without loading a compiler."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from passsearch.core import BuildOptions, Candidate

Version: TypeAlias = tuple[int, ...]

_STANDALONE = Path(__file__).parents[1] / "standalone"


@dataclass(frozen=True)
class CompilerWheel:
    """A lock file of wheels that are tagged for one Python and also run on others, through TVM's ctypes path.

    Attributes:
        lock: File in the dialect's requirements folder.
        python: The Python version that the wheels are tagged for.
    """

    lock: str
    python: Version


@dataclass(frozen=True)
class Framework:
    """What can be installed into a toolchain beside TVM: a framework, so that importers can read its files, or CUDA.

    Attributes:
        name: The framework's name as the user types it.
        disk_bytes: Disk space it needs in addition to the toolchain.
        requirement: The requirement that pip resolves, for a framework that no lock file can pin; empty if
            ``pyXY-NAME.txt`` is its lock file.
    """

    name: str
    disk_bytes: int
    requirement: str = ""


@dataclass(frozen=True)
class Dialect:
    """One IR: the compilers that have it and the places of its code.

    Attributes:
        name: The dialect's name as the user types it.
        tvm_versions: Half-open range of TVM versions. A trial import could not decide: TVM 0.19 has two IRs.
        bridge: ``module:Class`` of the bridge, loaded only in a worker.
        saver: ``module:function`` that writes an in-memory module to a file; loaded in an interpreter with the
            compiler.
        packaged_version: Version of the TVM that the lock files install.
        opener: ``module:function`` that makes a Python function of a built network, whose files it checks; loaded in an
            interpreter with the compiler. Empty if the dialect has none.
        pipeline_maker: ``module:function`` that makes one pass of TVM of a pipeline; loaded in an interpreter with the
            compiler. Empty if the dialect has none.
        checker: ``module:function`` that tests one catalog entry with the compiler; loaded only in a worker.
        baselines: Named candidates that are measured like any other.
        default_baseline: Name of the baseline to beat.
        builds: Build options that a search tries after a pipeline, one per opt level. The first is mandatory lowering
            alone: it also disables passes that the lowest level runs but a pipeline may contain itself.
        requirements: Folder with one lock file for each Python (``py311.txt``, …), and another that replaces it in a
            toolchain with frameworks (``py311-frameworks.txt``, …) for each Python that can have them.
        isolated_imports: Formats that are imported in a process of their own, with the modules to import before the
            compiler.
        compiler: Lock file of the compiler itself, for wheels that run on more Pythons than their tag says.
        frameworks: Frameworks its toolchain can hold, in installation order.
        reference_passes: Passes of the build that makes the reference outputs on a CPU; empty for a build without
            passes.
        drops_nan: Operators that make numbers of NaN, whatever passes do.
        padding_prover: ``module:function`` that proves how a module with open sizes may be padded; loaded only in a
            worker. Empty if the dialect has none.
        weight_rounding: ``module:function`` that makes a ``passsearch.dialects.rounding.Rounding`` of a module; loaded
            only in a worker. Empty for a dialect that narrows no weights.
        kernel_access: ``module:Class`` of a ``passsearch.dialects.foreign_kernel.KernelAccess``; loaded only in a
            worker. Empty for a dialect whose kernels cannot be replaced.
        tiles_for_threads: True if schedules take account of the number of threads, the target's ``num-cores``.
        has_cases: True if one build can have several entry functions, so that cases can be weighed.
    """

    name: str
    tvm_versions: tuple[Version, Version]
    bridge: str
    packaged_version: str
    saver: str
    checker: str
    baselines: tuple[Candidate, ...]
    default_baseline: str
    requirements: Path
    # TVM's own build pipeline runs after the search's passes, so its options are part of a candidate.
    builds: tuple[BuildOptions, ...] = (BuildOptions(),)
    isolated_imports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compiler: CompilerWheel | None = None
    frameworks: tuple[Framework, ...] = ()
    opener: str = ""
    pipeline_maker: str = ""
    # A compiler without schedules for CPUs would take minutes for these outputs.
    reference_passes: tuple[str, ...] = ()
    drops_nan: frozenset[str] = frozenset()
    padding_prover: str = ""
    weight_rounding: str = ""
    kernel_access: str = ""
    tiles_for_threads: bool = False
    has_cases: bool = False

    @property
    def script(self) -> tuple[Path, ...]:
        """Files of the deployment script: the script itself first, then what it imports from beside it, and loaders."""
        folders = (_STANDALONE / "deployment", _STANDALONE / self.name / "deployment")
        files = (file for folder in folders for file in folder.iterdir() if file.suffix in (".py", ".cc", ".h"))
        script = folders[0] / "build_model.py"
        others = (file for file in files if file.name not in ("__init__.py", script.name))
        return (script, *sorted(others, key=lambda file: file.name))

    def supports(self, version: Version) -> bool:
        """Return True if a TVM of this version has the dialect."""
        low, high = self.tvm_versions
        return low <= version < high

    @property
    def formats(self) -> frozenset[str]:
        """Formats its importers read: ONNX, its own IR, and those imported in a process of their own."""
        return frozenset({"onnx", "ir", *self.isolated_imports})

    @property
    def baseline(self) -> Candidate:
        """The baseline to beat."""
        return next(candidate for candidate in self.baselines if candidate.name == self.default_baseline)
