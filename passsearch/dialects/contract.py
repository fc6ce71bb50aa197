"""The interface between a dialect and the worker. No compiler object leaves the worker process."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from passsearch.core import MAIN, BuildOptions, Case, DeclaredInput, ModuleSummary, PassSpec, TensorType, resolve_inputs

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
else:
    # The front ends import this module, and must not load numpy before they need it.
    Array = Any
Module: TypeAlias = Any
"""A compiler's own IR object; opaque outside the bridge."""
KernelArguments: TypeAlias = Any
"""Arguments that the variants of one kernel run on; opaque outside the bridge."""
Skeleton: TypeAlias = Any
"""An IR object in which a placeholder stands for every constant and holds the digest of its content."""

WEIGHTS = "weights of "
"""Begin of the names among the counts of an IR that say how a kernel's weights are stored, and not how many it has."""


@dataclass(frozen=True)
class ModelSource:
    """A model file with the settings its importer needs.

    Attributes:
        path: The file.
        format: ``ir`` (the dialect's JSON, parameters beside it), or the format of a framework.
        inputs: Shape and dtype by input name, for inputs that the file leaves open or the user overrides.
        batch: Size of open first dimensions.
        parameters: File with the weights, for formats that store them in a second file.
        function: Function of a compiler module that becomes ``main``; empty for ``main`` itself.
        cases: The cases that are weighed, where there are several.
        case_paths: Files of the network with the sizes of one case, by entry function; the others take ``path``.
        keep_symbolic: True to leave open sizes open.
        original: Name of the user's file, if ``path`` is a copy of it; empty otherwise.
    """

    path: Path
    format: str
    inputs: Mapping[str, TensorType]
    batch: int | None = None
    parameters: Path | None = None
    function: str = ""
    cases: tuple[Case, ...] = ()
    case_paths: Mapping[str, Path] = field(default_factory=dict)
    keep_symbolic: bool = False
    original: str = ""

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return self.original or self.path.name

    def bind_inputs(self, declared: Sequence[DeclaredInput]) -> dict[str, TensorType]:
        """Return every input the file declares, in order, with its open dimensions bound.

        Raises:
            UserError: An input is unknown, contradicts the file, or stays open.
        """
        return resolve_inputs(declared, types=self.inputs, batch=self.batch)


KERNEL_HASHES = "kernel_hashes.json"
"""Name of the file in an artifact's folder with a hash of each kernel by its name."""

KERNEL_COSTS = "kernel_costs.json"
"""Name of the file in an artifact's folder with the cost of each kernel by its name."""


@dataclass(frozen=True)
class KernelCost:
    """What one call of a kernel has to do, and with how much code.

    Attributes:
        flops: Additions, multiplications and comparisons that it carries out; a call of a function such as ``exp``
            counts as none.
        bytes: Bytes of its arguments and results, each of which it reads or writes at least once.
        code_bytes: Bytes of its machine code; ``None`` if the library does not tell, as for a GPU.
    """

    flops: float
    bytes: int
    code_bytes: int | None = None


@dataclass(frozen=True)
class Artifact:
    """A built network: kernels, graph and parameters in one folder.

    Attributes:
        folder: The folder with the files.
        bytes: Total size of the files.
        plan_bytes: Memory the compiler planned for activations and workspace, ``None`` if it does not report it.
        kernels: Digest of the lowered functions and of the order of their calls. Values of parameters do not change
            it; names of functions may. Empty if the compiler does not show its kernels.
        parts_s: Seconds of the build by ``COMPILE_PARTS``; empty for an artifact that was not built just now.
        kernel_hashes: Function that returns a hash of each kernel by its name; called when compile time is over.
        kernel_costs: Function that returns the cost of each kernel by its name; called when compile time is over.
        launches: Kernels that one inference starts on a GPU; ``None`` on a CPU and where the compiler does not tell.
    """

    folder: Path
    bytes: int
    plan_bytes: int | None
    kernels: str = ""
    parts_s: Mapping[str, float] = field(default_factory=dict)
    kernel_hashes: Callable[[], Mapping[str, str]] = dict
    kernel_costs: Callable[[], Mapping[str, KernelCost]] = dict
    launches: int | None = None


KernelCalls: TypeAlias = Sequence[tuple[str, float]]
"""Name of the kernel and seconds of every call of one inference, in order."""

RUNTIME = "runtime."
"""Begin of the names of functions that belong to the runtime: allocations, checks, views."""


@dataclass(frozen=True)
class KernelRun:
    """The calls of one kernel in an inference.

    Attributes:
        calls: Their number.
        repeat: Repeats all of them so many times, on copies of their data, and waits until the device has finished.
    """

    calls: int
    repeat: Callable[[int], None]


KernelRuns: TypeAlias = Mapping[str, KernelRun]
"""By name of the kernel."""


