"""Names of files and folders that are made from names in files of other people."""

import hashlib
import re
from pathlib import Path

LONGEST = 60
"""Most characters of a text that its file name repeats."""

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


def safe_file_name(text: str) -> str:
    """Return a file name for any text; it names a file in the folder it is joined to, and in no other.

    A plain text is its own file name. Others get a digest at the end, so that different texts have different names.
    """
    readable = _NOT_PLAIN.sub("_", text).strip("._")[:LONGEST]
    if readable and readable == text:
        return text
    # A name in a JSON file may have half a character (a surrogate), which is no UTF-8.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{readable or 'unnamed'}-{digest[:8]}"


def expand_home(path: str | Path) -> Path:
    """Return a path with the home folder in place of ``~``; that of a user who does not exist stays as it is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
