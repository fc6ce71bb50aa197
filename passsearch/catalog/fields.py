"""Read one field of a catalog file; a mistake is one line: file, entry, field, value got, values allowed."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

from passsearch.catalog.schema import nearest
from passsearch.core import Json
from passsearch.errors import UserError

FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
VERSIONS = re.compile(r"(>=|<|==)\d+(\.\d+)*(,(>=|<|==)\d+(\.\d+)*)*")


@dataclass(frozen=True)
class Fields:
    """One mapping of a catalog file, and where it stands.

    Attributes:
        values: The mapping as read.
        origin: The file.
        entry: What the mapping declares, as a message names it: ``pass `FuseOps` ``.
        prefix: Path from the entry to this mapping (``parameters.evaluator.``).
    """

    values: Mapping[str, Json]
    origin: str
    entry: str
    prefix: str = field(default="")

    def fault(self, name: str, got: object, *, allowed: str) -> UserError:
        """The error for one field."""
        return UserError(
            f"`{self.origin}`, {self.entry}, field `{self.prefix}{name}`: got `{got}`; allowed: {allowed}."
        )

    def only(self, known: Collection[str]) -> None:
        """Refuse fields that do not exist, so that a typo is never read as a default."""
        for name in self.values:
            if name not in known:
                hint = nearest(str(name), known)
                raise self.fault(str(name), "an unknown field", allowed=hint or ", ".join(known))

    def text(self, name: str, *, default: str | None = None) -> str:
        """A string that is not empty; required unless it has a default."""
        if default is not None and name not in self.values:
            return default
        value = self.values.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(name, _shown(value), allowed="a text")
        return " ".join(value.split())

    def matching(self, name: str, pattern: re.Pattern[str], *, allowed: str) -> str:
        """A required string of a given form."""
        value = self.values.get(name)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise self.fault(name, _shown(value), allowed=allowed)
        return value

    def one_of(self, name: str, allowed: Collection[str], *, default: str | None = None) -> str:
        """One word of a vocabulary."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in allowed:
            raise self.fault(name, _shown(value), allowed=" | ".join(allowed))
        return value

    def some_of(self, name: str, allowed: Collection[str]) -> tuple[str, ...]:
        """Words of a vocabulary, none if the field is absent."""
        words = self.texts(name)
        for word in words:
            if word not in allowed:
                raise self.fault(name, word, allowed=" | ".join(allowed))
        return words

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty if the field is absent."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.fault(name, _shown(value), allowed="a list of names")
        return tuple(cast("list[str]", value))

    def integer(self, name: str, *, low: int, high: int, default: int | None = None) -> int:
        """A whole number within bounds, both included."""
        value = self.values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.fault(name, _shown(value), allowed=f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, *, default: float) -> float:
        """A number from 0 to 1."""
        value = self.values.get(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise self.fault(name, _shown(value), allowed="a number from 0 to 1, with a point (`1.0e-5`)")
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self.fault(name, _shown(value), allowed="true | false")
        return value

    def items(self, name: str) -> tuple[Json, ...]:
        """A list of any values, empty if the field is absent."""
        value = self.values.get(name, [])
        if not isinstance(value, list):
            raise self.fault(name, _shown(value), allowed="a list")
        return tuple(value)

    def mapping(self, name: str) -> Mapping[str, Json]:
        """A mapping, empty if the field is absent."""
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            raise self.fault(name, _shown(value), allowed="a mapping")
        return value

    def inner(self, name: str, values: Json) -> "Fields":
        """A mapping below this one."""
        if not isinstance(values, dict):
            raise self.fault(name, _shown(values), allowed="a mapping")
        return Fields(values, self.origin, self.entry, f"{self.prefix}{name}.")


def read_each(rows: Json, *, origin: str, what: str, read: Callable[[Fields], None]) -> None:
    """Give every row of a section to its reader, named for messages by its ``name``."""
    if not isinstance(rows, list):
        raise UserError(f"`{origin}`, section of each {what}: got `{_shown(rows)}`; allowed: a list.")
    for position, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise UserError(f"`{origin}`, {what} {position}: got `{_shown(row)}`; allowed: a mapping.")
        label = row.get("name", position)
        read(Fields(row, origin, f"{what} `{label}`"))


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)[:60]
