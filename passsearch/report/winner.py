"""The winner of a run, pass by pass: what each pass does, and what it is worth where that was measured."""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache

from passsearch.catalog import load
from passsearch.core import PassSpec, Pipeline
from passsearch.dialects import DIALECTS
from passsearch.errors import PassSearchError
from passsearch.report.charts import METRICS
from passsearch.report.elements import definitions, details, html_table, note, section
from passsearch.report.formatting import (
    MISSING,
    format_build,
    format_pipeline,
    format_ratio,
    html_text,
)
from passsearch.report.run_record import RunRecord
from passsearch.report.text import attribution_lines
from passsearch.results import Ablation, AblationStep, Winner


def winner_section(record: RunRecord) -> str:
    """Return the section of a page on the winner."""
    best = record.result.best
    steps = _steps(best)
    titles = ("pass", "what it does", *(("its worth: with it over without it",) if record.ablation else ()))
    worths = _worths(steps, record.ablation) if record.ablation else ()
    rows = [_row(step, record, worths[place : place + 1]) for place, step in enumerate(steps)]
    return section(
        "The winner",
        definitions(attribution_lines(record.result)),
        html_table(titles, rows, is_text=True) if rows else note("The winner applies no explicit pass."),
        f"<p>Then the compiler's own build at {html_text(format_build(best.build))}.</p>",
        details("As one line", f"<pre>{html_text(format_pipeline(best))}</pre>"),
    )


@cache
def summaries(dialect: str) -> Mapping[str, str]:
    """Return what every pass of the catalog does, by name; empty for a dialect that does not exist."""
    # The name may come from the result of somebody else, and the catalog of a dialect is a folder of that name.
    return {name: entry.summary for name, entry in load(dialect).entries.items()} if dialect in DIALECTS else {}


def _row(step: PassSpec, record: RunRecord, worth: Sequence[str]) -> tuple[str, ...]:
    known = summaries(record.result.toolchain.dialect)
    return (str(step), known.get(step.name, "a pass that is not in the shipped catalog"), *worth)


def _worths(steps: Sequence[PassSpec], ablation: Ablation) -> list[str]:
    """Return what every pass gains, in words."""
    # In the order of the steps, without those that were left out.
    rows = deque(ablation.steps("without"))
    worths = []
    for step in map(str, steps):
        if rows and rows[0].subject == step:
            worths.append(_worth(rows.popleft()))
        else:
            worths.append("not needed: the IR is the same without it" if step in ablation.dropped else MISSING)
    return worths


def _worth(row: AblationStep) -> str:
    """Return what a pass gains, in words."""
    if row.worth == "needed":
        return "needed: without it the network does not build, or its outputs are wrong"
    parts = [f"{title} {format_ratio(gain)}" for metric, title in METRICS.items() if (gain := row.gain.get(metric))]
    if row.kernels_changed is not None:
        parts.append(f"{row.kernels_changed} kernels change")
    return f"{row.worth}: {', '.join(parts)}" if parts else row.worth


def _steps(best: Winner) -> tuple[PassSpec, ...]:
    try:
        return Pipeline.parse(best.pipeline).passes
    except PassSearchError:
        return ()
