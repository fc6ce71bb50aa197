"""A pipeline that was applied to a network, pass by pass."""

from collections.abc import Iterator, Mapping

from passsearch.report.table import paragraph, table, text_width
from passsearch.report.text import failure_text
from passsearch.results import Application, AppliedStep

_MOST_CHANGES = 6
"""Most operators whose number changed that one row names."""

_TITLES = ("", "pass", "effect", "seconds", "operators")


def application_text(application: Application) -> str:
    """Return the passes in a table, then the IR that was asked for, then the failure with its traceback."""
    width = text_width()
    steps = application.steps
    rows = [_row(place, step) for place, step in enumerate(steps, start=1)]
    parts = [table(_TITLES, rows, width=width, right=("", "seconds"))] if rows else ["The pipeline has no passes."]
    for place, step in enumerate(steps, start=1):
        if step.weights:
            parts.append("\n  ".join([f"Weights after pass {place}, {step.step}:", *step.weights]))
        parts += _ir(place, step)
    if application.failure:
        parts += [
            application.traceback.rstrip(),
            paragraph("", failure_text(application.failure), width=width),
        ]
    return "\n\n".join(part for part in parts if part)


def _row(place: int, step: AppliedStep) -> tuple[str, ...]:
    effect = {True: "changed", False: "no change", None: "failed"}[step.changed]
    return str(place), step.step, effect, f"{step.seconds:.3f}", _changes(step.operators or {})


def _changes(counts: Mapping[str, int]) -> str:
    """Return the largest changes of counts, as ``+2 nn.relu, -1 add``."""
    largest = sorted(counts.items(), key=lambda item: (-abs(item[1]), item[0]))
    shown = ", ".join(f"{change:+d} {name}" for name, change in largest[:_MOST_CHANGES])
    return f"{shown} and {len(largest) - _MOST_CHANGES} more" if len(largest) > _MOST_CHANGES else shown


def _ir(place: int, step: AppliedStep) -> Iterator[str]:
    for when, text in (step.ir or {}).items():
        if text is None or (when == "after" and not step.changed):
            continue  # it is the same, or there is none
        yield f"IR {when} pass {place}, {step.step}:\n{text.rstrip()}"
