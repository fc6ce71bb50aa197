"""The check of an API function's arguments, and the texts of its shared options in its docstring."""

import errno
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from passsearch.core.advice import in_python, is_on_command_line
from passsearch.core.messages import suggest_name
from passsearch.core.options import OPTIONS, RULES
from passsearch.errors import EnvironmentFault, PassSearchError, UserError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Numbers of the system's errors for a full disk, or a full share of it."""

P = ParamSpec("P")
R = TypeVar("R")


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments before it does anything, and its options in its docstring.

    Raises:
        UserError: There is no such argument, one is missing, or it has a value that its rule does not allow.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def check_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UserError(_call_fault(function.__name__, signature, names=kwargs, error=error)) from None
        for name, value in bound.arguments.items():
            if name in RULES and value is not signature.parameters[name].default:
                bound.arguments[name] = RULES[name].accept(name, value)
        with _for_caller():
            return function(*bound.args, **bound.kwargs)

    check_and_call.__doc__ = with_options(function.__doc__ or "", signature.parameters)
    return check_and_call


def with_options(text: str, parameters: Iterable[str]) -> str:
    """Return a docstring in whose ``Args`` stand the shared options too, in the order of the parameters.

    An entry of its own says of an option what is true of this function only.
    """
    before, heading, rest = inspect.cleandoc(text).partition("\nArgs:\n")
    if not heading:
        return text
    own, blank, after = rest.partition("\n\n")
    entries = {entry.strip().partition(":")[0]: entry for entry in re.split(r"\n(?=    \w)", own)}
    entries |= {name: _entry(name) for name in parameters if name in OPTIONS and name not in entries}
    ordered = [entries[name] for name in parameters if name in entries]
    return f"{before}{heading}" + "\n".join(ordered) + f"{blank}{after}"


def _entry(name: str) -> str:
    return textwrap.fill(f"{name}: {OPTIONS[name].description}", 116, initial_indent=" " * 4, subsequent_indent=" " * 8)


@contextmanager
def _for_caller() -> Iterator[None]:
    """Put errors into the words of the caller, and say of a full disk what it is.

    Raises:
        EnvironmentFault: The disk is full.
    """
    try:
        yield
    except PassSearchError as error:
        if not is_on_command_line():
            error.args = (in_python(str(error)), *error.args[1:])
        raise
    except OSError as error:
        if error.errno not in FULL:
            raise
        place = f", on which `{error.filename}` is," if error.filename else ""
        raise EnvironmentFault(
            f"The disk{place} is full; make room, and the same call goes on with what was measured. "
            "See: passsearch doctor"
        ) from error


def _call_fault(function: str, signature: inspect.Signature, *, names: Iterable[str], error: TypeError) -> str:
    """Return what is wrong with the arguments of a call, of which some have these names."""
    parameters = list(signature.parameters)
    unknown = next((name for name in names if name not in parameters), None)
    # Python's own text says what is missing or stands there twice.
    fault = f"`{function}`: {error}" if unknown is None else f"`{function}` has no argument `{unknown}`"
    hint = suggest_name(unknown, parameters) if unknown else ""
    return f"{fault}{f'; {hint}' if hint else '.'} Its arguments are: {', '.join(parameters)}"
