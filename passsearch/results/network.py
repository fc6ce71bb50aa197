"""The network that a document is about, and what its outputs were compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from passsearch.results.record import Allowed, Record, left_out

Shape: TypeAlias = tuple[Annotated[int, Allowed(least=0)], ...]


@dataclass(frozen=True)
class ValueRange(Record):
    """The values that random inputs have.

    Attributes:
        low: The least value.
        high: The largest value.
        source: Where the range comes from: a table that the input indexes, the dtype, a mask, the samples of the user,
            or nowhere.
        values: The only values, where they are a few.
    """

    low: int
    high: int
    source: Literal["table", "dtype", "mask", "samples", "unknown"]
    values: tuple[int, ...] = left_out(())


@dataclass(frozen=True)
class Input(Record):
    """An input of a network.

    Attributes:
        shape: Its shape.
        dtype: Its type.
        range: Its random values.
    """

    shape: Shape
    dtype: str
    range: ValueRange | None = left_out()


@dataclass(frozen=True)
class ModelCase(Record):
    """One way in which a network is called.

    Attributes:
        name: Its name.
        weight: Share of the calls.
        function: The function in the file; empty for ``main``.
        entry: The function in the compiled module.
        inputs: Shape and type of every input.
    """

    name: str
    weight: float
    function: str
    entry: str
    inputs: Mapping[str, tuple[Shape, str]]


@dataclass(frozen=True)
class NetworkIdentity(Record):
    """A network by its file.

    Attributes:
        name: Its name.
        source: The file, or the name in the zoo.
        sha256: Digest of the file.
    """

    name: str
    source: str
    sha256: str


@dataclass(frozen=True)
class Model(NetworkIdentity):
    """The network.

    Attributes:
        batch: Samples per inference.
        inputs: Its inputs by name.
        samples: Number of samples of the user.
        function: The function that was tuned; empty with several cases.
        other_functions: Functions of the file that were not tuned.
        cases: The cases, where there are several functions or sizes.
    """

    batch: int | None
    inputs: Mapping[str, Input] | None = left_out()
    samples: int = left_out(0)
    function: str | None = left_out()
    other_functions: tuple[str, ...] = ()
    cases: tuple[ModelCase, ...] = left_out(())


@dataclass(frozen=True)
class Reference(Record):
    """What outputs were compared with.

    Attributes:
        kind: ``source`` for the network's own framework, ``import`` for the import, built without passes, so that the
            import is unproven.
        runtime: Name and version of the framework.
        reason: Reason why the import is unproven.
        outputs: Names of the outputs, where the framework has names.
        seconds: Seconds that the framework took.
    """

    kind: Literal["source", "import"]
    runtime: str | None
    reason: str
    outputs: tuple[str, ...]
    seconds: Annotated[float, Allowed(least=0)]
