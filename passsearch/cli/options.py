"""Arguments and options that several commands share."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, cast

import typer

from passsearch.core import NUMBERS, OPTIONS, PRECISIONS, limit_or_none, read_inputs

R = TypeVar("R")

Shared: TypeAlias = dict[str, Any]
"""Values of shared options by the name of the API's argument; see ``share_options``."""

NETWORK = ("inputs", "batch", "function", "sizes", "keep_symbolic")
"""Options that say which network is meant where its file leaves that open."""

WORKERS = ("deadline", "memory", "catalogs", "trust")
"""Options of the compiler processes and of the code that they may run."""

ALL = ("target", "toolchain", "tolerance", "reference", *NETWORK, "samples", *WORKERS)
"""Options of commands that build a network, compare its outputs and time it."""

_REPEATED: Mapping[str, str] = {"inputs": "--input", "sizes": "--sizes", "catalogs": "--catalog"}
"""Options that may be given several times, with the word for one."""

_TYPES: Mapping[str, Any] = {
    "inputs": list[str],
    "sizes": list[str],
    "catalogs": list[Path],
    "samples": Path,
    "batch": int,
    **dict.fromkeys(("tolerance", "deadline", "memory"), float),
    **dict.fromkeys(("keep_symbolic", "trust"), bool),
}
"""Types of the options whose values are no texts."""


def number_option(argument: str, *, metavar: str, text: str) -> Any:
    """Return an option with the range of the API's argument of the same name, so that both refuse the same values."""
    rule = NUMBERS[argument]
    return typer.Option(min=rule.least, max=limit_or_none(rule.most), metavar=metavar, help=text)


def option(name: str) -> Any:
    """Return the option of this name, as ``OPTIONS`` states it."""
    stated = OPTIONS[name]
    if name in NUMBERS:
        return number_option(name, metavar=stated.metavar, text=stated.text)
    if stated.is_flag:
        return typer.Option(f"--{name.replace('_', '-')}", help=stated.text)
    if name in _REPEATED:
        text = f"{stated.text.removesuffix('.')}; repeatable."
        return typer.Option(_REPEATED[name], metavar=stated.metavar, help=text)
    return typer.Option(metavar=stated.metavar, help=stated.text)


def share_options(*names: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator of a command with a parameter ``shared``: it gets the values of these options.

    In place of the parameter, the command has the options, with the types and defaults of the API's arguments.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(command)

        @wraps(command)
        def run(**arguments: Any) -> R:
            given = {name: arguments.pop(name) for name in names}
            shared: Shared = {
                name: OPTIONS[name].default if value in (None, []) else value for name, value in given.items()
            }
            if "inputs" in shared:
                shared["inputs"] = read_inputs(shared["inputs"])
            return command(**arguments, shared=shared)

        parameters = []
        for parameter in signature.parameters.values():
            parameters += [*map(_parameter, names)] if parameter.name == "shared" else [parameter]
        # What typer reads in place of the wrapper's own.
        vars(run)["__signature__"] = signature.replace(parameters=parameters)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _parameter(name: str) -> inspect.Parameter:
    default, annotated = OPTIONS[name].default, cast(Any, Annotated)
    # No value at all is None for typer, and a list that is empty for some of its releases.
    default = None if name in _REPEATED else default
    value: Any = _TYPES.get(name, str)
    annotation = annotated[value if default is not None else value | None, option(name)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


Model: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="File or folder of the network, or zoo:NAME[@batch] for a built-in one."),
]
Run: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder that `tune --out` made.")]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, and nothing else on standard output.")
]
ToolchainName: TypeAlias = Annotated[str | None, option("toolchain")]
Catalogs: TypeAlias = Annotated[list[Path] | None, option("catalogs")]
Trust: TypeAlias = Annotated[bool, option("trust")]
Timeout: TypeAlias = Annotated[float | None, option("timeout")]
RivalNames: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--rivals",
        metavar="A,B",
        help="Engines to compare with, or `none`; by default those that are installed.",
    ),
]
Precision: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="|".join(PRECISIONS),
        help="`weights` stores each layer's weights in fewer bits where that is faster and `--budget` allows it; "
        "`mixed` also rounds what they are multiplied with. `tf32` multiplies float32 so on GPUs from sm_80 on.",
    ),
]
Budget: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="N|top1:N|accuracy:N",
        help="What fewer bits may change: outputs by a share of the largest, the class of a share of rows, or the "
        "share that is right by `--labels`.",
    ),
]
Labels: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="NumPy file (.npy, or `labels` of an .npz) with the class of each sample."),
]
ReferenceOfBits: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--same-bits",
        metavar="REFERENCE",
        help="Keep every bit of the outputs of `default`, `recommended`, a run folder or an export folder.",
    ),
]
Fresh: TypeAlias = Annotated[
    bool, typer.Option("--fresh", help="Neither use nor store the facts that runs share in the cache folder.")
]
