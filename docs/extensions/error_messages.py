"""The messages of errors, as they stand in the code."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "passsearch"
# Not `WorkerDied`, which becomes the failure of a candidate.
EXIT_STATUS = {
    "UserError": "2",
    "WrongImport": "2",
    "EnvironmentFault": "3",
    "PassSearchError": "1",
    "as_error": "2, or 3 where the machine failed",
}
VARIABLE = "…"


@dataclass(frozen=True)
class Message:
    """The message of an error.

    Attributes:
        module: Path of the module that raises it, relative to the package.
        text: The message, with ``…`` for what differs from case to case.
        exit_status: Exit status of a command that ends with it.
    """

    module: str
    text: str
    exit_status: str

    def matches(self, pattern: str) -> bool:
        """Return whether a pattern names this message: a path, or a path, ``:`` and text, with ``*`` and ``?``."""
        path, _, text = pattern.partition(":")
        return fnmatchcase(self.module, path) and fnmatchcase(self.text, f"*{text.replace('_', ' ')}*")


@cache
def messages() -> tuple[Message, ...]:
    """Return the messages of all errors, but for those whose whole text comes from elsewhere."""
    found = {message for path in sorted(PACKAGE.rglob("*.py")) for message in _messages(path)}
    return tuple(sorted(found, key=lambda message: (message.module, message.text)))


def messages_markdown(*patterns: str) -> str:
    """Return a list of the messages that one of the patterns names, with their exit statuses."""
    rows = {message.text: message for message in messages() if any(map(message.matches, patterns))}
    # A code span keeps backticks if it has more of them, and a space, at its ends.
    return "\n".join(f"* `` {' '.join(text.split())} `` (exit status {rows[text].exit_status})" for text in rows)


def _messages(path: Path) -> Iterator[Message]:
    module = str(path.relative_to(PACKAGE))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in EXIT_STATUS and node.args:
            text = _text(node.args[0])
            if any(map(str.isalpha, text)):
                yield Message(module, text, EXIT_STATUS[name])


def _text(node: ast.expr) -> str:
    """Return the text of an expression, with ``…`` for every part that is no constant."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(_text, values))
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case _:
            return VARIABLE
