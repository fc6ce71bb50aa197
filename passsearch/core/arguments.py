"""The values that arguments may have: one rule for the function's argument and the option of the same name."""

import errno
import inspect
import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from passsearch.core.advice import in_python, is_on_command_line
from passsearch.core.files import expand_home
from passsearch.core.messages import suggest_name
from passsearch.errors import EnvironmentFault, PassSearchError, UserError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Numbers of the system's errors for a full disk, or a full share of it."""

SOURCE, IMPORT = REFERENCES = ("source", "import")
"""What outputs are compared with: those of the network's own framework, or of the import built without passes."""

P = ParamSpec("P")
R = TypeVar("R")


def short_repr(value: object) -> str:
    """Return a value as Python writes it, in one line that fits into a message."""
    # A tensor prints thousands of numbers in many lines.
    return " ".join(reprlib.repr(value).split())


class ArgumentRule(Protocol):
    """The values that an argument may have."""

    def accept(self, name: str, value: object) -> object:
        """Return the value as a plain Python value.

        Raises:
            UserError: The rule does not allow the value.
        """
        ...


@dataclass(frozen=True)
class Number:
    """A number between two ends.

    Attributes:
        least: Smallest value.
        example: A usual value, for error messages.
        most: Largest value.
        whole: True if only whole numbers are allowed.
    """

    least: float
    example: float
    most: float = math.inf
    whole: bool = True

    def accept(self, name: str, value: object) -> object:
        """Return the value as ``int`` or ``float``."""
        # Python counts True as a number. Those of numpy become plain ones, because a run writes them as JSON.
        number = None if isinstance(value, bool) else value
        if isinstance(number, Integral) and self._contains(int(number)):
            return int(number)
        if isinstance(number, Real) and not self.whole and self._contains(float(number)):
            return float(number)
        raise UserError(f"`{name}` is {self}; got {short_repr(value)}. For example: {name}={self.example:.10g}")

    def _contains(self, value: float) -> bool:
        return math.isfinite(value) and self.least <= value <= self.most

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.least:.10g} " + ("on" if math.isinf(self.most) else f"to {self.most:.10g}")


@dataclass(frozen=True)
class Kind:
    """A value of one of some types.

    Attributes:
        types: The types.
        text: The types in words.
        example: A value as it is written in a call.
        item: The type of the items of a list.
    """

    types: tuple[type, ...]
    text: str
    example: str
    item: type = object

    def accept(self, name: str, value: object) -> object:
        """Return the value as it is."""
        items = value if isinstance(value, list | tuple) else ()
        if isinstance(value, self.types) and all(isinstance(item, self.item) for item in items):
            return value
        raise UserError(f"`{name}` is {self.text}; got {short_repr(value)}. For example: {name}={self.example}")


@dataclass(frozen=True)
class FilePath:
    """A file or folder.

    Attributes:
        text: What it is, in words.
        example: A path as it is written in a call.
    """

    text: str
    example: str

    def accept(self, name: str, value: object) -> object:
        """Return the path with the home folder in place of ``~``."""
        Kind((str, Path), self.text, self.example).accept(name, value)
        return expand_home(str(value))


@dataclass(frozen=True)
class Names:
    """A list of names or files.

    Attributes:
        example: A list as it is written in a call.
        types: The types of its items.
    """

    example: str
    types: tuple[type, ...] = (str,)

    def accept(self, name: str, value: object) -> object:
        """Return the value as it is."""
        # A string is a sequence of its letters, each of which would be refused as an unknown name.
        if isinstance(value, str | Path):
            raise UserError(f"`{name}` is a list; got the single value {str(value)!r}. Write: {name}=[{str(value)!r}]")
        if isinstance(value, list | tuple) and all(isinstance(item, self.types) for item in value):
            return value
        raise UserError(f"`{name}` is a list of strings; got {short_repr(value)}. For example: {name}={self.example}")


@dataclass(frozen=True)
class Numbers:
    """A list of different numbers.

    Attributes:
        item: Rule of each number.
        example: A list as it is written in a call.
    """

    item: Number
    example: str

    def accept(self, name: str, value: object) -> object:
        """Return the numbers as a list."""
        if not isinstance(value, list | tuple) or not value or len(set(map(repr, value))) < len(value):
            raise UserError(
                f"`{name}` is a list of different numbers; got {short_repr(value)}. For example: {name}={self.example}"
            )
        return [self.item.accept(f"each of {name}", item) for item in value]


@dataclass(frozen=True)
class Choice:
    """One of a few texts.

    Attributes:
        values: The texts.
    """

    values: tuple[str, ...]

    def accept(self, name: str, value: object) -> object:
        """Return the text."""
        if value in self.values:
            return value
        choices = " or ".join(f'"{each}"' for each in self.values)
        raise UserError(f"`{name}` is {choices}; got {short_repr(value)}.")


_TEXT = (str,)
_PATH = (str, Path)
_FLAG = Kind((bool,), "True or False", "True")

