"""An ablation as text: which passes are worth something, and the measurement of every step."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from passsearch.objectives import COMPILE_TIME, THROUGHPUT
from passsearch.report.formatting import (
    MISSING,
    format_count,
    format_floor,
    format_number,
    format_percent,
    format_ratio,
    lookup,
)
from passsearch.report.table import paragraph, table, text_width

USEFUL = ("gain", "needed")
"""Worths of passes that are worth something."""

STEP_TITLES = ("step", "ms", "x baseline", "pass: speed x", "pass: compile x", "kernels", "pass is")
_RIGHT = ("ms", "x baseline", "kernels")
_WORTH = {
    "gain": "worth something",
    "loss": "a loss",
    "nothing": "worth nothing",
    "undecided": "undecided",
    "needed": "needed",
}


def ablation_headline(document: Mapping[str, Any]) -> str:
    """Return how many passes of the winner are worth something, and which are not."""
    rows = [row for row in document["rows"] if row["kind"] == "without"]
    dropped = [_name(text) for text in document["dropped"]]
    number = len(rows) + len(dropped)
    if not number:
        return "The winner has no pass; what it gains is of its build options."
    useful = [_name(row["pass"]) + _gain(row) for row in rows if row["worth"] in USEFUL]
    text = f"{len(useful)} of {number} {'pass is' if number == 1 else 'passes are'} worth something"
    parts = [text + (f": {', '.join(useful)}" if useful else "")]
    parts += _part("worth nothing", [*_names(rows, "nothing"), *dropped])
    parts += _part("a loss", _names(rows, "loss"))
    parts += _part("undecided", _names(rows, "undecided"))
    return "; ".join(parts) + "."


def ablation_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """Return an ablation: its conclusion, a table with one row for each step, the shorter form, and the evidence.

    Args:
        document: The content of ``ablation.json``.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    rows = document["rows"]
    parts = [
        paragraph("", document["headline"], width=width),
        table(STEP_TITLES, [step_cells(row) for row in rows], width=width, right=_RIGHT),
        "\n".join(paragraph(title, text, width=width) for title, text in ablation_lines(document)),
    ]
    return "\n\n".join(parts)


def step_cells(row: Mapping[str, Any]) -> Sequence[str]:
    """Return the cells of a step, in the order of ``STEP_TITLES``."""
    latency_s = row["latency_s"]
    throughput = lookup(row, THROUGHPUT.name, "ratio")
    return (
        row["name"],
        MISSING if latency_s is None else format_number(latency_s * 1e3),
        format_number(throughput),
        format_ratio(row["gain"][THROUGHPUT.name]),
        format_ratio(row["gain"][COMPILE_TIME.name]),
        format_count(row["kernels_changed"]),
        _WORTH[row["worth"]] if row["pass"] else MISSING,
    )


def ablation_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield title and text of what stands below the table."""
    measured = document["measured"]
    yield (
        "how to read it",
        "+Pass is the step before it and this pass; -Pass is the winner without this pass. Speed x and compile x are "
        "what the pass multiplies, so above 1 it is a gain; kernels are those that differ",
    )
    if same := [f"{row['name']} is {row['same_binary_as']}" for row in document["rows"] if row["same_binary_as"]]:
        yield "one binary, built and timed once", ", ".join(same)
    if document["dropped"]:
        yield "left out first, as the IR is the same without them", ", ".join(document["dropped"])
    for row in document["rows"]:
        if row["failure"]:
            yield row["name"], f"{row['failure']['kind']} in {row['failure']['stage']}: {row['failure']['reason']}"
    if shorter := _shorter(document):
        yield "shortest form", shorter
    if kernels := _kernel_sums(document):
        yield "kernels", kernels
    floor = format_floor(measured.get("noise_floor"))
    compiled = "the winner and of the pipelines as fast as it" if document.get("until_decided") else "each"
    compiles = f"{measured['compiles']} compiles of {compiled}"
    yield "measured", f"{measured['processes']} processes, {compiles}; noise floor {floor}"
    if not document["complete"]:
        yield "not complete", "the time limit cut it off; the same command goes on"


def _shorter(document: Mapping[str, Any]) -> str:
    """Return the form that ``export --minimal`` writes, and why it may stand for the winner."""
    minimal = document["minimal"]
    if minimal is None:
        return ""
    speed = f"at {format_ratio(minimal[THROUGHPUT.name])} of its speed"
    reason = "the same binary" if minimal["same_binary"] else speed
    pipeline = minimal["pipeline"] or "(no explicit pass)"
    return f"{pipeline}, {reason}. Export it: passsearch export RUN --to DIR --minimal"


def _kernel_sums(document: Mapping[str, Any]) -> str:
    """Return the share of the winner's fastest inference that its kernels take, each at its fastest."""
    winner = [row for row in document["rows"] if row["kind"] == "ladder"][-1]
    seconds, fastest_s = lookup(document, "kernels", "winner"), winner.get("fastest_s")
    if not seconds or not fastest_s:
        return ""
    total = sum(seconds.values())
    slowest = sorted(seconds, key=lambda name: -seconds[name])[:3]
    parts = ", ".join(f"{name} {format_number(seconds[name] * 1e3)} ms" for name in slowest)
    return (
        f"{len(seconds)} kernels of the winner take {format_number(total * 1e3)} ms, "
        f"{format_percent(total / fastest_s)} of the fastest inference; slowest: {parts}"
    )


def _part(what: str, names: Sequence[str]) -> list[str]:
    return [f"{what}: {', '.join(names)}"] if names else []


def _names(rows: Sequence[Mapping[str, Any]], worth: str) -> list[str]:
    return [_name(row["pass"]) for row in rows if row["worth"] == worth]


def _name(text: str) -> str:
    """Return the name of a pass without its arguments."""
    return text.partition("{")[0]


def _gain(row: Mapping[str, Any]) -> str:
    """Return how much faster the network runs or compiles with a pass, whichever is more, as an aside."""
    if row["worth"] == "needed":
        return " (needed)"
    gains = [(row["gain"][objective.name], objective) for objective in (THROUGHPUT, COMPILE_TIME)]
    certain = [
        (ratio, objective) for ratio, objective in gains if ratio and ratio["interval"] and ratio["interval"][0] > 1
    ]
    if not certain:
        return ""
    ratio, objective = max(certain, key=lambda gain: gain[0]["interval"][0])
    return f" ({objective.gain_predicate(format_ratio(ratio))})"
