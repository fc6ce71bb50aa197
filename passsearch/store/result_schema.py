"""Whether a document is a result or an ablation: the types of its keys, by a JSON Schema."""

import json
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 60
"""Longest text of a wrong value that a message repeats."""


RESULT_SCHEMA, ABLATION_SCHEMA = (Path(__file__).with_name(f"{what}_schema.json") for what in ("result", "ablation"))
"""Files with the schemas."""


def schema_problem(
    result: Mapping[str, Any], *, schema_file: Path = RESULT_SCHEMA, keys: Collection[str] | None = None
) -> str:
    """Return the first key that is missing or has a wrong value, in words; empty if there is none.

    Args:
        result: The document.
        schema_file: Its schema.
        keys: The only keys of the document to look at, which takes milliseconds where all take a tenth of a second.
    """
    # Imported here: it takes longer than all else that reads a result, and a search reads none.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    schema = _read_schema(schema_file)
    if keys is not None:
        schema = {**schema, "required": [key for key in schema["required"] if key in keys]}
        result = {key: value for key, value in result.items() if key in keys}
    error = best_match(Draft202012Validator(schema).iter_errors(result))
    if error is None:
        return ""
    place = error.json_path.removeprefix("$").removeprefix(".")
    message = error.message
    if error.validator == "required":
        return f"`{place}` lacks a key: {message}" if place else f"a key is missing: {message}"
    if len(message) > 2 * MOST_CHARACTERS:  # it begins with the value
        message = f"{message[:MOST_CHARACTERS]} … {message[-MOST_CHARACTERS:]}"
    return f"`{place}` is wrong: {message}"


@cache
def _read_schema(file: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(file.read_text())
    return schema
