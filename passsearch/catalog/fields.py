"""Typed access to the fields of a catalog file; every error names file, entry, field, value got and values allowed."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from passsearch.core import Json, suggest_name
from passsearch.errors import UserError

PASS_NAME = re.compile(r"[A-Za-z_][\w.]*")
"""What the text of a pipeline can name."""
FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
VERSIONS = re.compile(r"(>=|<|==)\d+(\.\d+)*(,(>=|<|==)\d+(\.\d+)*)*")

Row = TypeVar("Row")


@dataclass(frozen=True)
class Fields:
    """One mapping of a catalog file, and its place in the file.

    Attributes:
        values: The mapping as YAML gives it.
        origin: The file.
        entry: The declaration that the mapping belongs to, as messages name it: ``pass `FuseOps` ``.
        prefix: Path from the entry to this mapping (``parameters.evaluator.``).
    """

    values: Mapping[str, Json]
    origin: str
    entry: str
    prefix: str = field(default="")

    def fault(self, name: str, got: object, *, allowed: str) -> UserError:
        """Return the error for one field."""
        return UserError(
            f"`{self.origin}`, {self.entry}, field `{self.prefix}{name}`: got `{got}`; allowed: {allowed}."
        )

    def allow_only(self, names: Collection[str]) -> None:
        """Raise a ``UserError`` for the first field whose name is not among these, so that none is ignored."""
        for name in self.values:
            if name not in names:
                hint = suggest_name(str(name), names, likeness=0.7) or f"allowed: {', '.join(names)}."
                raise UserError(f"`{self.origin}`, {self.entry}: unknown field `{self.prefix}{name}`; {hint}")

    def text(self, name: str, *, default: str | None = None) -> str:
        """Return a string that is not empty; it is required unless there is a default."""
        if default is not None and name not in self.values:
            return default
        value = self.values.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(name, _shorten(value), allowed="a text that is not empty")
        # A text may stand on several lines in the file; tables and messages print it on one.
        return " ".join(value.split())

    def matching(self, name: str, pattern: re.Pattern[str], *, allowed: str) -> str:
        """Return a required string of a certain form."""
        value = self.values.get(name)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise self.fault(name, _shorten(value), allowed=allowed)
        return value

    def one_of(self, name: str, allowed: Collection[str], *, default: str | None = None) -> str:
        """Return one word of a vocabulary."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in allowed:
            raise self.fault(name, _shorten(value), allowed=" | ".join(allowed))
        return value

    def some_of(self, name: str, allowed: Collection[str]) -> tuple[str, ...]:
        """Return words of a vocabulary, none if the field is absent."""
        words = self.texts(name)
        for word in words:
            if word not in allowed:
                raise self.fault(name, word, allowed=" | ".join(allowed))
        return words

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings, empty if the field is absent."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            example = _shorten(value) if isinstance(value, str) else "first, second"
            raise self.fault(name, _shorten(value), allowed=f"a list of texts, such as [{example}]")
        return tuple(cast("list[str]", value))

    def integer(self, name: str, *, low: int, high: int, default: int | None = None) -> int:
        """Return a whole number from ``low`` to ``high``."""
        value = self.values.get(name, default)
        # YAML reads `yes` as true, and in Python true is an integer.
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.fault(name, _shorten(value), allowed=f"a whole number from {low} to {high}")
        return value

    def fraction(self, name: str, *, default: float) -> float:
        """Return a number from 0 to 1."""
        value = self.values.get(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            # PyYAML reads `1e-5` as a string: YAML 1.1 numbers with an exponent need a point.
            raise self.fault(name, _shorten(value), allowed="a number from 0 to 1, with a point (`1.0e-5`)")
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return true or false."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self.fault(name, _shorten(value), allowed="true | false")
        return value

    def items(self, name: str) -> tuple[Json, ...]:
        """Return a list of any values, empty if the field is absent."""
        value = self.values.get(name, [])
        if not isinstance(value, list):
            raise self.fault(name, _shorten(value), allowed="a list")
        return tuple(value)

    def mapping(self, name: str) -> Mapping[str, Json]:
        """Return a mapping, empty if the field is absent."""
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            raise self.fault(name, _shorten(value), allowed="a mapping")
        return value

    def inner(self, name: str, values: Json) -> "Fields":
        """Return typed access to a mapping inside this one."""
        if not isinstance(values, dict):
            raise self.fault(name, _shorten(values), allowed="a mapping")
        return Fields(values, self.origin, self.entry, f"{self.prefix}{name}.")


def read_rows(rows: Json, *, origin: str, what: str, read: Callable[[Fields], Row]) -> list[Row]:
    """Return what ``read`` makes of every row of a section; messages name a row by its field ``name``."""
    if not isinstance(rows, list):
        raise UserError(f"`{origin}`, section of each {what}: got `{_shorten(rows)}`; allowed: a list.")
    results = []
    for position, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise UserError(f"`{origin}`, {what} {position}: got `{_shorten(row)}`; allowed: a mapping.")
        label = row.get("name", position)
        results.append(read(Fields(row, origin, f"{what} `{label}`")))
    return results


def _shorten(value: object) -> str:
    # A value may be a whole section; the message must stay one short line.
    return "nothing" if value is None else str(value)[:60]
