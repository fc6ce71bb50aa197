"""``examples``: the example files that passsearch comes with."""

import ast
import json
import shutil
from pathlib import Path
from typing import Annotated

import typer

from passsearch.cli.options import AsJson
from passsearch.cli.output import print_note, print_result
from passsearch.errors import UserError

# In a checkout a link to its folder of examples, of which a wheel has a copy.
FOLDER = Path(__file__).parents[1] / "examples"


def examples(
    *,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Copy all of them into this folder, which may be new.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the example scripts, passes and notebooks, or copy them."""
    from passsearch.report import examples_text

    files = sorted(path for path in FOLDER.iterdir() if path.is_file())
    rows = [{"name": path.name, "summary": _summary(path)} for path in files]
    if to is not None:
        _copy(files, to)
    print_result({"examples": rows}, examples_text(rows), as_json=as_json)


def _summary(path: Path) -> str:
    """Return the first line of a script's docstring, a notebook's title, or the first comment of another file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    elif path.suffix == ".ipynb":
        text = "".join(json.loads(text)["cells"][0]["source"])
    return text.partition("\n")[0].lstrip("# ").rstrip(".")


def _copy(files: list[Path], folder: Path) -> None:
    """Copy files into a folder.

    Raises:
        UserError: The folder has one of them already, or cannot be written.
    """
    if existing := [path.name for path in files if (folder / path.name).exists()]:
        raise UserError(f"`{folder}` already has `{existing[0]}`, which is not overwritten; choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in files:
            shutil.copyfile(path, folder / path.name)
    except OSError as error:
        raise UserError(f"Cannot write `{folder}`: {error.strerror}; choose another folder.") from None
    print_note(f"wrote {len(files)} files to {folder}")
