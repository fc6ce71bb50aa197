"""Tables as plain text that keeps to a width."""

import shutil
from collections.abc import Sequence
from io import StringIO
from textwrap import fill

NARROWEST, WIDEST, UNKNOWN = 72, 132, 120


def text_width() -> int:
    """Columns of the terminal (or ``$COLUMNS``) within what reads well."""
    return min(max(shutil.get_terminal_size((UNKNOWN, 24)).columns, NARROWEST), WIDEST)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, right: Sequence[str] = ()) -> str:
    """A table without frame; cells wrap where it would be wider than ``width``.

    Args:
        heads: Titles of the columns.
        rows: Cells, one per column.
        width: Characters a line may have.
        right: Titles of the columns that are set flush right.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for head in heads:
        grid.add_column(Text(head), justify="right" if head in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    sink = StringIO()
    Console(file=sink, width=width, color_system=None, force_terminal=False, _environ={}).print(grid)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines())


def paragraph(head: str, text: str, *, width: int) -> str:
    """``head: text`` wrapped, further lines indented; words are never broken, so that they can be copied."""
    whole = f"{head}: {text}" if head else text
    return fill(whole, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
