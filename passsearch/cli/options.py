"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from passsearch.core import NUMBERS, limit_or_none


def number_option(argument: str, *, metavar: str, text: str) -> Any:
    """Return an option with the range of the API's argument of the same name, so that both refuse the same values."""
    rule = NUMBERS[argument]
    return typer.Option(min=rule.least, max=limit_or_none(rule.most), metavar=metavar, help=text)


Model: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="File or folder of the network, or zoo:NAME[@batch] for a built-in one."),
]
Run: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder that `tune --out` made.")]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, and nothing else on standard output.")
]
Target: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TARGET", help="TVM target; this machine's CPU by default.")
]
ToolchainName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--toolchain", metavar="NAME", help="Toolchain, as in `toolchain list`; by default the first in that list."
    ),
]
Catalogs: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--catalog", metavar="FILE", help="YAML file with your own passes; repeatable."),
]
Trust: TypeAlias = Annotated[
    bool, typer.Option("--trust", help="Run code that comes with a file; what it runs is printed first.")
]
Inputs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="name:dtype[shape]",
        help="Type and shape of an input that the file does not fix; repeatable.",
    ),
]
Batch: TypeAlias = Annotated[
    int | None, number_option("batch", metavar="N", text="Size of the first dimension, if the file does not fix it.")
]
Function: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Function of a compiler module to tune instead of main; several as NAME:WEIGHT,NAME:WEIGHT.",
    ),
]
Sizes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INPUT=SIZE:WEIGHT,…",
        help="Sizes of an open input with weights, ids=1x128:0.3,1x1024:0.7; repeatable for further inputs.",
    ),
]
KeepSymbolic: TypeAlias = Annotated[
    bool,
    typer.Option("--keep-symbolic", help="Compile one function whose sizes stay open; it is measured at --sizes."),
]
Samples: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="NumPy file (.npz) with an array for each input, or several in a leading dimension: outputs are checked "
        "on all, and the first is timed.",
    ),
]
Tolerance: TypeAlias = Annotated[
    float | None,
    number_option(
        "tolerance",
        metavar="SHARE",
        text="Allowed deviation of outputs, as a share of the largest value, for pipelines with a pass that may "
        "change numerics; by default as strict as for all other pipelines.",
    ),
]
Reference: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="source|import",
        help="What outputs are compared with: what the network's own framework computes, or the import as it is.",
    ),
]
Fresh: TypeAlias = Annotated[
    bool, typer.Option("--fresh", help="Neither use nor store the facts that runs share in the cache folder.")
]
Memory: TypeAlias = Annotated[
    float | None,
    number_option("memory", metavar="GB", text="Memory of one compiler process; by default 3/4 of the machine's."),
]
Deadline: TypeAlias = Annotated[
    float, number_option("deadline", metavar="SECONDS", text="Time limit for one compile or one measurement.")
]
