"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Model: TypeAlias = Annotated[
    str, typer.Argument(metavar="MODEL", help="A network's file or folder, or zoo:NAME[@batch] for a built-in one.")
]
Run: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as `tune --out` made it.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Target: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TARGET", help="TVM's target; this machine's CPU by default.")
]
ToolchainName: TypeAlias = Annotated[
    str | None, typer.Option("--toolchain", metavar="NAME", help="Toolchain; the first there is by default.")
]
Catalogs: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--catalog", metavar="FILE", help="YAML file with passes of your own; repeatable."),
]
Inputs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="name:dtype[shape]", help="Type of an input the file leaves open; repeatable."),
]
Batch: TypeAlias = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Size of a first dimension the file leaves open.")
]
Tolerance: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SHARE",
        help="Largest deviation of outputs, as a share of the largest, after passes that may change numerics; "
        "strict by default, as for all others.",
    ),
]
Fresh: TypeAlias = Annotated[bool, typer.Option("--fresh", help="Use and keep nothing of other runs.")]
Deadline: TypeAlias = Annotated[
    float, typer.Option(min=1, metavar="SECONDS", help="Longest time one compile or measurement may take.")
]
