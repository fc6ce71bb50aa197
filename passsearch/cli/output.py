"""What goes to standard output and to standard error."""

import json
from collections.abc import Mapping
from typing import Any

import typer


def show(document: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print a result: one JSON document, or the text for people."""
    typer.echo(json.dumps(document, indent=1, allow_nan=False) if as_json else text.rstrip("\n"))


def note(line: str) -> None:
    """Say something beside the result."""
    typer.echo(line, err=True)


def complain(message: str) -> None:
    """Say what went wrong, on one line."""
    note(f"error: {' '.join(message.split())}")


def listed(text: str | None) -> list[str] | None:
    """``A,B`` as names; ``None`` stays ``None``."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
