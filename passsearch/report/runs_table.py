"""Several runs in one table, a row per run."""

from collections.abc import Sequence

from passsearch.objectives import COMPILE_TIME, THROUGHPUT
from passsearch.report.formatting import MISSING, format_latency_ms, format_ratio
from passsearch.report.headline import headline_text
from passsearch.report.listings import run_outcome
from passsearch.report.rivals import hardest_rival
from passsearch.report.rows import load_note, result_rows
from passsearch.report.run_record import RunRecord
from passsearch.report.table import paragraph, table, text_width
from passsearch.results import winner_latency

RUN_TITLES = (
    "run",
    "network",
    "compiler",
    "device",
    "latency ms",
    "beside",
    "throughput gain",
    "compile gain",
    "outcome",
)


def run_cells(record: RunRecord) -> tuple[str, ...]:
    """Return a cell per title of ``RUN_TITLES``."""
    result = record.result
    return (
        record.folder.name if record.folder else "",
        result.model.source,
        f"{result.toolchain.name}, TVM {result.toolchain.tvm_version}",
        result.device.name,
        format_latency_ms(winner_latency(result)),
        hardest_rival(result.rivals),
        format_ratio(result.ratio_of(THROUGHPUT.name)),
        format_ratio(result.ratio_of(COMPILE_TIME.name)),
        run_outcome(result.verdict, is_interrupted=result.interrupted),
    )


def runs_side_by_side_text(records: Sequence[RunRecord], *, width: int | None = None) -> str:
    """Return a table with a row per run, and below it what each run gained.

    Args:
        records: The runs.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    rows = [run_cells(record) for record in records]
    gains = [_gain(record, width=width) for record in records]
    if hidden := load_note(result_rows(record.result)[-1] for record in records):
        gains.append(paragraph(f"latency {MISSING}", hidden, width=width))
    return "\n\n".join([table(RUN_TITLES, rows, width=width), "\n".join(gains)])


def _gain(record: RunRecord, *, width: int) -> str:
    """Return what a run gained, after its folder, if that is not named like its network."""
    text, folder = headline_text(record.result), record.folder.name if record.folder else ""
    return paragraph("" if folder == record.result.model.name else folder, text, width=width)
