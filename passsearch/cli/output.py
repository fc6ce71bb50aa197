"""Printing: results to standard output, everything else to standard error."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from passsearch.core import printable
from passsearch.errors import UserError

NEGATIVE = 1
"""Exit status of a command that worked and whose answer is no."""

UNDECIDED_STATUS, UNCONFIRMED_STATUS = 4, 5
"""Exit status of a search whose measurements leave the answer open, and of one that had no time to confirm a winner."""


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


def require_writable(*paths: Path) -> None:
    """Raise an error if one of the files cannot be written."""
    for path in paths:
        folder = path.absolute().parent
        if path.is_dir():
            raise UserError(f"Cannot write `{path}`: it is a folder; name a file in it.")
        if not folder.is_dir():
            raise UserError(
                f"Cannot write `{path}`: there is no folder `{path.parent}`; make it or choose another file."
            )
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise UserError(f"Cannot write `{path}`: permission denied; choose another file.")


def write_text(path: Path, text: str) -> None:
    """Write a file and print a note about it.

    Raises:
        UserError: The file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write `{path}`: {error.strerror}; choose another file.") from None
    print_note(f"wrote {path}")
