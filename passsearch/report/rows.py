"""The rows of a result's and a comparison's table, before they are text or a plot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from passsearch.report.wording import at, count, latency_ms, megabytes, number, ratio

Document: TypeAlias = Mapping[str, Any]

EQUAL: Document = {"ratio": 1.0, "interval": None}


@dataclass(frozen=True)
class Row:
    """One candidate of a table.

    Attributes:
        label: Its name; a pipeline without one goes by its passes.
        measured: Its measurement.
        throughput: Throughput as a multiple of the baseline's.
        times: How many times less time it takes to compile than the baseline.
    """

    label: str
    measured: Document
    throughput: Document | None
    times: Document | None

    def cells(self, document: Document) -> tuple[str, ...]:
        """Text under the ``heads`` of the same document."""
        joules = self.measured.get("energy_j")
        consumed = (
            number(None if joules is None else 1e3 * joules),
            number(at(self.measured, "power_w", "median")),
            number(at(self.measured, "temperature_c", "max")),
        )
        return (
            self.label,
            latency_ms(self.measured),
            number(self.measured.get("throughput_per_s"), 4),
            ratio(self.throughput),
            number(self.measured.get("compile_s")),
            ratio(self.times),
            megabytes(self.measured.get("artifact_bytes")),
            *(consumed if metered(document) else ()),
        )


def heads(document: Document) -> tuple[str, ...]:
    """Titles of the columns."""
    name = baseline_name(document)
    consumed = ("mJ", "W", "max °C") if metered(document) else ()
    return ("", "latency ms", "per s", f"throughput/{name}", "compile s", f"{name}/compile", "MB", *consumed)


def metered(document: Document) -> bool:
    """Whether anything was read beside time: then there are columns for it."""
    baseline = document.get("baseline")
    rows = [*(document.get("rows") or []), *([baseline] if isinstance(baseline, Mapping) else [])]
    return any(row.get(metric) is not None for row in rows for metric in ("energy_j", "power_w", "temperature_c"))


def baseline_name(document: Document) -> str:
    """What the baseline is called, in a result or a comparison."""
    baseline = document.get("baseline")
    name = baseline if isinstance(baseline, str) else at(baseline, "name")
    return str(name) if name else "baseline"


def result_rows(document: Document) -> list[Row]:
    """The baselines, then the winner; the baseline to beat shows what its confirmation measured."""
    reference = named(document.get("baselines") or [], baseline_name(document))
    rows = []
    for each in document.get("baselines") or []:
        if reference is not None and each is reference:
            confirmed: Document = document.get("baseline") or each
            rows.append(Row(label(each), confirmed, EQUAL, EQUAL))
        else:
            rows.append(Row(label(each), each, each.get("ratio"), _times(reference, each)))
    ratios, best = document.get("ratios"), document.get("best") or {}
    return [*rows, Row("best", best, at(ratios, "throughput"), at(ratios, "compile_time"))]


def comparison_rows(document: Document) -> list[Row]:
    """The pipelines that could be measured, in the order asked for."""
    measured = [row for row in document.get("rows") or [] if "failure" not in row]
    reference = named(measured, baseline_name(document))
    return [Row(label(row), row, row.get("ratio"), _times(reference, row)) for row in measured]


def front_rows(document: Document) -> list[Row]:
    """The Pareto front, numbered; empty where there is but one objective."""
    front = document.get("pareto") or []
    reference = named(document.get("baselines") or [], baseline_name(document))
    rows = [Row(str(place), each, each.get("ratio"), _times(reference, each)) for place, each in enumerate(front, 1)]
    return rows if len(rows) > 1 else []


def label(candidate: Document) -> str:
    """What a row is called; a search may build the network without any pass in its own way, which is no level's."""
    name = candidate.get("name") or candidate.get("pipeline")
    level = f"O{count(at(candidate, 'build', 'opt_level'))}"
    return str(name or ("no explicit pass" if at(candidate, "build", "disabled") else level))


def named(candidates: Sequence[Document], name: str) -> Document | None:
    """The first candidate of that name."""
    return next((each for each in candidates if each.get("name") == name), None)


def _times(reference: Document | None, measured: Document) -> Document | None:
    """By one compile each, so there is no interval."""
    first, second = at(reference, "compile_s"), measured.get("compile_s")
    return {"ratio": first / second, "interval": None} if first and second else None
