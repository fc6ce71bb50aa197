"""What the referee of foreign kernels needs of a dialect: a kernel's parameters, its code, and calls of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from passsearch.dialects.contract import Array, Bridge, Module

KernelCall: TypeAlias = Callable[[Sequence[Array]], None]
"""Runs a kernel on arrays, in the order of its parameters, without copying any."""


@dataclass(frozen=True)
class KernelParameter:
    """One parameter of a kernel.

    Attributes:
        name: Its name.
        dtype: Type of its elements.
        shape: Its sizes.
        is_output: True if the kernel writes it.
        may_be_index: True if its values may say which elements are read, so that only small ones are sure to be valid.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_output: bool
    may_be_index: bool = True

    @property
    def has_narrow_values(self) -> bool:
        """True for integers that may be indices, which are 0 and 1 in checks."""
        return self.may_be_index and not self.dtype.startswith("float")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "KernelParameter":
        """Return the parameter that ``asdict`` has described."""
        return cls(**{**data, "shape": tuple(data["shape"])})


@dataclass(frozen=True)
class KernelDescription:
    """A kernel of a network.

    Attributes:
        name: Its name in the module.
        shown: Its name in tables.
        parameters: Its parameters.
        prototype: How a function in C begins that can stand in its place.
    """

    name: str
    shown: str
    parameters: tuple[KernelParameter, ...]
    prototype: str

    def to_json(self) -> dict[str, Any]:
        """Return the form of answers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "KernelDescription":
        """Return the description in an answer."""
        return cls(**{**data, "parameters": tuple(map(KernelParameter.from_json, data["parameters"]))})


class KernelAccess(Protocol):
    """The kernels of modules of one dialect."""

    def __init__(self, bridge: Bridge) -> None:
        """Take the target from a bridge."""

    def describe(self, module: Module, kernel: str) -> KernelDescription:
        """Return a kernel.

        Raises:
            CompileError: There is none of this name, or it cannot be replaced; the message says why.
        """

    def constants(self, module: Module, kernel: str) -> Mapping[int, Array]:
        """Return the arguments of the kernel's first call that are constants, by place."""

    def build(self, module: Module, kernel: str, path: Path, *, wide: bool = False) -> None:
        """Write a library with this kernel alone; ``wide`` computes with 64 bits instead of 32.

        Raises:
            CompileError: The compiler refuses it.
        """

    def open(self, path: Path) -> KernelCall:
        """Load a library."""