@dataclass(frozen=True)
class Kernel:
    """A function of loops that an inference calls, before it is scheduled.

    Attributes:
        name: Name of the function in its module.
        digest: Hash of the function without its name, and of which of its arguments are constants.
        calls: Number of calls in one inference; the mean by weights where an inference is one of several cases.
        operations: Additions and multiplications of its largest sum of products; 0 if it has none.
        bytes: Bytes of its arguments and results.
        has_constants: Whether it has arguments that are constants in all calls.
    """

    name: str
    digest: str
    calls: float
    operations: int
    bytes: int
    has_constants: bool


class KernelExecutable(Protocol):
    """One kernel, to be run without its network.

    Attributes:
        digest: Hash of the function as it is scheduled.
    """

    digest: str

    def run(self) -> None:
        """Run once."""

    def event_time_s(self) -> float | None:
        """Run and return seconds per run, measured by events of the device; ``None`` for a device without events."""
        return None

    def outputs(self) -> Sequence[Array]:
        """Run once and return the outputs."""


class Executable(Protocol):
    """A built network on a device; it runs ``main``."""

    def entry(self, function: str) -> "Executable":
        """Return the same network, run by another of its entry functions; itself for a dialect that has only one."""
        return self

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Set the inputs, run one inference and return its outputs; ``run_repeatedly`` reads the inputs set here."""

    def held_inputs(self) -> Mapping[str, Array]:
        """Return copies of the inputs as they are in memory after the last run; those that the runtime can show."""
        return {}

    def run_repeatedly(self, number: int) -> None:
        """Run ``number`` inferences and wait until the device has finished them."""

    def event_time_s(self, number: int) -> float | None:
        """Return seconds per inference, measured by events of the device, or ``None`` for a device without events.

        The device runs one inference before the ``number`` that are timed. Without events, as on a CPU, the caller
        reads its own clock around ``run_repeatedly``.
        """
        return None

    def run_by_kernel(self, inputs: Mapping[str, Array], *, with_runtime: bool = False) -> KernelCalls | None:
        """Run one inference and return its kernel calls; ``None`` if this runtime does not tell them apart.

        Args:
            inputs: Inputs by name.
            with_runtime: True to return the calls of the runtime's own functions too; their names begin with
                ``RUNTIME``.
        """
        return None

    def kernel_shapes(self, inputs: Mapping[str, Array]) -> Sequence[str] | None:
        """Run one inference; return by call, in the order of ``run_by_kernel``, the shapes of the kernel's arguments.

        ``None`` if this runtime does not show them.
        """
        return None

    def kernel_bits(self, inputs: Mapping[str, Array]) -> Sequence[tuple[str, str]] | None:
        """Run one inference; return by call, in order, the kernel and a digest of what it computes.

        ``None`` if this runtime does not show that.
        """
        return None

    def kernel_runs(self, inputs: Mapping[str, Array]) -> KernelRuns | None:
        """Run one inference; return by kernel its calls, to be repeated alone. ``None`` if this runtime cannot."""
        return None


class SourceNetwork(Executable):
    """A network that its own framework runs: what its outputs should be.

    Attributes:
        runtime: Name and version of the framework.
        output_names: Names of the outputs in order, where the framework names them.
    """

    runtime: str
    output_names: Sequence[str] = ()

    def moved(self, seed: int) -> "SourceNetwork | None":
        """Return the network with its float constants moved by one rounding; ``None`` if it rounds none to integers."""
        return None

    def run_repeatedly(self, number: int) -> None:
        """Raise: a source is the reference of values, and is never timed."""
        raise NotImplementedError


class ConstantTable(Protocol):
    """The constants of all states of one process. Every constant is stored once, under a digest of its content."""

    def strip(self, module: Module) -> tuple[Skeleton, frozenset[str]]:
        """Store the constants of a module; return its skeleton and their digests."""

    def fill(self, skeleton: Skeleton) -> Module:
        """Return the module of a skeleton, types inferred; every constant must be in the table."""

    def missing(self, digests: Collection[str]) -> list[str]:
        """Return the digests whose constants the table does not hold."""

    def array(self, digest: str) -> Array:
        """Return the value of a constant in the table."""

    def read(self, digest: str, path: Path) -> bool:
        """Store the constant in a file of numpy's; return True if it is mapped, and an equal one in memory dropped."""

    def keep(self, digests: Collection[str]) -> None:
        """Drop all constants but these."""

    def release(self) -> None:
        """Give back the pages of mapped constants; where they are used again, the system takes them from the files."""


