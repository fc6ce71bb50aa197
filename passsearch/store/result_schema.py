"""Whether a document is a result or an ablation: the types of its keys, by a JSON Schema."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 60
"""Longest text of a wrong value that a message repeats."""


RESULT_SCHEMA, ABLATION_SCHEMA = (Path(__file__).with_name(f"{what}_schema.json") for what in ("result", "ablation"))
"""Files with the schemas."""


def schema_problem(result: Mapping[str, Any], *, schema_file: Path = RESULT_SCHEMA) -> str:
    """Return the first key that is missing or has a wrong value, in words; empty if there is none."""
    # Imported here: it takes longer than all else that reads a result, and a search reads none.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    schema = json.loads(schema_file.read_text())
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
