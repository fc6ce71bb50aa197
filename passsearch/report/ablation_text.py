"""An ablation as text: which passes are worth something, and the measurement of every step."""

from collections.abc import Iterator, Sequence

from passsearch.objectives import COMPILE_TIME, THROUGHPUT
from passsearch.report.formatting import (
    MISSING,
    format_count,
    format_floor,
    format_number,
    format_percent,
    format_ratio,
    is_above,
)
from passsearch.report.precision import worth_lines
from passsearch.report.table import paragraph, table, text_width
from passsearch.results import Ablation, AblationStep, MinimalForm, Worth

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


def ablation_headline(ablation: Ablation) -> str:
    """Return how many passes of the winner are worth something, and which are not."""
    rows, dropped = ablation.steps("without"), [_name(text) for text in ablation.dropped]
    number = len(rows) + len(dropped)
    if not number:
        return "The winner has no pass; what it gains is of its build options."
    useful = [_name(row.subject) + _gain(row) for row in rows if row.worth in USEFUL]
    text = f"{len(useful)} of {number} {'pass is' if number == 1 else 'passes are'} worth something"
    parts = [text + (f": {', '.join(useful)}" if useful else "")]
    parts += _part("worth nothing", [*_names(rows, "nothing"), *dropped])
    parts += _part("a loss", _names(rows, "loss"))
    parts += _part("undecided", _names(rows, "undecided"))
    return "; ".join(parts) + "."


def ablation_text(ablation: Ablation, *, width: int | None = None) -> str:
    """Return an ablation: its conclusion, a table with one row for each step, the shorter form, and the evidence.

    Args:
        ablation: The ablation.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    parts = [
        paragraph("", ablation.headline, width=width),
        table(STEP_TITLES, [step_cells(row) for row in ablation.rows], width=width, right=_RIGHT),
        "\n".join(paragraph(title, text, width=width) for title, text in ablation_lines(ablation)),
    ]
    return "\n\n".join(parts)


def step_cells(row: AblationStep) -> Sequence[str]:
    """Return the cells of a step, in the order of ``STEP_TITLES``."""
    return (
        row.name,
        MISSING if row.latency_s is None else format_number(row.latency_s * 1e3),
        format_number(row.throughput.ratio if row.throughput else None),
        format_ratio(row.gain.get(THROUGHPUT.name)),
        format_ratio(row.gain.get(COMPILE_TIME.name)),
        format_count(row.kernels_changed),
        _WORTH[row.worth] if row.subject else MISSING,
    )


def ablation_lines(ablation: Ablation) -> Iterator[tuple[str, str]]:
    """Yield title and text of what stands below the table."""
    yield (
        "how to read it",
        "+Pass is the step before it and this pass; -Pass is the winner without this pass. Speed x and compile x are "
        "what the pass multiplies, so above 1 it is a gain; kernels are those that differ",
    )
    if same := [f"{row.name} is {row.same_binary_as}" for row in ablation.rows if row.same_binary_as]:
        yield "one binary, built and timed once", ", ".join(same)
    if ablation.dropped:
        yield "left out first, as the IR is the same without them", ", ".join(ablation.dropped)
    for row in ablation.rows:
        if row.failure:
            yield row.name, f"{row.failure.kind} in {row.failure.stage}: {row.failure.reason}"
    if shorter := _shorter(ablation.minimal):
        yield "shortest form", shorter
    if kernels := _kernel_sums(ablation):
        yield "kernels", kernels
    if ablation.precision:
        yield from worth_lines(ablation.precision)
    measured, floor = ablation.measured, format_floor(ablation.measured.noise_floor)
    compiled = "the winner and of the pipelines as fast as it" if ablation.until_decided else "each"
    compiles = f"{measured.compiles} compiles of {compiled}"
    yield "measured", f"{measured.processes} processes, {compiles}; noise floor {floor}"
    if not ablation.complete:
        yield "not complete", "the time limit cut it off; the same command goes on"


def _shorter(minimal: MinimalForm | None) -> str:
    """Return the form that ``export --minimal`` writes, and why it may stand for the winner."""
    if minimal is None:
        return ""
    reason = "the same binary" if minimal.same_binary else f"at {format_ratio(minimal.throughput)} of its speed"
    pipeline = minimal.pipeline or "(no explicit pass)"
    return f"{pipeline}, {reason}. Export it: passsearch export RUN --to DIR --minimal"


def _kernel_sums(ablation: Ablation) -> str:
    """Return the share of the winner's fastest inference that its kernels take, each at its fastest."""
    seconds = ablation.kernels.winner if ablation.kernels else {}
    fastest_s = ablation.steps("ladder")[-1].fastest_s
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


def _names(rows: Sequence[AblationStep], worth: Worth) -> list[str]:
    return [_name(row.subject) for row in rows if row.worth == worth]


def _name(text: str | None) -> str:
    """Return the name of a pass without its arguments."""
    return (text or "").partition("{")[0]


def _gain(row: AblationStep) -> str:
    """Return how much faster the network runs or compiles with a pass, whichever is more, as an aside."""
    if row.worth == "needed":
        return " (needed)"
    gains = [(row.gain.get(objective.name), objective) for objective in (THROUGHPUT, COMPILE_TIME)]
    certain = [
        (ratio.interval[0] or 0.0, objective.gain_predicate(format_ratio(ratio)))
        for ratio, objective in gains
        if ratio and ratio.interval and is_above(ratio, 1.0)
    ]
    return f" ({max(certain, key=lambda gain: gain[0])[1]})" if certain else ""
