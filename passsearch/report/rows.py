"""Rows of the tables and plots of results and comparisons."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from passsearch.objectives import COMPILE_TIME, MEMORY, THROUGHPUT
from passsearch.report.formatting import (
    MISSING,
    format_latency_ms,
    format_megabytes,
    format_number,
    format_ratio,
)
from passsearch.results import (
    BestOfCatalog,
    Candidate,
    Comparison,
    Latency,
    NamedPipeline,
    RunResult,
    StatedRatio,
    contradicts,
    is_withheld,
)

Measured: TypeAlias = RunResult | Comparison

C = TypeVar("C", bound=Candidate)

RATIO_ONE = StatedRatio(1.0)
"""Ratio of the baseline to itself."""


@dataclass(frozen=True)
class Row:
    """One candidate of a table.

    Attributes:
        label: The candidate's name, or its passes if it has no name.
        candidate: The candidate with its measurement.
        throughput_ratio: Throughput divided by the baseline's.
        compile_ratio: The baseline's compile time divided by the candidate's.
        is_withheld: True if its latency is not shown.
    """

    label: str
    candidate: Candidate
    throughput_ratio: StatedRatio | None
    compile_ratio: StatedRatio | None
    is_withheld: bool = False

    @property
    def latency_s(self) -> Latency | None:
        """The latency, where it is shown."""
        return None if self.is_withheld else self.candidate.latency_s

    def cells(self, document: Measured) -> tuple[str, ...]:
        """Return one text per column of ``column_titles(document)``."""
        measured = self.candidate
        # In millijoules: one inference takes a fraction of a joule on most devices.
        sensors = (
            format_number(None if measured.energy_j is None else 1e3 * measured.energy_j),
            format_number(measured.power_w.median if measured.power_w else None),
            format_number(measured.temperature_c.max if measured.temperature_c else None),
        )
        memory = measured.memory_bytes
        sizes = (memory.peak_rss, memory.plan) if memory else (None, None)
        threads = (measured.conditions or {}).get("threads")
        return (
            self.label,
            format_latency_ms(self.latency_s),
            format_number(None if self.is_withheld else measured.throughput_per_s, 4),
            format_ratio(self.throughput_ratio),
            format_number(measured.compile_s),
            format_ratio(self.compile_ratio),
            format_megabytes(measured.artifact_bytes),
            MISSING if threads is None else str(threads),
            *(map(format_megabytes, sizes) if shows_memory(document) else ()),
            *(sensors if has_sensor_readings(document) else ()),
        )


def column_titles(document: Measured) -> tuple[str, ...]:
    """Return the titles of the columns.

    Memory is shown if it is an objective; energy, power and temperature if something was measured there.
    """
    name = document.baseline_name
    memory = ("peak RAM MB", "planned MB") if shows_memory(document) else ()
    sensors = ("mJ", "W", "max °C") if has_sensor_readings(document) else ()
    compiled = ("compile s", f"{name}/compile", "MB", "threads")
    return ("", "latency ms", "per s", f"throughput/{name}", *compiled, *memory, *sensors)


def shows_memory(document: Measured) -> bool:
    """Return whether memory is an objective of the run."""
    if isinstance(document, Comparison):
        return False
    return MEMORY.name in (document.verdict.objectives or [document.verdict.objective])


def recalled_note(result: RunResult) -> str:
    """Return the meaning of the rows' asterisk, which results of earlier versions have; empty if no row has one."""
    if not any(row.candidate.recalled for row in all_rows(result)):
        return ""
    return "built or timed by an earlier run, and recalled from the fact cache; --fresh measures anew"


def load_note(rows: Iterable[Row]) -> str:
    """Return why a row has no latency although it has a ratio; empty if all have one."""
    if not any(row.is_withheld for row in rows):
        return ""
    return "timed while the machine had another load than for the baseline; the ratio is of runs in turns"


def all_rows(result: RunResult) -> tuple[Row, ...]:
    """Return the rows of all tables of a result as text."""
    return (*result_rows(result), *level_rows(result), *front_rows(result))


def has_sensor_readings(document: Measured) -> bool:
    """Return whether energy, power or temperature was measured for any row."""
    rows: Sequence[Candidate] = document.measured if isinstance(document, Comparison) else [document.baseline]
    return any(reading is not None for row in rows for reading in (row.energy_j, row.power_w, row.temperature_c))


