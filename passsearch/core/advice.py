"""The advice of an error in the words of its caller: options on the command line, arguments in Python."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ON_COMMAND_LINE = ContextVar("ON_COMMAND_LINE", default=False)

ARGUMENTS = {"input": "inputs", "catalog": "catalogs"}
"""Arguments of functions that have other names than the options."""

FLAGS = frozenset({"trust", "keep-symbolic", "replay", "minimal"})

_COMMAND = re.compile(
    r"\b(?:passsearch [a-z]|pip |python[0-9.]* |conda |apt|nvidia-smi|squeue)[^;)]*?(?=[;)]|\. |\.?$)"
)
"""A command within a text, whose options stay as they are."""

_OPTION = re.compile(
    r"--(?P<name>[a-z][a-z-]*)"
    r"(?P<value> (?:[A-Z]+(?:\.[a-z]+)?\b|\d+\b|import\b|(?<=--function )\w+"
    r"|[^\s;,()`]*[\d:\[…][^\s;()`]*[^\s;,.()`]))?"
    r"(?: \([a-z_]+=[^)]*\))?"
)
"""An option with its value, and the argument of the same meaning where the text names that as well."""


@contextmanager
def on_command_line() -> Iterator[None]:
    """Have errors speak of options while a command runs, in a process that may call functions afterwards."""
    token = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(token)


def is_on_command_line() -> bool:
    """Return True while a command runs."""
    return _ON_COMMAND_LINE.get()


def in_python(text: str) -> str:
    """Return a text with arguments of functions in place of options of the command line.

    >>> in_python("Input `x` has open sizes; give them, for example: --input x:float32[1,3]")
    'Input `x` has open sizes; give them, for example: inputs="x:float32[1,3]"'
    >>> in_python("choose another folder (--out). See: passsearch tune --out RUN")
    'choose another folder (out=). See: passsearch tune --out RUN'
    """
    parts, end = [], 0
    for command in _COMMAND.finditer(text):
        parts += [_OPTION.sub(_argument, text[end : command.start()]), command.group()]
        end = command.end()
    return "".join([*parts, _OPTION.sub(_argument, text[end:])])


def install_command(extra: str) -> str:
    """Return the command that installs an extra of passsearch, which is in no package index."""
    return f"pip install -e '.[{extra}]' in a checkout of passsearch"


def _argument(option: re.Match[str]) -> str:
    name = ARGUMENTS.get(option["name"], option["name"].replace("-", "_"))
    if option["name"] in FLAGS:
        return f"{name}=True{option['value'] or ''}"
    value = (option["value"] or "").strip()
    if not value:
        return f"{name}="
    return f"{name}={value}" if value.isdigit() or value == "N" else f'{name}="{value}"'
