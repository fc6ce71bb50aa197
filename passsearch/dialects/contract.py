"""What every dialect's bridge offers the worker. Loaded only where the compiler is: no compiler object leaves it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from passsearch.core import BuildOptions, DeclaredInput, ModuleSummary, PassSpec, TensorType, resolve_inputs

Array: TypeAlias = npt.NDArray[Any]
Module: TypeAlias = Any
"""A compiler's own IR object; opaque outside the bridge."""
Skeleton: TypeAlias = Any
"""An IR object with a placeholder, named by a digest of the content, for every constant."""


@dataclass(frozen=True)
class ModelSource:
    """A model file and what its importer must be told.

    Attributes:
        path: The file.
        format: ``ir`` (the dialect's JSON, parameters beside it), or one of a framework.
        inputs: Shape and dtype by input name, where the file leaves them open or the user overrides them.
        batch: Size of open first dimensions.
        parameters: File with the weights, where they are in another.
    """

    path: Path
    format: str
    inputs: Mapping[str, TensorType]
    batch: int | None = None
    parameters: Path | None = None

    def settle(self, declared: Sequence[DeclaredInput]) -> dict[str, TensorType]:
        """Every input the file declares, in order, with its open dimensions bound.

        Raises:
            UserError: An input is unknown, contradicts the file, or stays open.
        """
        return resolve_inputs(declared, types=self.inputs, batch=self.batch)


@dataclass(frozen=True)
class Artifact:
    """A built network: kernels, graph and parameters in one folder.

    Attributes:
        folder: Where the files are.
        bytes: Their size together.
        plan_bytes: Activations and workspace the compiler planned, ``None`` if it does not say.
        kernels: Digest of the lowered functions and the order of their calls, values of parameters and names left out;
            empty where the compiler does not show them.
    """

    folder: Path
    bytes: int
    plan_bytes: int | None
    kernels: str = ""


class Executable(Protocol):
    """A built network on a device."""

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Outputs for one set of inputs, which stay set for ``run_repeatedly``."""

    def run_repeatedly(self, number: int) -> None:
        """Run so many inferences and wait until the device has done them."""

    def event_time_s(self, number: int) -> float | None:
        """Seconds per inference of so many, between events of the device's own, which has run one more before.

        ``None``, as here, where there are none: on a CPU ``run_repeatedly`` is timed from outside.
        """
        return None


class ConstantTable(Protocol):
    """The constants of all states of one process, each held once, by a digest of its content."""

    def strip(self, module: Module) -> tuple[Skeleton, frozenset[str]]:
        """The skeleton of a module and the digests of its constants, which are held from now on."""

    def fill(self, skeleton: Skeleton) -> Module:
        """The inverse of ``strip``, types inferred; every constant must be held."""

    def missing(self, digests: Collection[str]) -> list[str]:
        """Those that are not held."""

    def array(self, digest: str) -> Array:
        """The value of a held constant."""

    def put(self, digest: str, array: Array) -> None:
        """Hold a constant."""

    def keep(self, digests: Collection[str]) -> None:
        """Let all others go."""


class Bridge(Protocol):
    """One compiler's IR: how it is loaded, transformed, identified, built and run.

    ``apply`` and ``build`` raise ``CompileError``; everything they are given comes from the catalog.
    """

    constants: ConstantTable

    def __init__(self, target: str) -> None:
        """Bind the target; raises ``UserError`` if this compiler cannot make code for it."""

    def threads(self) -> int:
        """Threads a parallel kernel really runs on in this process; a build may use fewer than it is allowed."""

    def load(self, source: ModelSource) -> Module:
        """The network's IR, parameters bound, types inferred."""

    def save_with_external_weights(self, module: Module, path: Path) -> None:
        """As ``save``, with what is large in files beside it, which are read faster."""

    def inputs(self, module: Module) -> Mapping[str, TensorType]:
        """The network's inputs in order."""

    def summarize(self, module: Module) -> ModuleSummary:
        """The dataflow graph as plain data."""

    def op_counts(self, module: Module) -> Mapping[str, int]:
        """What the IR consists of, counted: operators by name and layout, groups that become one kernel, constants."""

    def phase(self, module: Module) -> str:
        """How far the IR is on its way to code, in the words of the catalog's ``phases``; empty without phases."""

    def apply(self, module: Module, step: PassSpec, *, factory: str) -> Module:
        """The IR after one pass, types inferred; ``factory`` is the catalog's ``module:function``."""

    def is_same_state(self, before: Module, after: Module) -> bool:
        """Whether both are certainly one state: the common answer of a pass, told more cheaply than by identities."""

    def identity(self, skeleton: Skeleton) -> str:
        """Hexadecimal hash; equal IR has equal hash, in any process."""

    def equal(self, left: Skeleton, right: Skeleton) -> bool:
        """Structural equality, digests of constants included: confirms that equal hashes mean equal IR."""

    def write(self, skeleton: Skeleton) -> str:
        """The skeleton as text; ``read`` is the inverse, in any process."""

    def read(self, text: str) -> Skeleton:
        """Inverse of ``write``."""

    def structural_hash(self, module: Module) -> str:
        """The compiler's own hash, constants included, which a deployment can compute without passsearch."""

    def build(self, module: Module, options: BuildOptions, folder: Path) -> Artifact:
        """Compile and write everything ``open`` needs into ``folder``."""

    def digest(self, artifact: Artifact) -> str:
        """SHA-256 of what runs; equal IR built with equal options has an equal digest, in any process."""

    def save(self, module: Module, path: Path) -> None:
        """Write the IR with its constants; ``load`` of the file, as format ``ir``, has the same identity."""

    def open(self, artifact: Artifact, device: str) -> Executable:
        """Load a built network onto ``device`` (``cpu``, ``cuda:0``, …)."""


class CompileError(Exception):
    """The compiler refused; the text is its own first telling line."""


def random_inputs(types: Mapping[str, TensorType], *, seed: int) -> dict[str, Array]:
    """Inputs every network accepts: normal floats, integers and booleans of 0 and 1 (valid as index and as mask)."""
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for name, kind in types.items():
        shape = tuple(1 if size is None else size for size in kind.shape)
        is_float = kind.dtype.startswith(("float", "bfloat"))
        drawn = rng.standard_normal(shape) if is_float else rng.integers(0, 2, shape)
        values[name] = drawn.astype(kind.dtype)
    return values


SCALES: Mapping[str, float] = {"zeros": 0.0, "small": 1e-2, "large": 1e2}
"""Edge inputs: what the normal floats of seed 0 are multiplied with; float16 holds nearly all of them."""


def case_inputs(types: Mapping[str, TensorType], case: int | str) -> dict[str, Array]:
    """Inputs of one case: of a seed, or of one of ``SCALES``; integers and booleans are 0 for ``zeros``."""
    if isinstance(case, int):
        return random_inputs(types, seed=case)
    scale = SCALES[case]
    drawn = random_inputs(types, seed=0)
    return {
        name: (array * np.asarray(scale, array.dtype))
        if array.dtype.kind == "f"
        else array * np.asarray(scale != 0, array.dtype)
        for name, array in drawn.items()
    }
