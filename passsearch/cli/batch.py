"""``batch``: many searches from one YAML file, on this machine or on a Slurm cluster."""

import csv
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from passsearch.cli.options import AsJson, Trust
from passsearch.cli.output import NEGATIVE, print_error, print_note, print_result
from passsearch.core import suggest_name
from passsearch.errors import UserError

if TYPE_CHECKING:
    from passsearch.batch import BatchJob, JobsFile, JobState, TuneJob
    from passsearch.results import BatchStates

LOCAL_S, CLUSTER_S = 2.0, 30.0
"""Seconds between two looks at the jobs with ``--wait``; a look asks a cluster's scheduler, which many share."""

JobsPath = Annotated[Path, typer.Argument(metavar="JOBS.yaml", help="File of jobs; docs/guide/batch.md has its keys.")]
Executor = Annotated[
    str | None, typer.Option(metavar="NAME", help="local or slurm; by default what the file says, else local.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Return when no job is queued or running any more.")]


def batch_commands() -> typer.Typer:
    """Return the commands of ``passsearch batch``."""
    app = typer.Typer(
        help="Searches on many networks and devices, as jobs.", no_args_is_help=True, rich_markup_mode=None
    )
    app.command()(submit)
    app.command()(status)
    app.command()(collect)
    app.command()(resubmit)
    app.command()(cancel)
    app.command()(cross)
    return app


def submit(
    file: JobsPath, *, executor: Executor = None, wait: Wait = False, trust: Trust = False, as_json: AsJson = False
) -> int:
    """Submit the jobs that are new or were cut off.

    Jobs that are finished, queued or running are left alone, so it is safe to submit twice. A job that was cut off
    goes on where it stopped.
    """
    from passsearch.batch import SUBMIT

    return _submit(file, executor, states=SUBMIT, wait=wait, trust=trust, as_json=as_json)


def resubmit(
    file: JobsPath, *, executor: Executor = None, wait: Wait = False, trust: Trust = False, as_json: AsJson = False
) -> int:
    """Submit the jobs that failed or were cut off."""
    from passsearch.batch import RESUBMIT

    return _submit(file, executor, states=RESUBMIT, wait=wait, trust=trust, as_json=as_json)


def status(file: JobsPath, *, as_json: AsJson = False) -> None:
    """Show the state, the last step and the reason for each job."""
    from passsearch.batch import job_states, read_jobs, tune_jobs
    from passsearch.report import batch_states_text

    content = read_jobs(file)
    jobs = tune_jobs(content)
    for mistake in _mistakes(content, jobs, executor=None):
        print_note(f"warning: {mistake}")
    states = _states_document(file, content.runs, job_states(jobs))
    print_result(states.to_json(), batch_states_text(states), as_json=as_json)


def cancel(
    file: JobsPath,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB…]", help="Only these jobs, as `status` names them.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """End the jobs that are queued or running.

    They keep what they have measured, and submitting continues them.
    """
    from passsearch import batch
    from passsearch.report import batch_states_text

    content = batch.read_jobs(file)
    searches = batch.tune_jobs(content)
    jobs: list[BatchJob] = [*searches, *batch.cross_jobs(searches)]
    cancelled = batch.cancel(_named(jobs, names), runs=content.runs)
    states = _states_document(file, content.runs, batch.job_states(searches))
    states = replace(states, cancelled=tuple(job.name for job in cancelled))
    print_result(states.to_json(), batch_states_text(states), as_json=as_json)


