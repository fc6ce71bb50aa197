"""Comparisons as text for a terminal and as HTML for notebooks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from passsearch.report.charts import chart_svg, ratio_chart
from passsearch.report.elements import definitions, details, fragment, headline, html_table, paragraphs
from passsearch.report.formatting import MISSING, format_count, format_floor, format_percent, format_ratio
from passsearch.report.rows import baseline_name, column_titles, comparison_rows, label
from passsearch.report.table import paragraph_lines, table, text_width
from passsearch.report.text import contradiction_text, failure_text, setup_lines

PAIRS_TITLE = "throughput, intervals corrected for the number of pairs"


def comparison_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """Return a comparison: one row per pipeline, with its measurement or the reason why it failed.

    Args:
        document: A comparison, as ``api.compare`` returns it.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    titles, pairs = column_titles(document), _pair_cells(document)
    parts = [
        paragraph_lines(setup_lines(document), width=width),
        table(titles, [row.cells(document) for row in comparison_rows(document)], width=width, right=titles[1:]),
        table((PAIRS_TITLE, "ratio", "verdict"), pairs, width=width, right=("ratio",)) if pairs else "",
        paragraph_lines(measurement_lines(document), width=width),
    ]
    return "\n\n".join(part for part in parts if part)


def comparison_html(document: Mapping[str, Any]) -> str:
    """Return a comparison: a row and an interval per pipeline, the verdict on every pair, and how it was measured."""
    rows, floor, pairs = comparison_rows(document), document.get("noise_floor"), _pair_cells(document)
    ratios = [(row.label, row.throughput_ratio) for row in rows]
    noise = "no noise floor" if floor is None else f"noise floor {format_percent(floor)}"
    return fragment(
        headline(f"{document['model']['name']}: {noise}"),
        html_table(column_titles(document), [row.cells(document) for row in rows]),
        chart_svg(ratio_chart("Comparison", f"throughput, {baseline_name(document)} = 1", ratios)),
        html_table((PAIRS_TITLE, "ratio", "verdict"), pairs, is_text=True) if pairs else "",
        paragraphs(measurement_lines(document)),
        details("Network and machine", definitions(setup_lines(document))),
    )


def measurement_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield titles and texts on how a comparison was measured, how far its ratios hold, and what failed."""
    yield "protocol", _protocol(document)
    yield "noise floor", _noise_floor(document)
    for row in comparison_rows(document):
        text = contradiction_text(row.throughput_ratio, row.measurement.get("ratio_of_medians"))
        if text:
            yield f"estimators of {row.label}", text
    for failed in document.get("rows") or []:
        if "failure" in failed:
            yield label(failed), f"failed: {failure_text(failed['failure'])}"


def _protocol(document: Mapping[str, Any]) -> str:
    """Return what was run in how many processes, in which state of the caches, and what a ratio is of."""
    number = document.get("processes")
    processes = f"{format_count(number)} {'process' if number == 1 else 'processes'}"
    cache = f", {document['cache']} caches" if document.get("cache") else ""
    if document.get("protocol") == "cf22":
        runs = format_count(document.get("runs"))
        return (
            f"cf22 ({runs} runs in a row of each pipeline, in {processes}{cache}); every ratio is of one compile per "
            "pipeline, by the mean of the runs within three standard deviations"
        )
    each = " of each toolchain" if document.get("toolchains") else ""
    mean = "" if number == 1 else ", mean over processes"
    return (
        f"paired (pipelines take turns in {processes}{each}{cache}); every ratio is of one compile per pipeline, by "
        f"the fastest runs{mean}"
    )


def _noise_floor(document: Mapping[str, Any]) -> str:
    """Return the noise floor, or the reason why there is none."""
    if document.get("noise_floor") is not None:
        return format_floor(document["noise_floor"])
    if document.get("protocol") == "cf22":
        return "none, and no verdicts: runs in a row share every drift of the machine, so a ratio has no interval"
    if document.get("processes") == 1:
        return "none, so no difference is significant: one process has no interval (give --processes 2 or more)"
    return MISSING


def _pair_cells(document: Mapping[str, Any]) -> Sequence[tuple[str, str, str]]:
    """Return the cells of every two pipelines: their names, the ratio and the verdict."""
    return [
        (f"{pair['second']} / {pair['first']}", format_ratio(pair), str(pair["verdict"]))
        for pair in document.get("pairs") or []
    ]
