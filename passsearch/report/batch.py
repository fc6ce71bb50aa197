"""Text for the terminal of the commands on batch jobs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from passsearch.objectives import UNDECIDED
from passsearch.report.formatting import MISSING, format_interval, format_number, format_pipeline
from passsearch.report.table import paragraph, table, text_width
from passsearch.results import Build, NamedPipeline


def batch_states_text(document: Mapping[str, Any]) -> str:
    """Return a table with one row for each job, and below it how many jobs are in each state."""
    rows = [
        (
            row["job"],
            row["device"],
            row["state"],
            row["progress"] or MISSING,
            row["reason"] or MISSING,
        )
        for row in document["jobs"]
    ]
    titles = ("job", "device", "state", "last step", "reason")
    counts = Counter(row["state"] for row in document["jobs"])
    lines = [("jobs", f"{len(rows)}: {', '.join(f'{count} {state}' for state, count in counts.items())}")]
    if "submitted" in document:
        lines.append(("submitted now", f"{len(document['submitted'])} of them"))
    if "cancelled" in document:
        lines.append(("cancelled", f"{len(document['cancelled'])} of them"))
    if counts["failed"] or counts["interrupted"]:
        lines.append(("next", f"passsearch batch resubmit {document['file']}"))
    lines.append(("output", f"{document['output']}"))
    return f"{table(titles, rows, width=text_width())}\n\n{_paragraphs(lines)}"


def batch_results_text(document: Mapping[str, Any]) -> str:
    """Return a table with one row for each search, and the comparisons across devices if there are any."""
    titles = ("network", "objective", "device", "toolchain", "gain", "verdict", "/ sequence", "latency ms", "compile s")
    rows = [
        (
            _network(row),
            row["objective"],
            _place(row),
            row["toolchain"] or MISSING,
            _ratio(row, "gain"),
            _verdict(row),
            _ratio(row, "sequence_gain") if row["sequence_gain"] else MISSING,
            _change(row["baseline_latency_s"], row["best_latency_s"], scale=1e3),
            _change(row["baseline_compile_s"], row["best_compile_s"]),
        )
        for row in document["rows"]
    ]
    parts = [table(titles, rows, width=text_width(), right=("gain",))]
    unfinished = sum(not row["finished"] for row in document["rows"])
    lines = [("gain", "of the objective, over the baseline; arrows go from the baseline to the winner")]
    lines.append(
        ("/ sequence", "throughput over the fastest measured sequence of the catalog; – if the winner is that binary")
    )
    if unfinished:
        lines.append(("unfinished", f"{unfinished} of {len(rows)}; see: passsearch batch status {document['file']}"))
    lines += [(f"winner {row['job']}", format_pipeline(_candidate(row))) for row in document["rows"] if row["finished"]]
    parts.append(_paragraphs(lines))
    if document["cross"]:
        parts.append(cross_text(document))
    return "\n\n".join(parts)


def cross_text(document: Mapping[str, Any]) -> str:
    """Return a table of each device's winner on each device, and in words whether it helps there."""
    rows = [
        (
            _network(row),
            row["objective"],
            row["found_on"],
            row["measured_on"],
            _ratio(row, "baseline"),
            _ratio(row, "own") if row["found_on"] != row["measured_on"] else MISSING,
            _change(row["baseline_compile_s"], row["compile_s"]),
            _answer(row),
        )
        for row in document["cross"]
    ]
    if not rows:
        return "No comparison yet: it needs finished searches of one network and objective on two devices or more."
    titles = ("network", "objective", "winner of", "on", "/ baseline", "/ own winner", "compile s", "throughput")
    note = "ratios are of throughput, intervals corrected for the number of pairs; compile seconds are of one compile"
    return f"{table(titles, rows, width=text_width())}\n\n{_paragraphs([('measured', note)])}"


def _candidate(row: Mapping[str, Any]) -> NamedPipeline:
    disabled = tuple(row["disabled"].split(",")) if row["disabled"] else ()
    return NamedPipeline(pipeline=row["pipeline"], build=Build(row["opt_level"], disabled=disabled))


def _network(row: Mapping[str, Any]) -> str:
    # The folder of a file is the same in most rows, and long.
    return str(row["network"]).rpartition("/")[2]


def _answer(row: Mapping[str, Any]) -> str:
    if row["failure"]:
        return f"fails: {row['failure']}"
    return {"faster": "helps", "slower": "harms", "same binary": "is the baseline"}.get(
        row["baseline_verdict"], "no difference shown"
    )


def _verdict(row: Mapping[str, Any]) -> str:
    if not row["finished"]:
        return "no result yet"
    if not row["confirmed"]:
        return "not confirmed"
    # Rows of earlier versions have no outcome.
    return "gain" if row["improved"] else UNDECIDED if row.get("outcome") == UNDECIDED else "no gain"


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['device']} ({row['hardware']})" if row["hardware"] else str(row["device"])


def _ratio(row: Mapping[str, Any], prefix: str) -> str:
    value = row[f"{prefix}_ratio"] if f"{prefix}_ratio" in row else row[prefix]
    interval = (row[f"{prefix}_low"], row[f"{prefix}_high"])
    return format_interval(value, None if interval == (None, None) else interval, decimals=3)


def _change(before: float | None, after: float | None, *, scale: float = 1.0) -> str:
    if before is None or after is None:
        return MISSING
    return f"{format_number(before * scale)} → {format_number(after * scale)}"


def _paragraphs(lines: Sequence[tuple[str, str]]) -> str:
    return "\n".join(paragraph(title, text, width=text_width()) for title, text in lines)
