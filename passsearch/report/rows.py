"""Rows of the tables and plots of results and comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from passsearch.objectives import COMPILE_TIME, MEMORY, THROUGHPUT
from passsearch.report.formatting import (
    format_count,
    format_latency_ms,
    format_megabytes,
    format_number,
    format_ratio,
    lookup,
)

Document: TypeAlias = Mapping[str, Any]

RATIO_ONE: Document = {"ratio": 1.0, "interval": None}
"""Ratio of the baseline to itself."""

WITHHELD = "withheld"
"""Key of a row's measurement whose latency is not shown."""

MOST_CONTRADICTION = 1.2
"""Largest factor between two latencies' ratio and the ratio that runs in turns have read.

A search times each candidate at another moment, and the machine may be busy at one of them: the ratio to what ran in
turns with it then holds, and the latency does not. Where two candidates were confirmed side by side, both come from the
same processes, and a contradiction is evidence.
"""


@dataclass(frozen=True)
class Row:
    """One candidate of a table.

    Attributes:
        label: The candidate's name, or its passes if it has no name.
        measurement: The candidate's measurement.
        throughput_ratio: Throughput divided by the baseline's.
        compile_ratio: The baseline's compile time divided by the candidate's.
    """

    label: str
    measurement: Document
    throughput_ratio: Document | None
    compile_ratio: Document | None

    def cells(self, document: Document) -> tuple[str, ...]:
        """Return one text per column of ``column_titles(document)``."""
        # In millijoules: one inference takes a fraction of a joule on most devices.
        joules = self.measurement.get("energy_j")
        sensors = (
            format_number(None if joules is None else 1e3 * joules),
            format_number(lookup(self.measurement, "power_w", "median")),
            format_number(lookup(self.measurement, "temperature_c", "max")),
        )
        return (
            self.label,
            format_latency_ms(self.measurement),
            format_number(self.measurement.get("throughput_per_s"), 4),
            format_ratio(self.throughput_ratio),
            format_number(self.measurement.get("compile_s")),
            format_ratio(self.compile_ratio),
            format_megabytes(self.measurement.get("artifact_bytes")),
            format_count(lookup(self.measurement, "conditions", "threads")),
            *(self._memory_cells() if shows_memory(document) else ()),
            *(sensors if has_sensor_readings(document) else ()),
        )

    def _memory_cells(self) -> tuple[str, str]:
        sizes = (lookup(self.measurement, "memory_bytes", name) for name in ("peak_rss", "plan"))
        peak, plan = (format_megabytes(size) for size in sizes)
        return peak, plan


def column_titles(document: Document) -> tuple[str, ...]:
    """Return the titles of the columns.

    Memory is shown if it is an objective; energy, power and temperature if something was measured there.
    """
    name = baseline_name(document)
    memory = ("peak RAM MB", "planned MB") if shows_memory(document) else ()
    sensors = ("mJ", "W", "max °C") if has_sensor_readings(document) else ()
    compiled = ("compile s", f"{name}/compile", "MB", "threads")
    return ("", "latency ms", "per s", f"throughput/{name}", *compiled, *memory, *sensors)


def shows_memory(document: Document) -> bool:
    """Return whether memory is an objective of the run."""
    verdict = document.get("verdict") or {}
    return MEMORY.name in (verdict.get("objectives") or [verdict.get("objective")])


def recalled_note(document: Document) -> str:
    """Return the meaning of the rows' asterisk, which results of earlier versions have; empty if no row has one."""
    rows = _all_rows(document)
    if not any(row.measurement.get("recalled") for row in rows):
        return ""
    return "built or timed by an earlier run, and recalled from the fact cache; --fresh measures anew"


def load_note(document: Document) -> str:
    """Return why a row has no latency although it has a ratio; empty if all have one."""
    if not any(WITHHELD in row.measurement for row in _all_rows(document)):
        return ""
    return "timed while the machine had another load than for the baseline; the ratio is of runs in turns"


def _all_rows(document: Document) -> tuple[Row, ...]:
    return (*result_rows(document), *level_rows(document), *front_rows(document))


def _beside(reference: Document | None, measurement: Document, ratio: Document | None) -> Document:
    """Return a measurement without its latency where that contradicts its ratio to the reference."""
    own_s, other_s = (lookup(each, "latency_s", "median") for each in (measurement, reference))
    if not own_s or not other_s or not lookup(ratio, "ratio"):
        return measurement
    factor = other_s / own_s / lookup(ratio, "ratio")
    if max(factor, 1 / factor) <= MOST_CONTRADICTION:
        return measurement
    return {**measurement, "latency_s": None, "throughput_per_s": None, WITHHELD: True}


def has_sensor_readings(document: Document) -> bool:
    """Return whether energy, power or temperature was measured for any row."""
    baseline = document.get("baseline")
    rows = [*(document.get("rows") or []), *([baseline] if isinstance(baseline, Mapping) else [])]
    return any(row.get(metric) is not None for row in rows for metric in ("energy_j", "power_w", "temperature_c"))


def baseline_name(document: Document) -> str:
    """Return the baseline's name, from a result or a comparison."""
    baseline = document.get("baseline")
    name = baseline if isinstance(baseline, str) else lookup(baseline, "name")
    return str(name) if name else "baseline"


