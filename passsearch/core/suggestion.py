"""Suggestions for mistyped names, for error messages."""

import difflib
from collections.abc import Iterable


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean `X`?`` for the name most like a mistyped one, or an empty text if none is similar."""
    # Wrong case is the most frequent mistake, and difflib counts every such letter as a difference.
    spellings = {spelling.lower(): spelling for spelling in names}
    matches = difflib.get_close_matches(name.lower(), spellings, n=1)
    return f"did you mean `{spellings[matches[0]]}`?" if matches else ""
