"""Printing: results to standard output, everything else to standard error."""

import json
from collections.abc import Mapping
from typing import Any

import typer

from passsearch.core import printable

NEGATIVE = 1
"""Exit status of a command that worked and whose answer is no."""


def print_result(document: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print a result, as one JSON document or as text."""
    # NaN is not JSON, and strict parsers refuse the whole document for it: better an error here.
    typer.echo(json.dumps(document, indent=1, allow_nan=False) if as_json else printable(text.rstrip("\n"), keep="\n"))


def print_note(line: str) -> None:
    """Print a line that is not part of the result."""
    typer.echo(printable(line), err=True)


def print_error(message: str) -> None:
    """Print an error in one line."""
    # One line with a fixed beginning, so that it is found in the log of a batch job.
    print_note(f"error: {' '.join(message.split())}")


def split_names(text: str | None) -> list[str] | None:
    """Return the names of ``A,B``; ``None`` stays ``None``."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