def result_rows(document: Document) -> list[Row]:
    """Return the rows of baseline, best sequence and winner, from the measurement that confirmed the winner.

    Without a confirmation, baseline and winner are as the search measured them. The sequence has a row only if it was
    timed beside the winner; it is the build of the search, so what a confirmation reads of fresh compiles stays empty.
    """
    ratios, best = document.get("ratios"), document.get("best") or {}
    reference = document.get("baseline") or {}
    baseline = Row(_mark(baseline_name(document), reference), reference, RATIO_ONE, RATIO_ONE)
    throughput = lookup(ratios, THROUGHPUT.name)
    # Beside a slow baseline the winner has few runs, so it has processes of its own.
    number = lookup(document, "verdict", "processes")
    is_apart = number is None or lookup(best, "latency_s", "processes") != number
    shown = _beside(reference, best, throughput) if is_apart else best
    winner = Row(_mark("best", best), shown, throughput, lookup(ratios, COMPILE_TIME.name))
    sequence = _sequence(document, is_confirmed=True)
    if sequence is None:
        return [baseline, winner]
    name = _mark(str(sequence["name"]), sequence)
    timed = _as_timed(sequence)
    timed = _beside(reference, timed, sequence["ratio"]) if is_apart else timed
    return [baseline, Row(name, timed, sequence["ratio"], None), winner]


def level_rows(document: Document) -> list[Row]:
    """Return the rows of what the search measured one by one: the compiler's other levels.

    The best sequence is the first of them where it was not timed beside the winner.
    """
    reference = find_by_name(document.get("baselines") or [], baseline_name(document))
    sequence = _sequence(document, is_confirmed=False)
    rows = ([] if sequence is None else [sequence]) + _other_levels(document)
    return [
        Row(
            _mark(label(row), row),
            _beside(reference, row, row.get("ratio")),
            row.get("ratio"),
            _compile_ratio(reference, row),
        )
        for row in rows
    ]


def levels_title(document: Document) -> str:
    """Return the title of the rows of ``level_rows``."""
    names = [] if _sequence(document, is_confirmed=False) is None else ["best sequence"]
    names += ["other levels"] if _other_levels(document) else []
    return f"{' and '.join(names)}, from the search (one compile and one process each)"


def _other_levels(document: Document) -> list[Document]:
    # Some sequences of the catalog are baselines as well.
    sequence = _sequence(document, is_confirmed=False) or {}
    shown = {baseline_name(document), sequence.get("name")}
    return [level for level in document.get("baselines") or [] if level.get("name") not in shown]


def _sequence(document: Document, *, is_confirmed: bool) -> Document | None:
    """Return the best sequence of the catalog; ``None`` if it is the winner, or was timed otherwise than asked.

    Args:
        document: The result.
        is_confirmed: True for a sequence that was timed beside the winner, false for one that was not.
    """
    sequence: Document | None = document.get("sequence")
    if not sequence or sequence["is_best"]:
        return None
    return sequence if bool(lookup(sequence, "gain", "interval")) == is_confirmed else None


def _as_timed(sequence: Document) -> Document:
    """Return what of a sequence was measured beside the winner: all but compile time and consumption."""
    return {**sequence, **dict.fromkeys(("compile_s", "energy_j", "power_w", "temperature_c"))}


def comparison_rows(document: Document) -> list[Row]:
    """Return the pipelines that could be measured, in the order of the request."""
    rows = [row for row in document.get("rows") or [] if "failure" not in row]
    reference = find_by_name(rows, baseline_name(document))
    return [Row(label(row), row, row.get("ratio"), _compile_ratio(reference, row)) for row in rows]


def front_rows(document: Document) -> list[Row]:
    """Return the Pareto front, numbered; empty if there is only one objective."""
    reference = find_by_name(document.get("baselines") or [], baseline_name(document))
    rows = [
        Row(
            _mark(str(number), candidate),
            _beside(reference, candidate, candidate.get("ratio")),
            candidate.get("ratio"),
            _compile_ratio(reference, candidate),
        )
        for number, candidate in enumerate(document.get("pareto") or [], 1)
    ]
    return rows if len(rows) > 1 else []


def _mark(name: str, measurement: Document) -> str:
    """Return a row's name, with an asterisk if an earlier run measured it."""
    return f"{name}*" if measurement.get("recalled") else name


def label(candidate: Document) -> str:
    """Return the first column's text for a candidate."""
    name = candidate.get("name") or candidate.get("pipeline")
    level = f"O{format_count(lookup(candidate, 'build', 'opt_level'))}"
    # With passes of the build disabled, the build is none of TVM's levels, so calling it `O3` would be wrong.
    return str(name or ("no explicit pass" if lookup(candidate, "build", "disabled") else level))


def find_by_name(candidates: Sequence[Document], name: str) -> Document | None:
    """Return the first candidate with this name."""
    return next((candidate for candidate in candidates if candidate.get("name") == name), None)


def _compile_ratio(reference: Document | None, measurement: Document) -> Document | None:
    """Return the ratio of two compile times; one compile each gives no interval."""
    first, second = lookup(reference, "compile_s"), measurement.get("compile_s")
    return {"ratio": first / second, "interval": None} if first and second else None
