"""What users are told: notices, steps of a search, moments, and names in texts."""

import difflib
import math
import re
from collections.abc import Iterable
from datetime import datetime, timezone

NOTICE_LOG = "passsearch.notice"
"""Name of the logger of notices; the command line prints them always."""


class Step(str):
    """A step in words, as a progress callback gets it, with what is known so far.

    Attributes:
        detail: The best candidate so far, the number of IRs and the failures, in words; empty if there are none.
        elapsed_s: Seconds that the run has lasted, earlier starts included; not a number where nobody counts them.
        limit_s: Time limit of the run; infinite without one.
    """

    detail: str
    elapsed_s: float
    limit_s: float

    def __new__(cls, text: str, *, detail: str = "", elapsed_s: float = math.nan, limit_s: float = math.inf) -> "Step":
        """Return a step; it is the text wherever a text is needed."""
        step = super().__new__(cls, text)
        step.detail, step.elapsed_s, step.limit_s = detail, elapsed_s, limit_s
        return step


def timestamp(time_s: float | None = None) -> str:
    """Return a time in seconds since 1970, now by default, as text in ISO 8601 and UTC."""
    moment = datetime.now(timezone.utc) if time_s is None else datetime.fromtimestamp(time_s, timezone.utc)
    return moment.isoformat(timespec="seconds")


def printable(text: str, *, keep: str = "") -> str:
    """Return a text in which characters that do not print are written out as Python escapes.

    Escape sequences of terminals, line ends and marks that reverse the direction of writing do not print. They could
    change what a terminal shows, or begin a line of their own.

    Args:
        text: The text.
        keep: Characters that stay, such as the line ends of a table.
    """
    return "".join(
        character if character.isprintable() or character in keep else character.encode("unicode_escape").decode()
        for character in text
    )


def suggest_name(name: str, names: Iterable[str], *, likeness: float = 0.6) -> str:
    """Return ``did you mean `X`?`` for the name most like a mistyped one, or an empty text if none is similar.

    Args:
        name: The mistyped name.
        names: The names that exist.
        likeness: Least share of letters in common, as of difflib.
    """
    # Wrong case is the most frequent mistake, and difflib counts every such letter as a difference.
    spellings = {spelling.lower(): spelling for spelling in names}
    matches = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=likeness)
    return f"did you mean `{spellings[matches[0]]}`?" if matches else ""


def first_sentence(text: str) -> str:
    """Return the first sentence of a message, which says what is wrong; the others say what to do."""
    return re.split(r"(?<=[.?])\s+(?=[A-Z`])", text, maxsplit=1)[0]
