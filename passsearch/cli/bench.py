"""``bench``: TVM's pipelines and other inference engines side by side."""

from pathlib import Path
from typing import Annotated

import typer

from passsearch.cli.options import AsJson, Model, Shared, number_option, share_options
from passsearch.cli.output import print_result, split_names
from passsearch.errors import UserError


@share_options("target", "tolerance", "reference", "memory", "inputs", "batch", "samples", "catalogs", "trust")
def bench(
    model: Model,
    *,
    engines: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="Engines, by commas: onnxruntime, openvino, torch, inductor, xla; TOOLCHAIN:PIPELINE for TVM.",
        ),
    ] = "",
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Engine that ratios refer to; the first by default.")
    ] = None,
    batches: Annotated[
        str | None, typer.Option(metavar="1,2,4", help="Batch sizes, by commas; adds the friction coefficient.")
    ] = None,
    requests: Annotated[
        str | None,
        typer.Option(metavar="1,2,4", help="Numbers of inferences at the same time; adds the throughput of each."),
    ] = None,
    own_threads: Annotated[
        bool, typer.Option("--own-threads", help="Measure engines with the number of threads that they choose, too.")
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="NumPy file (.npz) with samples by input and `labels`; adds the accuracy."),
    ] = None,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Ask the profiler of each engine for the time of every kernel.")
    ] = False,
    threads: Annotated[
        int | None,
        number_option("threads", metavar="N", text="Threads of each engine; one for each physical core by default."),
    ] = None,
    rounds: Annotated[
        int, number_option("rounds", metavar="N", text="Rounds in one process; every round runs all engines in turn.")
    ] = 12,
    processes: Annotated[
        int, number_option("processes", metavar="N", text="New processes of each engine, one after another.")
    ] = 6,
    engines_python: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Interpreter that has the engines; what is installed by default."),
    ] = None,
    shared: Shared,
    as_json: AsJson = False,
) -> None:
    """Measure TVM's pipelines and other inference engines side by side.

    Every engine has the same threads and cores, and its outputs are compared with a reference first.
    """
    sizes = _read_numbers(batches, "batches", example="1,2,4,8")
    from passsearch import api
    from passsearch.report import ProgressBar, engines_text

    with ProgressBar() as progress:
        document = api.bench(
            model,
            _read_engines(engines),
            batches=sizes,
            requests=_read_numbers(requests, "requests", example="1,2,4"),
            own_threads=own_threads,
            labels=labels,
            kernels=kernels,
            threads=threads,
            baseline=baseline,
            rounds=rounds,
            processes=processes,
            **shared,
            engines_python=engines_python,
            progress=progress,
        )
    print_result(document, engines_text(document), as_json=as_json)


def _read_engines(text: str) -> list[str]:
    """Return the engines of ``A,B``; the passes of a pipeline that is written out have commas between them too."""
    engines: list[str] = []
    for part in split_names(text) or []:
        # Passes are in capitals, in a module (`dlight.gpu.Matmul`), or have arguments; no engine is.
        continues = part[:1].isupper() or any(sign in part for sign in "{}=.")
        if engines and ":" in engines[-1] and ":" not in part and continues:
            engines[-1] += f",{part}"
        else:
            engines.append(part)
    return engines


def _read_numbers(text: str | None, option: str, *, example: str) -> list[int] | None:
    names = split_names(text)
    if names is None:
        return None
    for name in names:
        if not (name.isascii() and name.isdigit()):
            raise UserError(
                f"--{option} takes whole numbers from 1 on; got `{name}`. For example: --{option} {example}"
            )
    return list(map(int, names))
