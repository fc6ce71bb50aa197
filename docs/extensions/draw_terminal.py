"""Draw a terminal: ``tmux capture-pane -p -e | python docs/extensions/draw_terminal.py FILE.svg``.

It draws ``docs/guide/terminal-progress.svg``.
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def draw(text: str, *, title: str, width: int = 100) -> str:
    """Return an SVG of a text with the terminal's control sequences."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text.rstrip("\n")))
    svg = console.export_svg(title=title)
    # A page must not load fonts from elsewhere; every machine has some monospaced one.
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(sys.stdin.read(), title="passsearch tune"), encoding="utf-8")
