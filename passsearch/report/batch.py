"""Text for the terminal of the commands on batch jobs."""

from collections import Counter
from collections.abc import Sequence

from passsearch.core import first_sentence
from passsearch.objectives import UNDECIDED
from passsearch.report.formatting import MISSING, format_interval, format_number, format_pipeline
from passsearch.report.rivals import engine_name
from passsearch.report.table import paragraph, table_of_words, text_width
from passsearch.results import BatchResults, BatchStates, Build, CrossRow, FoundRow, NamedPipeline


def batch_states_text(states: BatchStates) -> str:
    """Return a table with one row for each job, and below it how many jobs are in each state."""
    rows: list[tuple[str, ...]] = [
        (job.job, job.particulars or MISSING, job.state, job.progress or MISSING, first_sentence(job.reason) or MISSING)
        for job in states.jobs
    ]
    titles, rows = _without_same(("job", "with", "state", "last step", "reason"), rows, names=("with",))
    counts = Counter(job.state for job in states.jobs)
    lines = [("jobs", f"{len(rows)}: {', '.join(f'{count} {state}' for state, count in counts.items())}")]
    if states.submitted is not None:
        lines.append(("submitted now", f"{len(states.submitted)} of them"))
    if states.cancelled is not None:
        lines.append(("cancelled", f"{len(states.cancelled)} of them"))
    if counts["interrupted"]:
        lines.append(("next", f"passsearch batch submit {states.file}"))
    if counts["failed"]:
        lines.append(("next", f"mend the reasons of what failed, then: passsearch batch resubmit {states.file}"))
    lines.append(("output", states.output))
    return f"{table_of_words(titles, rows, width=text_width())}\n\n{_paragraphs(lines)}"


def batch_results_text(results: BatchResults) -> str:
    """Return a table with one row for each search, and the comparisons across devices if there are any."""
    figures = ("gain", "verdict", "/ sequence", "/ engine", "latency ms", "compile s")
    titles: tuple[str, ...] = ("network", "batch", "objective", "device", "toolchain", "target", *figures)
    rows: list[tuple[str, ...]] = [
        (
            _network(row.network),
            MISSING if row.batch is None else str(row.batch),
            row.objective,
            _place(row),
            row.toolchain or MISSING,
            row.target or MISSING,
            _ratio(row.gain, row.gain_low, row.gain_high),
            _verdict(row),
            _ratio(row.sequence_gain, row.sequence_gain_low, row.sequence_gain_high) if row.sequence_gain else MISSING,
            f"{engine_name(row.rival)} {_ratio(row.rival_ratio, row.rival_low, row.rival_high)}"
            if row.rival
            else MISSING,
            _change(row.baseline_latency_s, row.best_latency_s, scale=1e3),
            _change(row.baseline_compile_s, row.best_compile_s),
        )
        for row in results.rows
    ]
    titles, rows = _without_same(titles, rows, names=("batch", "target"))
    parts = [table_of_words(titles, rows, width=text_width(), right=("gain",))]
    unfinished = sum(not row.finished for row in results.rows)
    lines = [("gain", "of the objective, over the baseline; arrows go from the baseline to the winner")]
    lines.append(
        ("/ sequence", "throughput over the fastest measured sequence of the catalog; – if the winner is that binary")
    )
    lines.append(("/ engine", "throughput over the other engine that is hardest to beat; – where none was measured"))
    if any(row.baseline_latency_s and row.finished and not row.best_latency_s for row in results.rows):
        lines.append((f"→ {MISSING}", "timed while the machine had another load; the gain is of runs in turns"))
    if unfinished:
        lines.append(("unfinished", f"{unfinished} of {len(rows)}; see: passsearch batch status {results.file}"))
    for row in results.rows:
        if row.finished:
            lines.append((f"winner {row.job}", format_pipeline(_candidate(row))))
            if not row.confirmed:
                lines.append((f"not confirmed {row.job}", row.reason or "no reason is stored"))
    parts.append(_paragraphs(lines))
    if results.cross:
        parts.append(cross_text(results.cross))
    return "\n\n".join(parts)


def cross_text(compared: Sequence[CrossRow]) -> str:
    """Return a table of each device's winner on each device, and in words whether it helps there."""
    rows = [
        (
            _network(row.network),
            row.objective,
            row.found_on,
            row.measured_on,
            _ratio(row.baseline_ratio, row.baseline_low, row.baseline_high),
            _ratio(row.own_ratio, row.own_low, row.own_high) if row.found_on != row.measured_on else MISSING,
            _change(row.baseline_compile_s, row.compile_s),
            _answer(row),
        )
        for row in compared
    ]
    if not rows:
        return "No comparison yet: it needs finished searches of one network and objective on two devices or more."
    titles = ("network", "objective", "winner of", "on", "/ baseline", "/ own winner", "compile s", "throughput")
    note = "ratios are of throughput, intervals corrected for the number of pairs; compile seconds are of one compile"
    return f"{table_of_words(titles, rows, width=text_width())}\n\n{_paragraphs([('measured', note)])}"


def _candidate(row: FoundRow) -> NamedPipeline:
    disabled = tuple(row.disabled.split(",")) if row.disabled else ()
    return NamedPipeline(pipeline=row.pipeline or "", build=Build(row.opt_level or 0, disabled=disabled))


def _network(name: str) -> str:
    # The folder of a file is the same in most rows, and long.
    return name.rpartition("/")[2]


def _answer(row: CrossRow) -> str:
    if row.failure:
        return f"fails: {row.failure}"
    return {"faster": "helps", "slower": "harms", "same binary": "is the baseline"}.get(
        row.baseline_verdict or "", "no difference shown"
    )


def _verdict(row: FoundRow) -> str:
    if not row.finished:
        return "no result yet"
    if not row.confirmed:
        return "not confirmed"
    # Rows of earlier versions have no outcome.
    return "gain" if row.improved else UNDECIDED if row.outcome == UNDECIDED else "no gain"


def _place(row: FoundRow) -> str:
    return f"{row.device} ({row.hardware})" if row.hardware else row.device


def _ratio(value: float | None, low: float | None, high: float | None) -> str:
    return format_interval(value, None if low is None and high is None else (low, high), decimals=3)


def _change(before: float | None, after: float | None, *, scale: float = 1.0) -> str:
    if before is None or after is None:
        return MISSING
    return f"{format_number(before * scale)} → {format_number(after * scale)}"


def _paragraphs(lines: Sequence[tuple[str, str]]) -> str:
    return "\n".join(paragraph(title, text, width=text_width()) for title, text in lines)


def _without_same(
    titles: Sequence[str], rows: Sequence[tuple[str, ...]], *, names: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a table without those columns that have one value in all rows and so tell no rows apart."""
    kept = [place for place, title in enumerate(titles) if title not in names or len({row[place] for row in rows}) > 1]
    return tuple(titles[place] for place in kept), [tuple(row[place] for place in kept) for row in rows]