def result_rows(result: RunResult) -> list[Row]:
    """Return the rows of baseline, best sequence and winner, from the measurement that confirmed the winner.

    Without a confirmation, baseline and winner are as the search measured them. The sequence has a row only if it was
    timed beside the winner; it is the build of the search, so what a confirmation reads of fresh compiles stays empty.
    """
    reference, best, throughput = result.baseline, result.best, result.ratio_of(THROUGHPUT.name)
    rows = [
        Row(_mark(result.baseline_name, reference), reference, RATIO_ONE, RATIO_ONE),
        Row(
            _mark("best", best),
            best,
            throughput,
            result.ratio_of(COMPILE_TIME.name),
            is_withheld(result, best, throughput),
        ),
    ]
    if sequence := _sequence(result, is_confirmed=True):
        # All but compile time and consumption was measured beside the winner.
        timed = replace(sequence, compile_s=None, energy_j=None, power_w=None, temperature_c=None)
        is_hidden = is_withheld(result, timed, sequence.ratio)
        rows.insert(1, Row(_mark(str(sequence.name), sequence), timed, sequence.ratio, None, is_hidden))
    return rows


def level_rows(result: RunResult) -> list[Row]:
    """Return the rows of what the search measured one by one: the compiler's other levels.

    The best sequence is the first of them where it was not timed beside the winner.
    """
    sequence = _sequence(result, is_confirmed=False)
    rows = ([] if sequence is None else [sequence]) + _other_levels(result)
    return [_row(_mark(label(row), row), row, search_baseline(result)) for row in rows]


def levels_title(result: RunResult) -> str:
    """Return the title of the rows of ``level_rows``."""
    names = [] if _sequence(result, is_confirmed=False) is None else ["best sequence"]
    names += ["other levels"] if _other_levels(result) else []
    return f"{' and '.join(names)}, from the search (one compile and one process each)"


def _other_levels(result: RunResult) -> list[Candidate]:
    # Some sequences of the catalog are baselines as well.
    sequence = _sequence(result, is_confirmed=False)
    shown = {result.baseline_name, *([sequence.name] if sequence else ())}
    return [level for level in result.baselines if level.name not in shown]


def _sequence(result: RunResult, *, is_confirmed: bool) -> BestOfCatalog | None:
    """Return the best sequence of the catalog; ``None`` if it is the winner, or was timed otherwise than asked.

    Args:
        result: The result.
        is_confirmed: True for a sequence that was timed beside the winner, false for one that was not.
    """
    sequence = result.sequence
    return None if sequence is None or sequence.is_best or sequence.is_timed != is_confirmed else sequence


def comparison_rows(comparison: Comparison) -> list[Row]:
    """Return the pipelines that could be measured, in the order of the request."""
    reference = find_by_name(comparison.measured, comparison.baseline)
    return [Row(label(row), row, row.ratio, _compile_ratio(reference, row)) for row in comparison.measured]


def front_rows(result: RunResult) -> list[Row]:
    """Return the Pareto front, numbered; empty if there is only one objective."""
    rows = [
        _row(_mark(str(number), candidate), candidate, search_baseline(result))
        for number, candidate in enumerate(result.pareto, 1)
    ]
    return rows if len(rows) > 1 else []


def trial_rows(result: RunResult) -> list[Row]:
    """Return the rows of all candidates, as the search measured them."""
    return [_row(label(trial), trial, search_baseline(result)) for trial in result.trials]


def _row(name: str, candidate: Candidate, reference: Candidate | None) -> Row:
    """Return the row of what the search measured."""
    ratio, compile_ratio = candidate.ratio, _compile_ratio(reference, candidate)
    return Row(name, candidate, ratio, compile_ratio, contradicts(reference, candidate, ratio))


def _mark(name: str, candidate: Candidate) -> str:
    """Return a row's name, with an asterisk if an earlier run measured it."""
    return f"{name}*" if candidate.recalled else name


def label(candidate: NamedPipeline) -> str:
    """Return the first column's text for a candidate."""
    name = candidate.name or candidate.pipeline
    # With passes of the build disabled, the build is none of TVM's levels, so calling it `O3` would be wrong.
    return name or ("no explicit pass" if candidate.build.disabled else f"O{candidate.build.opt_level}")


def search_baseline(result: RunResult) -> Candidate | None:
    """Return the baseline as the search measured it."""
    return find_by_name(result.baselines, result.baseline_name)


def find_by_name(candidates: Sequence[C], name: str) -> C | None:
    """Return the first candidate with this name."""
    return next((candidate for candidate in candidates if candidate.name == name), None)


def _compile_ratio(reference: Candidate | None, candidate: Candidate) -> StatedRatio | None:
    """Return the ratio of two compile times; one compile each gives no interval."""
    first, second = reference and reference.compile_s, candidate.compile_s
    return StatedRatio(first / second) if first and second else None