class Bridge(Protocol):
    """One compiler's IR: load, transform, identify, build and run it.

    ``apply`` and ``build`` raise ``CompileError``; all their arguments come from the catalog.
    """

    constants: ConstantTable

    def __init__(self, target: str) -> None:
        """Set the target; raises ``UserError`` if this compiler cannot generate code for it."""

    def threads(self) -> int:
        """Return the number of threads a parallel kernel uses in this process; some builds use fewer than allowed."""

    def limit_threads(self, count: int) -> None:
        """Limit the threads of kernels that the calling thread starts."""

    def free_device_bytes(self, device: str) -> int | None:
        """Return the free memory of a GPU, which all its processes share; ``None`` for a CPU, or if it is unknown."""

    def load(self, source: ModelSource) -> Module:
        """Import a network; parameters are bound, types inferred."""

    def open_source(self, source: ModelSource) -> SourceNetwork:
        """Open a model file with the framework that it is a file of, where this process has it.

        Raises:
            UserError: There is no such framework, or it refuses the network.
        """

    def save_with_external_weights(self, module: Module, path: Path) -> None:
        """Write the IR like ``save``, but large constants to a second file, which loads faster."""

    def function_names(self, source: ModelSource) -> Sequence[str]:
        """Return the names of the functions that could be tuned; empty for a format that has one function."""

    def inputs(self, module: Module, entry: str = MAIN) -> Mapping[str, TensorType]:
        """Return the inputs of an entry function in order."""

    def summarize(self, module: Module) -> ModuleSummary:
        """Return the dataflow graph as plain data."""

    def op_counts(self, module: Module) -> Mapping[str, int]:
        """Count what the IR consists of: operators by name and layout, functions that become one kernel, constants.

        How the weights of a kernel are stored, where a pass decided that, is a key that begins with ``WEIGHTS``.
        """

    def phase(self, module: Module) -> str:
        """Return the lowering phase of the IR, a name of the catalog's ``phases``; empty for an IR without phases."""

    def apply(self, module: Module, step: PassSpec, *, factory: str) -> Module:
        """Return the IR after one pass, types inferred; ``factory`` is the catalog's ``module:function``."""

    def is_same_state(self, before: Module, after: Module) -> bool:
        """Return True if both are certainly one state. This is the common case, and cheaper than two identities."""

    def text(self, module: Module) -> str:
        """Return the IR as the compiler prints it for people, without the values of large constants."""

    # A skeleton and not a module: hashing and comparing it reads no weights.
    def identity(self, skeleton: Skeleton) -> str:
        """Return a hexadecimal hash; equal IR has an equal hash, in any process."""

    def equal(self, left: Skeleton, right: Skeleton) -> bool:
        """Return structural equality, digests of constants included; it confirms that equal hashes mean equal IR."""

    def write(self, skeleton: Skeleton) -> str:
        """Return the skeleton as text that ``read`` restores in any process."""

    def read(self, text: str) -> Skeleton:
        """Return the skeleton that ``write`` made this text from."""

    def structural_hash(self, module: Module) -> str:
        """Return the compiler's own hash, constants included; a deployment can compute it without passsearch."""

    def build(self, module: Module, options: BuildOptions, folder: Path) -> Artifact:
        """Compile, and write everything ``open`` needs into ``folder``."""

    def kernels(self, module: Module, weights: Mapping[str, float] | None = None) -> Sequence[Kernel]:
        """Return the kernels of one inference; empty for an IR that does not show them.

        Args:
            module: The module.
            weights: Weights of the entry functions, which add up to 1; ``None`` if there is one.
        """

    def constant_bytes(self, module: Module) -> int:
        """Return the size of the constants that the kernels read."""

    def isolate(self, module: Module, kernel: str) -> Module:
        """Return a module that calls one kernel once."""

    def open_kernel(self, module: Module, arguments: KernelArguments) -> KernelExecutable:
        """Return the kernel of a module from ``isolate``, to which the passes that schedule it were applied.

        Args:
            module: The module.
            arguments: Arguments that the kernel runs on.
        """

    def build_kernels(self, kernels: Sequence[KernelExecutable]) -> None:
        """Generate the code of kernels, which run only after this.

        Raises:
            CompileError: The compiler refuses one of them, or more. No kernel is built then.
        """

    def kernel_arguments(self, cold_bytes: int, device: str) -> KernelArguments:
        """Return arguments, which variants of one kernel share.

        Args:
            cold_bytes: Size of the memory from which variants read constants, one after the other; 0 for their own.
            device: Device that the kernel runs on, such as ``cpu`` or ``cuda:0``.
        """

    def digest(self, artifact: Artifact) -> str:
        """Return a SHA-256 of what runs; equal IR built with equal options has an equal digest, in any process."""

    def save(self, module: Module, path: Path) -> None:
        """Write the IR with its constants; ``load`` of the file, as format ``ir``, has the same identity."""

    def open(self, artifact: Artifact, device: str) -> Executable:
        """Load a built network onto ``device`` (``cpu``, ``cuda:0``, …)."""


class CompileError(Exception):
    """The compiler refused a pass or a build; the text is the line of its message that says why."""