def collect(
    file: JobsPath,
    *,
    csv_file: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Also write the rows as CSV.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what all searches found in one table, and the comparisons that `batch cross` made."""
    from passsearch import batch
    from passsearch.report import batch_results_text
    from passsearch.results import BatchResults

    jobs = batch.tune_jobs(batch.read_jobs(file))
    rows, crossed = batch.collect(jobs), batch.cross_rows(batch.cross_jobs(jobs))
    results = BatchResults(str(file), tuple(rows), tuple(crossed))
    if csv_file is not None:
        _write_csv(csv_file, [row.to_json() for row in rows])
    print_result(results.to_json(), batch_results_text(results), as_json=as_json)


def cross(
    file: JobsPath, *, executor: Executor = None, wait: Wait = False, trust: Trust = False, as_json: AsJson = False
) -> int:
    """Measure each device's winner on the other devices.

    Submits the comparisons that are missing, and shows those that are there: whether a sequence that was found on one
    device helps on another.
    """
    from passsearch import batch
    from passsearch.report import batch_states_text, cross_text

    content = batch.read_jobs(file)
    batch.require_trusted(content, trust=trust)
    jobs = batch.cross_jobs(batch.tune_jobs(content))
    name = executor or content.executor
    if name == "local":
        _require_toolchains([job.search for job in jobs])
    submitted = batch.submit(jobs, runs=content.runs, executor=name, states=batch.SUBMIT | batch.RESUBMIT)
    states = _look(file, jobs, wait=wait)
    rows = batch.cross_rows(jobs)
    document = replace(_states_document(file, content.runs, states, submitted=submitted), cross=tuple(rows))
    parts = [cross_text(rows)]
    if any(state.state != "finished" for state in states):
        parts.insert(0, batch_states_text(document))
    print_result(document.to_json(), "\n\n".join(parts), as_json=as_json)
    return _exit_status(states)


def _submit(
    file: Path, executor: str | None, *, states: Collection[str], wait: bool, trust: bool, as_json: bool
) -> int:
    from passsearch import batch
    from passsearch.report import batch_states_text

    content = batch.read_jobs(file)
    jobs, name = batch.tune_jobs(content), executor or content.executor
    mistakes = _mistakes(content, jobs, executor=name)
    for mistake in mistakes:
        print_error(mistake)
    if mistakes:
        return UserError.exit_code
    batch.require_trusted(content, trust=trust)
    if name == "local":
        _require_toolchains(jobs)
    submitted = batch.submit(jobs, runs=content.runs, executor=name, states=states)
    result = _look(file, jobs, wait=wait)
    document = _states_document(file, content.runs, result, submitted=submitted)
    print_result(document.to_json(), batch_states_text(document), as_json=as_json)
    return _exit_status(result)


def _mistakes(content: "JobsFile", jobs: Sequence["TuneJob"], *, executor: str | None) -> list[str]:
    """Return what is wrong in a file, by the executor of the command, else by those of earlier submissions."""
    from passsearch.batch import find_mistakes

    submissions = [] if executor else [job.records.submission for job in jobs]
    names = {each.executor for each in submissions if each is not None} or {executor or content.executor}
    return find_mistakes(jobs, is_local=names == {"local"})


def _named(jobs: Sequence["BatchJob"], names: Sequence[str] | None) -> Sequence["BatchJob"]:
    """Return the jobs of these names, or all jobs without names."""
    known = {job.name: job for job in jobs}
    for name in names or ():
        if name not in known:
            hint = suggest_name(name, known) or "`passsearch batch status` lists them."
            raise UserError(f"Unknown job `{name}`; {hint}")
    return [known[name] for name in names] if names else jobs


def _require_toolchains(jobs: Sequence[Any]) -> None:
    """Refuse toolchains that this machine lacks; those of a cluster's nodes are not known here."""
    from passsearch.cli.network import check_environment

    # A container has its own, and so may have what a device sets up.
    here = [job for job in jobs if not job.device.container and not job.device.setup]
    for toolchain in {job.toolchain: None for job in here}:
        check_environment(toolchain)


def _look(file: Path, jobs: Sequence["BatchJob"], *, wait: bool) -> list["JobState"]:
    from passsearch import batch

    if not wait:
        return batch.job_states(jobs)
    latest = ""

    def look(states: Sequence["JobState"]) -> None:
        nonlocal latest
        counts = Counter(state.state for state in states)
        steps = [f"{state.job.name}: {state.progress}" for state in states if state.state == "running"]
        line = "; ".join([", ".join(f"{count} {name}" for name, count in counts.items()), *steps])
        if line != latest:
            print_note(line)
        latest = line

    submissions = [job.records.submission for job in jobs]
    is_local = all(each is None or each.executor == "local" for each in submissions)
    try:
        return batch.wait(jobs, look=look, every_s=LOCAL_S if is_local else CLUSTER_S)
    except KeyboardInterrupt:
        print_note(f"The jobs go on. To end them: passsearch batch cancel {shlex.quote(str(file))}")
        raise


def _states_document(
    file: Path, runs: Path, states: Sequence["JobState"], *, submitted: Sequence["BatchJob"] | None = None
) -> "BatchStates":
    from passsearch.batch import LOGS, RECORDS
    from passsearch.results import BatchStates

    return BatchStates(
        file=str(file),
        runs=str(runs),
        output=str(runs / RECORDS / LOGS),
        jobs=tuple(state.row for state in states),
        submitted=None if submitted is None else tuple(job.name for job in submitted),
    )


def _exit_status(states: Sequence["JobState"]) -> int:
    return NEGATIVE if any(state.state == "failed" for state in states) else 0


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise UserError(f"Cannot write `{path}`: {error.strerror}; choose another file with --csv.") from None
    print_note(f"wrote {path}")
