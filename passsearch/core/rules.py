"""Kinds of values that an argument may have, with the line that refuses any other."""

import math
import reprlib
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Protocol

from passsearch.core.files import expand_home
from passsearch.errors import UserError


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
        """Return the path with the home folder in place of ``~``.

        Raises:
            UserError: The value is neither a text nor a ``Path``.
        """
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
