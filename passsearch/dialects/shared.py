"""Code that the bridges of both dialects share. Loaded only in a worker, where a TVM is installed."""

from collections.abc import Callable
from typing import Any

import tvm

from passsearch.dialects.linker import find_linker
from passsearch.errors import EnvironmentFault, UserError

MESSAGE_LENGTH = 300
"""Longest text in characters that is kept of a compiler's error."""

_STACK_LINES = ("File ", "[bt]", "Stack trace", "---", "^")


def error_line(error: BaseException) -> str:
    """Return the line of a compiler error that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # TVM's messages open with a C++ stack trace; the reason comes last.
    reasons = [line for line in lines if not line.startswith(_STACK_LINES)]
    return (reasons or lines or [type(error).__name__])[-1][:MESSAGE_LENGTH]


def require_linker() -> str:
    """Return the path of the C compiler that links kernels.

    Raises:
        EnvironmentFault: This machine has no C compiler.
    """
    try:
        return find_linker()
    except FileNotFoundError as error:
        raise EnvironmentFault(str(error)) from error


def parse_target(text: str, *, parse: Callable[[str], Any], errors: tuple[type[Exception], ...]) -> tvm.target.Target:
    """Return TVM's target object for a target text.

    Args:
        text: The target as the user wrote it.
        parse: Function that makes the object; TVM's versions differ in the spellings they accept.
        errors: Exceptions that ``parse`` raises for a text it does not accept.

    Raises:
        UserError: This TVM does not know the target, or was built without a code generator for it.
    """
    try:
        target = parse(text)
    except errors as error:
        raise UserError(f"Impossible target `{text}`: {error_line(error)}") from error
    kind = str(target.kind.name)
    if tvm.get_global_func(f"target.build.{kind}", allow_missing=True) is None:
        raise UserError(f"Impossible target `{text}`: this TVM is built without `{kind}`. See: passsearch doctor")
    return target
