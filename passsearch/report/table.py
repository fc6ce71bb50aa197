"""Plain-text tables and paragraphs that fit a line width."""

import re
import shutil
from collections.abc import Iterable, Sequence
from io import StringIO
from textwrap import fill
from typing import Any, Literal

from passsearch.report.formatting import MISSING

BREAK = "\x1f"
"""A control character that rich takes for a space without a width."""

GAP = 2
"""Columns between two columns of a table."""

NARROWEST, LONGEST_WORD, LONGEST_NAME = 8, 32, 50
"""Least width of a column whose words are broken, longest word that is not, and the same of the first column."""

MIN_WIDTH, MAX_WIDTH, DEFAULT_WIDTH = 72, 132, 120


def text_width() -> int:
    """Return the terminal's columns (or ``$COLUMNS``), between 72 and 132; 120 where there is no terminal."""
    columns = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    return min(max(columns, MIN_WIDTH), MAX_WIDTH)


def table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
    longest_word: int = LONGEST_WORD,
) -> str:
    """Return a table without a frame; cells wrap if the table would be wider than ``width``.

    Args:
        titles: Titles of the columns.
        rows: Rows of cells, one cell per column.
        width: Largest number of characters in a line.
        right: Titles of the columns that are aligned to the right.
        whole: Titles of the columns whose cells stay in one line as long as others can wrap, such as names that are
            copied.
        longest_word: Longest word that is not broken.
    """
    # Imported here: `passsearch --help` must not pay for rich, which takes longer to import than all of the CLI.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    is_whole = [title in whole for title in titles]
    # Where words do not fit, names are broken after a hyphen or a stroke before any is broken elsewhere.
    for separators in (",", ",/-"):
        heads, *cells = [[_breakable(text, separators) for text in row] for row in (titles, *rows)]
        columns = list(zip(heads, *cells, strict=True))
        least = _least_widths(columns, is_whole, longest_word)
        if sum(least) + GAP * (len(columns) - 1) <= width:
            break
    widths = _column_widths(columns, least, width=width)
    for title, head, column_width in zip(titles, heads, widths, strict=True):
        justify: Literal["left", "right"] = "right" if title in right else "left"
        grid.add_column(Text(head), justify=justify, overflow="fold", no_wrap=title in whole, width=column_width)
    for row in cells:
        # Wrapped in Text, because rich would read `[…]` in a plain string (an interval, a shape) as markup.
        grid.add_row(*map(Text, row))
    sink = StringIO()
    # An empty environment, so that $COLUMNS or $FORCE_COLOR cannot overrule the width and the plain text. In a
    # notebook, rich would display the table as output of the cell instead of writing it to the file.
    plain: dict[str, Any] = {"color_system": None, "force_terminal": False, "force_jupyter": False, "_environ": {}}
    Console(file=sink, width=width, **plain).print(grid)
    return "\n".join(line.replace(BREAK, "").rstrip() for line in sink.getvalue().splitlines())


def table_of_words(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, right: Sequence[str] = ()
) -> str:
    """Return a table that breaks no word, or a paragraph for each row where the words do not fit side by side.

    A paragraph begins with the first cell, and leaves out cells without a value.
    """
    columns = zip(titles, *rows, strict=True)
    least = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    if sum(least) + GAP * (len(titles) - 1) <= width:
        return table(titles, rows, width=width, right=right, longest_word=width)
    paragraphs = []
    for first, *cells in rows:
        parts = [f"{title} {cell}" for title, cell in zip(titles[1:], cells, strict=True) if cell not in ("", MISSING)]
        paragraphs.append(paragraph(first, "; ".join(parts), width=width))
    return "\n".join(paragraphs)


def _least_widths(columns: Sequence[Sequence[str]], whole: Sequence[bool], longest_word: int) -> list[int]:
    """Return the widths at which no word is broken, but those longer than ``longest_word`` or ``LONGEST_NAME``."""
    words = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    limits = [max(longest_word, LONGEST_NAME), *[longest_word] * (len(columns) - 1)]
    return [
        max(map(len, column)) if is_whole else min(word, limit)
        for column, is_whole, word, limit in zip(columns, whole, words, limits, strict=True)
    ]


def _column_widths(columns: Sequence[Sequence[str]], least: Sequence[int], *, width: int) -> list[int | None]:
    """Return widths at which cells are broken between words only; ``None`` where all fits.

    Columns that want little more than the least get that, and the others share the rest equally. Where words do not fit
    either, those of the last columns are broken: the first one has the names.
    """
    widths, longest = [*least], [max(map(len, column)) for column in columns]
    room = width - GAP * (len(columns) - 1) - sum(widths)
    for place in reversed(range(1, len(columns))):
        cut = max(0, min(-room, widths[place] - NARROWEST))
        widths[place], room = widths[place] - cut, room + cut
    wanted = [max(0, most - own) for most, own in zip(longest, widths, strict=True)]
    if room < 0 or room >= sum(wanted):
        return [None] * len(columns)
    for number, place in enumerate(sorted(range(len(columns)), key=wanted.__getitem__)):
        share = min(wanted[place], room // (len(columns) - number))
        widths[place], room = widths[place] + share, room - share
    return [*widths]


def _breakable(text: str, separators: str) -> str:
    """Return a text that may be broken after separators, such as the commas of a pipeline, and not within a name."""
    return re.sub(rf"([{separators}])(?=[A-Za-z])", rf"\1{BREAK}", text)


def paragraph(title: str, text: str, *, width: int) -> str:
    """Return ``title: text``, wrapped and with continuation lines indented.

    Words are never broken, so that a pipeline or a path can be copied from the terminal.
    """
    whole = f"{title}: {text}" if title else text
    return fill(whole, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def paragraph_lines(lines: Iterable[tuple[str, str]], *, width: int) -> str:
    """Return a paragraph for every title and text, one below the other."""
    return "\n".join(paragraph(title, text, width=width) for title, text in lines)