NUMBERS: Mapping[str, Number] = {
    "trials": Number(0, 60),
    "timeout": Number(0, 600, whole=False),
    "batch": Number(1, 1),
    "seed": Number(0, 0, most=2**32 - 1),
    "confirm": Number(0, 3),
    "keep_throughput": Number(0, 0.98, most=1, whole=False),
    "tolerance": Number(0, 0.001, whole=False),
    "deadline": Number(1, 600, whole=False),
    "memory": Number(0.5, 16, whole=False),
    "rounds": Number(2, 6),
    "processes": Number(1, 3),
    "threads": Number(1, 2),
    "depth": Number(1, 4),
    "states": Number(1, 1000),
    "sample": Number(1, 50),
    "seconds": Number(0, 60, whole=False),
}
"""Rules of numeric arguments, which the command line's options of the same names share."""

RULES: Mapping[str, ArgumentRule] = {
    **NUMBERS,
    "passes": Names('["FoldConstant", "FuseOps"]'),
    "additional": Names('["FoldConstant", "FuseOps"]'),
    "print_ir": Names('["FuseOps"]'),
    "rivals": Names('["onnxruntime"]'),
    "pipeline": Kind(_TEXT, "a pipeline as text, or its name", '"FoldConstant,FuseOps"'),
    "engines": Names('["relay:O3", "onnxruntime"]'),
    "batches": Numbers(NUMBERS["batch"], "[1, 2, 4, 8]"),
    "requests": Numbers(NUMBERS["batch"], "[1, 2, 4]"),
    "own_threads": _FLAG,
    "kernels": _FLAG,
    "samples": FilePath("a NumPy file with an array for each input", '"samples.npz"'),
    "labels": FilePath("a NumPy file with samples and labels", '"digits.npz"'),
    "baseline": Kind(_TEXT, "the name of one of the engines", '"onnxruntime"'),
    "engines_python": FilePath("a Python interpreter", '"venv/bin/python"'),
    "pipelines": Names('["O2", "O3"]'),
    "catalogs": Names('["own_passes.yaml"]', _PATH),
    "function": Kind(_TEXT, "the name of a function, or names with weights", '"prefill:0.1,decode:0.9"'),
    "sizes": Kind((str, list, tuple), "sizes of an input with weights, as text", '"ids=1x128:0.3,1x1024:0.7"', str),
    "objective": Kind((str, list, tuple), "a name or a list of two names", '"throughput"', str),
    "target": Kind(_TEXT, "a target as text", '"llvm"'),
    "toolchain": Kind(_TEXT, "the name of a toolchain, as in `passsearch toolchain list`", '"this"'),
    "reference": Choice(REFERENCES),
    "sampler": Kind(_TEXT, "the name of a strategy", '"auto"'),
    "protocol": Kind(_TEXT, "the name of a protocol", '"paired"'),
    "cache": Kind(_TEXT, "the state of the caches", '"warm"'),
    "run": FilePath("a run folder", '"runs/resnet"'),
    "to": FilePath("a folder", '"deploy"'),
    "out": FilePath("a run folder", '"runs/resnet"'),
    "folder": FilePath("a folder", '"evaluation"'),
    "remember": _FLAG,
    "keep_symbolic": _FLAG,
    "trust": _FLAG,
    "every": _FLAG,
    # `Callable` is a class at run time, which mypy does not know.
    "progress": Kind((bool, Callable), "True, False or a function of (text, done, total)", "True"),  # type: ignore[arg-type]
}
"""Rules by the name of the argument; one name has one rule in all functions of the API."""


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments before it does anything.

    Raises:
        UserError: There is no such argument, one is missing, or it has a value that its rule does not allow.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def check_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UserError(_call_fault(function.__name__, signature, names=kwargs, error=error)) from None
        for name, value in bound.arguments.items():
            if name in RULES and value is not signature.parameters[name].default:
                bound.arguments[name] = RULES[name].accept(name, value)
        with _for_caller():
            return function(*bound.args, **bound.kwargs)

    return check_and_call


@contextmanager
def _for_caller() -> Iterator[None]:
    """Put errors into the words of the caller, and say of a full disk what it is.

    Raises:
        EnvironmentFault: The disk is full.
    """
    try:
        yield
    except PassSearchError as error:
        if not is_on_command_line():
            error.args = (in_python(str(error)), *error.args[1:])
        raise
    except OSError as error:
        if error.errno not in FULL:
            raise
        place = f", on which `{error.filename}` is," if error.filename else ""
        raise EnvironmentFault(
            f"The disk{place} is full; make room, and the same call goes on with what was measured. "
            "See: passsearch doctor"
        ) from error


def _call_fault(function: str, signature: inspect.Signature, *, names: Iterable[str], error: TypeError) -> str:
    """Return what is wrong with the arguments of a call, of which some have these names."""
    parameters = list(signature.parameters)
    unknown = next((name for name in names if name not in parameters), None)
    # Python's own text says what is missing or stands there twice.
    fault = f"`{function}`: {error}" if unknown is None else f"`{function}` has no argument `{unknown}`"
    hint = suggest_name(unknown, parameters) if unknown else ""
    return f"{fault}{f'; {hint}' if hint else '.'} Its arguments are: {', '.join(parameters)}"
