"""What several documents have: the compiler, the device, ratios, and the outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from passsearch.results.record import Allowed, Record, left_out

Outcome: TypeAlias = Literal["improved", "no gain", "undecided", "unconfirmed"]

Positive: TypeAlias = Annotated[float, Allowed(above=0)]

Interval: TypeAlias = tuple[Positive | None, Positive | None]
"""The ends of a confidence interval; ``None`` for one that is infinite."""


WIDEST = 10
"""Largest quotient of the ends of an interval that decides anything; two processes that differ give wider ones."""


def says_nothing(interval: Sequence[float | None] | None) -> bool:
    """Return whether an interval is too wide to decide anything; its ends, which can have 20 digits, are not shown."""
    low, high = interval or (None, None)
    return low is not None and high is not None and low > 0 and high > WIDEST * low


@dataclass(frozen=True)
class Compiler(Record):
    """The compiler of a measurement.

    Attributes:
        name: Name of the toolchain.
        dialect: Dialect of its IR.
        tvm_version: Version of TVM.
        tvm_commit: Commit of TVM; empty if it is unknown.
        python: Version of Python.
    """

    name: str
    dialect: str
    tvm_version: str
    tvm_commit: str = ""
    python: str = ""


@dataclass(frozen=True)
class Device(Record):
    """The device that ran the kernels.

    Attributes:
        name: Its name.
        cores: Number of cores of a processor.
        threads: Number of its threads.
        uuid: Identifier of a GPU.
        memory_bytes: Size of its memory.
        system: Kernel of the operating system.
        arch: Architecture of a GPU.
        driver: Version of the driver of a GPU.
    """

    name: str = ""
    cores: int | None = left_out(or_null=True)
    threads: int | None = left_out(or_null=True)
    uuid: str | None = left_out(or_null=True)
    memory_bytes: int | None = left_out(or_null=True)
    system: str | None = left_out(or_null=True)
    arch: str | None = left_out(or_null=True)
    driver: str | None = left_out(or_null=True)


@dataclass(frozen=True)
class StatedRatio(Record):
    """A ratio; the key that holds it says of what to what. Above 1 is better.

    Attributes:
        ratio: The ratio.
        interval: Its confidence interval; ``None`` for too few repetitions.
    """

    ratio: Positive | None
    interval: Interval | None = None


Ratios: TypeAlias = Mapping[str, StatedRatio | None]
"""Ratios by metric; ``None`` for one that was not measured."""
