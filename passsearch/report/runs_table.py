"""Several runs in one table, a row per run."""

from collections.abc import Sequence

from passsearch.objectives import COMPILE_TIME, THROUGHPUT
from passsearch.report.formatting import format_latency_ms, format_ratio, lookup
from passsearch.report.headline import headline_text
from passsearch.report.listings import run_outcome
from passsearch.report.run_record import RunRecord
from passsearch.report.table import paragraph, table, text_width

RUN_TITLES = ("run", "network", "compiler", "device", "latency ms", "throughput gain", "compile gain", "outcome")


def run_cells(record: RunRecord) -> tuple[str, ...]:
    """Return a cell per title of ``RUN_TITLES``."""
    document = record.document
    return (
        record.folder.name if record.folder else "",
        str(lookup(document, "model", "source") or ""),
        f"{lookup(document, 'toolchain', 'name')}, TVM {lookup(document, 'toolchain', 'tvm_version')}",
        str(lookup(document, "device", "name") or ""),
        format_latency_ms(document.get("best")),
        format_ratio(lookup(document, "ratios", THROUGHPUT.name)),
        format_ratio(lookup(document, "ratios", COMPILE_TIME.name)),
        run_outcome(document),
    )


def runs_side_by_side_text(records: Sequence[RunRecord], *, width: int | None = None) -> str:
    """Return a table with a row per run, and below it what each run gained.

    Args:
        records: The runs.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    rows = [run_cells(record) for record in records]
    gains = [
        paragraph(cells[0], headline_text(record.document), width=width)
        for cells, record in zip(rows, records, strict=True)
    ]
    return "\n\n".join([table(RUN_TITLES, rows, width=width), "\n".join(gains)])
