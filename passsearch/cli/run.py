"""``export``, ``audit``, ``ablate`` and ``report``: commands on a finished run."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from passsearch.cli.options import (
    WORKERS,
    AsJson,
    Catalogs,
    Run,
    Shared,
    Timeout,
    ToolchainName,
    Trust,
    number_option,
    share_options,
)
from passsearch.cli.output import NEGATIVE, print_error, print_note, print_result
from passsearch.core import USUAL_REPETITIONS
from passsearch.errors import PassSearchError, UserError

if TYPE_CHECKING:
    from passsearch.api import TuneResult


def export(
    subject: Annotated[str, typer.Argument(metavar="RUN|MODEL", help="Run folder; with --pipeline, a network.")],
    *,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    pipeline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Export a network by this pipeline, or by the `recommended` one."),
    ] = None,
    toolchain: ToolchainName = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Run the exported script once, with the run's toolchain.")
    ] = False,
    minimal: Annotated[
        bool, typer.Option("--minimal", help="Leave out the passes that `ablate` found worth nothing.")
    ] = False,
    catalogs: Catalogs = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Write a script that rebuilds the winner without passsearch.

    The script needs TVM and numpy. With --replay, exits 1 if the script fails. With --pipeline, a network is exported
    without a run, as `compile` does it without the comparison; its script has run once by then.
    """
    from passsearch import api
    from passsearch.api import TuneResult
    from passsearch.export import SCRIPT

    if pipeline is not None:
        if minimal:
            raise UserError("`--minimal` is for the winner of a run, and `--pipeline` exports a network without one.")
        allowed: Any = {"catalogs": catalogs or (), "trust": trust, "toolchain": toolchain}
        compiled = api.compile(subject, to=to, pipeline=pipeline, rivals=(), **allowed)
        print_result(compiled, str(compiled), as_json=as_json)
        return 0
    result = TuneResult.read(subject, catalogs=catalogs or (), trust=trust)
    folder = result.export(to, minimal=minimal)
    status = _run_exported_script(result, folder / SCRIPT, quiet=as_json) if replay else None
    document = {"folder": str(folder), "script": str(folder / SCRIPT), "replay_exit_status": status}
    print_result(document, f"Wrote {folder}; {_rebuild_advice(result, folder / SCRIPT)}", as_json=as_json)
    return NEGATIVE if status else 0


@share_options("toolchain", *WORKERS)
def audit(
    subject: Annotated[str, typer.Argument(metavar="RUN|MODEL", help="Run folder; with --aa, a network.")],
    *,
    aa: Annotated[
        bool,
        typer.Option("--aa", help="Measure the baseline against itself, which shows this machine's noise floor."),
    ] = False,
    shared: Shared,
    confirm: Annotated[
        int | None,
        number_option(
            "confirm",
            metavar="N",
            text=f"Fewest fresh compiles ({USUAL_REPETITIONS}); more if the verdict is unclear.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Rebuild a run's winner and measure it again.

    Exits 1 if the run's claim does not hold.
    """
    if aa and confirm is not None:
        raise UserError("`--aa` compares the baseline with itself and confirms nothing; leave out `--confirm`.")
    from passsearch import api
    from passsearch.report import ProgressBar

    document: Mapping[str, Any]
    with ProgressBar() as progress:
        if aa:
            # A comparison without any pipeline measures the baseline and its twin, the same build.
            document = api.compare(
                subject,
                [],
                **shared,
                progress=progress,
            )
        else:
            document = api.audit(
                subject,
                confirm=USUAL_REPETITIONS if confirm is None else confirm,
                **shared,
                progress=progress,
            )
    print_result(document, str(document), as_json=as_json)
    # The baseline against itself makes no claim that could fail.
    return 0 if aa or document["signed_off"] else NEGATIVE


@share_options("toolchain", *WORKERS)
def ablate(
    run: Run,
    *,
    timeout: Timeout = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help="End once it is decided what each pass is worth; compiles afresh only where that decides.",
        ),
    ] = False,
    shared: Shared,
    as_json: AsJson = False,
) -> None:
    """Measure what each pass of a run's winner is worth.

    The passes are added one by one, and each is left out once; all of that is measured side by side.
    """
    from passsearch import api
    from passsearch.report import ProgressBar

    with ProgressBar() as progress:
        document = api.ablate(
            run,
            timeout=timeout,
            until_decided=until_decided,
            **shared,
            progress=progress,
        )
    print_result(document, str(document), as_json=as_json)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; several are set side by side.")],
    *,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write one HTML page with all plots; it works offline.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the result of a finished run, or of several runs side by side."""
    from passsearch.report import read_record, report_page, result_text, runs_side_by_side_text
    from passsearch.store import read_result

    documents = [read_result(run) for run in runs]
    records = [read_record(document, run) for document, run in zip(documents, runs, strict=True)]
    if html is not None:
        _write_page(html, report_page(records))
        print_note(f"wrote {html}")
    if len(records) == 1:
        print_result(documents[0], result_text(records[0].result), as_json=as_json)
    else:
        rows = zip(documents, runs, strict=True)
        document = {"runs": [{"folder": str(run), "result": document} for document, run in rows]}
        print_result(document, runs_side_by_side_text(records), as_json=as_json)


def _rebuild_advice(result: "TuneResult", script: Path) -> str:
    """Return the command that runs the exported script with an interpreter that has the compiler."""
    from passsearch.toolchain import get_toolchain

    compiler, quoted = result.document["toolchain"], shlex.quote(str(script))
    try:
        python = str(get_toolchain(compiler["name"]).python)
    except PassSearchError:
        return f"rebuild with a Python that has TVM {compiler['tvm_version']} and numpy: python {quoted}"
    return f"rebuild with: {shlex.join([python, str(script)])}"


def _run_exported_script(result: "TuneResult", script: Path, *, quiet: bool) -> int:
    """Run the exported script once and return its exit status."""
    from passsearch.toolchain import get_toolchain
    from passsearch.worker import run_script

    python = get_toolchain(result.document["toolchain"]["name"]).python
    # With --json, standard output belongs to the document, so the script's output goes to standard error.
    status = run_script(python, script, to_stderr=quiet)
    if status:
        print_error(f"the replay of `{script}` failed with exit status {status}; its output is above")
    return status


def _write_page(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write `{path}`: {error.strerror}; choose another file with --html.") from None
