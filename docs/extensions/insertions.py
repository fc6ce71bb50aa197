"""Sphinx extension: parts of pages that are generated from the code, the catalog and other files of the repository.

A page names them in a comment, ``<!-- insert: NAME ARGUMENTS -->``, which does not show where the page is read as a
file.
"""

import re
from collections.abc import Callable
from os.path import relpath
from pathlib import Path
from typing import Any

from catalog_reference import catalog_markdown
from command_reference import commands_markdown
from error_messages import messages_markdown
from record_reference import records_markdown

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_MARK = re.compile(r"<!-- insert: (\w+) ?(.*?) -->", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^]]*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")

# Files that a page of another name shows whole.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}


def file_markdown(name: str) -> str:
    """Return a file of the repository with its links as seen from ``docs/``."""
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    return _LINK.sub(lambda link: f"[{link[1]}]({relpath(path.parent / link[2], DOCS)}{link[3] or ''})", text)


GENERATORS: dict[str, Callable[..., str]] = {
    "catalog": catalog_markdown,
    "commands": commands_markdown,
    "file": file_markdown,
    "messages": messages_markdown,
    "records": records_markdown,
}


def complete(text: str, folder: Path) -> str:
    """Return the Markdown of a page with its generated parts, and with links to pages instead of files outside.

    Args:
        text: The page.
        folder: Its folder.
    """
    whole = _MARK.sub(lambda mark: GENERATORS[mark[1]](*mark[2].split()), text)
    return _LINK.sub(lambda link: _link(link, folder), whole)


def _link(link: re.Match[str], folder: Path) -> str:
    path = (folder / link[2]).resolve()
    inside = relpath(path, ROOT)
    if page := PAGES.get(inside):
        return f"[{link[1]}]({relpath(DOCS / page, folder)}{link[3] or ''})"
    # The site has no folders and no other pages of the repository; their place is named instead.
    elsewhere = path.is_dir() or (path.suffix == ".md" and not path.is_relative_to(DOCS))
    return f"{link[1]} (`{inside}`)".replace(f"{inside} (`{inside}`)", f"`{inside}`") if elsewhere else link[0]


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""

    def read(app: Any, name: str, content: list[str]) -> None:
        content[0] = complete(content[0], Path(app.env.doc2path(name)).parent)

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
