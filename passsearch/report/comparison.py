"""Comparisons as text for a terminal and as HTML for notebooks."""

from collections.abc import Iterator, Sequence

from passsearch.report.bits import comparison_bits_lines
from passsearch.report.charts import chart_svg, ratio_chart
from passsearch.report.elements import definitions, details, fragment, headline, html_table, paragraphs
from passsearch.report.formatting import MISSING, format_count, format_floor, format_percent, format_ratio
from passsearch.report.rows import column_titles, comparison_rows, label
from passsearch.report.table import paragraph_lines, table, text_width
from passsearch.report.text import contradiction_text, failure_text, setup_lines
from passsearch.results import Comparison

PAIRS_TITLE = "throughput, intervals corrected for the number of pairs"


def comparison_text(comparison: Comparison, *, width: int | None = None) -> str:
    """Return a comparison: one row per pipeline, with its measurement or the reason why it failed.

    Args:
        comparison: The comparison.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    titles, pairs = column_titles(comparison), _pair_cells(comparison)
    parts = [
        paragraph_lines(setup_lines(comparison), width=width),
        table(titles, [row.cells(comparison) for row in comparison_rows(comparison)], width=width, right=titles[1:]),
        table((PAIRS_TITLE, "ratio", "verdict"), pairs, width=width, right=("ratio",)) if pairs else "",
        paragraph_lines(measurement_lines(comparison), width=width),
    ]
    return "\n\n".join(part for part in parts if part)


def comparison_html(comparison: Comparison) -> str:
    """Return a comparison: a row and an interval per pipeline, the verdict on every pair, and how it was measured."""
    rows, floor, pairs = comparison_rows(comparison), comparison.noise_floor, _pair_cells(comparison)
    ratios = [(row.label, row.throughput_ratio) for row in rows]
    noise = "no noise floor" if floor is None else f"noise floor {format_percent(floor)}"
    return fragment(
        headline(f"{comparison.model.name}: {noise}"),
        html_table(column_titles(comparison), [row.cells(comparison) for row in rows]),
        chart_svg(ratio_chart("Comparison", f"throughput, {comparison.baseline} = 1", ratios)),
        html_table((PAIRS_TITLE, "ratio", "verdict"), pairs, is_text=True) if pairs else "",
        paragraphs(measurement_lines(comparison)),
        details("Network and machine", definitions(setup_lines(comparison))),
    )


def measurement_lines(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield titles and texts on how a comparison was measured, how far its ratios hold, and what failed."""
    yield "protocol", _protocol(comparison)
    yield "noise floor", _noise_floor(comparison)
    for row, measured in zip(comparison_rows(comparison), comparison.measured, strict=True):
        text = contradiction_text(row.throughput_ratio, measured.ratio_of_medians)
        if text:
            yield f"estimators of {row.label}", text
    yield from comparison_bits_lines(comparison)
    for failed in comparison.failed:
        yield label(failed), f"failed: {failure_text(failed.failure)}"


def _protocol(comparison: Comparison) -> str:
    """Return what was run in how many processes, in which state of the caches, and what a ratio is of."""
    number = comparison.processes
    processes = f"{number} {'process' if number == 1 else 'processes'}"
    cache = f", {comparison.cache} caches" if comparison.cache else ""
    if comparison.protocol == "cf22":
        runs = format_count(comparison.runs)
        return (
            f"cf22 ({runs} runs in a row of each pipeline, in {processes}{cache}); every ratio is of one compile per "
            "pipeline, by the mean of the runs within three standard deviations"
        )
    each = " of each toolchain" if comparison.toolchains else ""
    mean = "" if number == 1 else ", mean over processes"
    return (
        f"paired (pipelines take turns in {processes}{each}{cache}); every ratio is of one compile per pipeline, by "
        f"the fastest runs{mean}"
    )


def _noise_floor(comparison: Comparison) -> str:
    """Return the noise floor, or the reason why there is none."""
    if comparison.noise_floor is not None:
        return format_floor(comparison.noise_floor)
    if comparison.protocol == "cf22":
        return "none, and no verdicts: runs in a row share every drift of the machine, so a ratio has no interval"
    if comparison.processes == 1:
        return "none, so no difference is significant: one process has no interval (give --processes 2 or more)"
    return MISSING


def _pair_cells(comparison: Comparison) -> Sequence[tuple[str, str, str]]:
    """Return the cells of every two pipelines: their names, the ratio and the verdict."""
    return [(f"{pair.second} / {pair.first}", format_ratio(pair.stated), pair.verdict) for pair in comparison.pairs]
