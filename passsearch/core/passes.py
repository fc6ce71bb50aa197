"""Passes and pipelines as values that print and parse."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from passsearch.core.budget import TF32
from passsearch.errors import UserError

NARROWING, EXACT = "NarrowWeights", "exact"
"""Name of the pass that stores weights in fewer bits, and its storage that keeps all numbers as they are."""

PRECISION = "precision"
"""Parameter of a pass: what factors in float32 are multiplied as."""

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class PassSpec:
    """One compiler pass with its bound arguments; all other parameters keep the compiler's defaults.

    Attributes:
        name: Name of the pass in the catalog of its dialect.
        arguments: ``(name, JSON text)`` pairs, sorted by name.
    """

    name: str
    # JSON texts instead of values: specs are dictionary keys and members of sets, and lists do not hash.
    arguments: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, /, **arguments: Json) -> "PassSpec":
        """Build a spec from arguments that are plain JSON values."""
        return cls(name, tuple(sorted((key, _compact(value)) for key, value in arguments.items())))

    @property
    def argument_values(self) -> dict[str, Json]:
        """The arguments as plain JSON values, by name."""
        return {key: json.loads(text) for key, text in self.arguments}

    @property
    def narrows(self) -> bool:
        """True for a pass that rounds weights to fewer bits."""
        return self.name == NARROWING and self.argument_values != {"storage": EXACT}

    @property
    def is_in_tf32(self) -> bool:
        """True for a pass by which tensor cores multiply float32 as TF32."""
        return self.argument_values.get(PRECISION) == TF32

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        return self.name + "{" + ",".join(f"{key}={text}" for key, text in self.arguments) + "}"


@dataclass(frozen=True)
class Pipeline:
    """A sequence of passes, in the order they are applied. ``str`` and ``parse`` are inverse."""

    passes: tuple[PassSpec, ...] = ()

    def __str__(self) -> str:
        return ",".join(str(step) for step in self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    @classmethod
    def parse(cls, text: str) -> "Pipeline":
        """Read the text form ``Name,Name{key=json,…},…``.

        Raises:
            UserError: The text is not of that form; the message gives the first character that does not fit.
        """
        passes, position = [], 0
        while position < len(text):
            step, position = _parse_step(text, position)
            passes.append(step)
        return cls(tuple(passes))

    @property
    def narrows(self) -> bool:
        """True if a pass rounds weights to fewer bits, for which an error budget is."""
        return any(step.narrows for step in self.passes)

    @property
    def is_in_tf32(self) -> bool:
        """True if tensor cores multiply float32 as TF32."""
        return any(step.is_in_tf32 for step in self.passes)

    def to_json(self) -> list[Json]:
        """Return ``[{"name": …, "arguments": {…}}, …]``, as pipeline files store it."""
        return [{"name": step.name, "arguments": step.argument_values} for step in self.passes]

    @classmethod
    def from_json(cls, steps: list[Mapping[str, Json]]) -> "Pipeline":
        """Read what ``to_json`` returns.

        Raises:
            UserError: A step has no name, or its arguments are not a mapping.
        """
        return cls(tuple(_step_from_json(step) for step in steps))


def _step_from_json(step: Mapping[str, Json]) -> PassSpec:
    arguments = step.get("arguments") or {}
    if not isinstance(step.get("name"), str) or not isinstance(arguments, dict):
        raise UserError(f"A pass needs a name and a mapping of arguments; got `{dict(step)}`.")
    return PassSpec.of(str(step["name"]), **arguments)


def _compact(value: Json) -> str:
    # Sorted keys and no spaces give one text per value, so that equal specs compare equal.
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _parse_step(text: str, start: int) -> tuple[PassSpec, int]:
    """Read one pass that begins at a character; return it and the character where the next pass begins."""
    end = start
    while end < len(text) and text[end] not in ",{":
        end += 1
    name = text[start:end].strip()
    # Names have dots, as in `dlight.gpu.Matmul`.
    if not name.replace("_", "").replace(".", "").isalnum():
        raise _syntax_error(text, start)
    arguments: dict[str, Json] = {}
    if end < len(text) and text[end] == "{":
        arguments, end = _parse_arguments(text, end + 1)
    if end < len(text) and text[end] != ",":
        raise _syntax_error(text, end)
    # A comma at the very end promises a pass that does not follow.
    if end == len(text) - 1:
        raise _syntax_error(text, end)
    return PassSpec.of(name, **arguments), end + 1


def _parse_arguments(text: str, position: int) -> tuple[dict[str, Json], int]:
    arguments: dict[str, Json] = {}
    while True:
        equals = text.find("=", position)
        if equals < 0:
            raise _syntax_error(text, position)
        try:
            # A JSON value may contain commas and braces itself, so only a JSON decoder finds its end.
            value, end = json.JSONDecoder().raw_decode(text, equals + 1)
        except (json.JSONDecodeError, RecursionError):
            raise _syntax_error(text, equals + 1) from None
        arguments[text[position:equals].strip()] = value
        if text[end : end + 1] == "}":
            return arguments, end + 1
        if text[end : end + 1] != ",":
            raise _syntax_error(text, end)
        position = end + 1


def _syntax_error(text: str, position: int) -> UserError:
    rest = text[position : position + 40]
    # Only inside braces can a text end too early: elsewhere a comma is what cannot be read.
    mistake = f"cannot read `{rest}` at character {position + 1}" if rest else f"`{text}` ends without its `}}`"
    return UserError(f"A pipeline reads `Name,Name{{key=json}},…`; {mistake}. See: passsearch catalog list")


def parse_json(text: str | bytes) -> Any:
    """Return a JSON document.

    Raises:
        ValueError: The text is not JSON, or nested more deeply than Python can read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
