"""A profile as text and as HTML: time by block and by kernel, and what bounds each kernel."""

from collections.abc import Iterator, Sequence

from passsearch.errors import UserError
from passsearch.report.charts import Chart, blocks_chart, chart_svg, has_roofline, roofline_chart
from passsearch.report.elements import definitions, details, fragment, html_table
from passsearch.report.formatting import MISSING, format_number, format_percent, format_time, html_text
from passsearch.report.table import paragraph, paragraph_lines, table, text_width
from passsearch.report.text import device_text
from passsearch.results import Profile, ProfiledKernel, ProfiledPipeline

MOST_KERNELS = 12
"""Kernels of a pipeline that have a line of their own."""

FAR = 0.25
"""Share of the roof below which neither memory nor arithmetic explains a kernel's time."""

KERNEL_TITLES = ("kernel", "calls", "ms", "share", "GFLOP/s", "GB/s", "of roof", "bound by", "code kB")
ENERGY_TITLE = "mJ"
_RIGHT = ("calls", "ms", "share", "GFLOP/s", "GB/s", "of roof", "code kB", ENERGY_TITLE)
_CHARTS = {"roofline": roofline_chart, "blocks": blocks_chart}


def profile_chart(profile: Profile, kind: str) -> Chart:
    """Return a chart of a profile.

    Raises:
        UserError: There is no such chart, or the profile lacks what it shows.
    """
    if kind not in _CHARTS:
        raise UserError(f"Unknown chart `{kind}`; choose from: {', '.join(_CHARTS)}.")
    return _CHARTS[kind](profile)


def profile_text(profile: Profile, *, width: int | None = None) -> str:
    """Return a profile: the time of each block side by side, then the kernels of each pipeline.

    Args:
        profile: The profile.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    parts = [paragraph_lines(setup_rows(profile), width=width)]
    titles, rows = block_rows(profile)
    if rows:
        parts.append(table(titles, rows, width=width, right=titles[1:]))
    for pipeline in profile.pipelines:
        head = paragraph(name_text(pipeline), sum_text(pipeline), width=width)
        parts.append(f"{head}\n{table(kernel_titles(pipeline), kernel_rows(pipeline), width=width, right=_RIGHT)}")
    parts.append(paragraph_lines(tail_rows(profile), width=width))
    return "\n\n".join(parts)


def profile_html(profile: Profile) -> str:
    """Return a profile as an HTML fragment for notebooks: tables and charts."""
    titles, rows = block_rows(profile)
    kernels = [
        f'<p class="headline">{html_text(name_text(pipeline))}</p><p>{html_text(sum_text(pipeline))}</p>'
        + html_table(kernel_titles(pipeline), kernel_rows(pipeline))
        for pipeline in profile.pipelines
    ]
    return fragment(
        chart_svg(blocks_chart(profile)) if rows else "",
        html_table(titles, rows) if rows else "",
        chart_svg(roofline_chart(profile)) if has_roofline(profile) else "",
        *kernels,
        definitions(tail_rows(profile)),
        details("Network and machine", definitions(setup_rows(profile))),
    )


def setup_rows(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield title and text of what was measured, and on which machine."""
    model, peaks = profile.model, profile.peaks
    yield "network", f"{model.name} ({model.source}), batch {model.batch}"
    if cases := model.cases:
        weights = ", ".join(f"{case.name} {format_number(case.weight)}" for case in cases)
        yield "cases", f"times are means by weight: {weights}"
    yield "device", f"{device_text(profile.device)}; {profile.threads} threads"
    yield "date", format_time(profile.measured_at or "")
    if peaks:
        speeds = (format_number(peak / 1e9) for peak in (peaks.flops, peaks.bytes_per_s))
        yield "peaks", "{} GFLOP/s in single precision, {} GB/s read from memory, measured here".format(*speeds)
    else:
        yield "peaks", profile.peaks_reason


def name_text(pipeline: ProfiledPipeline) -> str:
    """Return the name of a pipeline."""
    return str(pipeline.name or pipeline.pipeline or "(no explicit pass)")


def sum_text(pipeline: ProfiledPipeline) -> str:
    """Return what the kernels of a pipeline sum to, and what the rest of the inference is."""
    rest = ", ".join(f"{name} {_milli(seconds)} ms" for name, seconds in pipeline.rest.items())
    number = sum(row.calls for row in pipeline.kernels)
    is_slowed = min(pipeline.rest.values(), default=0.0) < 0
    why = "they ran alone" if pipeline.is_alone else "watching the calls slows them"
    slowed = f"; {why}, so they sum to more than an inference" if is_slowed else ""
    return (
        f"{_milli(pipeline.whole_s)} ms an inference; {number} calls of {len(pipeline.kernels)} kernels take "
        f"{_milli(pipeline.kernels_s)} ms, {format_percent(pipeline.kernels_share)}; the rest: {rest}{slowed}"
    )


def block_rows(profile: Profile) -> tuple[Sequence[str], list[list[str]]]:
    """Return titles and rows of the table of blocks; no row if no pipeline shows them."""
    pipelines = [each for each in profile.pipelines if each.blocks]
    times = [{row.part: row.seconds for row in each.blocks or ()} for each in pipelines]
    parts = list(dict.fromkeys(part for each in times for part in each))
    titles = ("part", *(f"{name_text(each)} ms" for each in pipelines))
    rows = [[part, *(_milli(each.get(part)) for each in times)] for part in parts]
    if len(times) < 2:
        return titles, rows
    ratios = [_times_faster(times[0].get(part), times[-1].get(part)) for part in parts]
    return (*titles, "x faster"), [[*row, ratio] for row, ratio in zip(rows, ratios, strict=True)]


def kernel_titles(pipeline: ProfiledPipeline) -> Sequence[str]:
    """Return the titles of the table of kernels."""
    return (*KERNEL_TITLES, ENERGY_TITLE) if _has_energy(pipeline) else KERNEL_TITLES


def kernel_rows(pipeline: ProfiledPipeline) -> list[list[str]]:
    """Return the rows of the slowest kernels of a pipeline, and one for all others."""
    rows, whole_s = pipeline.kernels, pipeline.whole_s
    cells = [_kernel_cells(row, whole_s) for row in rows[:MOST_KERNELS]]
    if others := rows[MOST_KERNELS:]:
        seconds, calls = sum(row.seconds for row in others), sum(row.calls for row in others)
        share = format_percent(seconds / whole_s)
        cells.append([f"{len(others)} others", str(calls), _milli(seconds), share, *[MISSING] * 5])
    if not _has_energy(pipeline):
        return cells
    energies_j = [row.energy_j for row in rows[:MOST_KERNELS]]
    if others:
        known_j = [row.energy_j for row in others if row.energy_j is not None]
        energies_j.append(sum(known_j) if len(known_j) == len(others) else None)
    return [[*row, _milli(energy_j)] for row, energy_j in zip(cells, energies_j, strict=True)]


def _has_energy(pipeline: ProfiledPipeline) -> bool:
    return any(row.energy_j is not None for row in pipeline.kernels)


def tail_rows(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield title and text of what the columns mean."""
    yield (
        "of roof",
        "the least time that the peaks allow for a kernel's operations and for the bytes of its arguments, as a share "
        "of its time; above 100 % the bytes came from caches",
    )
    yield "bound by", f"what takes longer at the peaks; neither where the kernel has less than {format_percent(FAR)}"
    yield "GFLOP/s", "additions, multiplications and comparisons; functions such as exp count as none"
    yield "code", "machine code of one kernel"
    if any(map(_has_energy, profile.pipelines)):
        yield (
            ENERGY_TITLE,
            "energy of the whole device for all calls of a kernel in an inference, repeated alone for seconds",
        )
    elif reason := profile.unavailable.get("energy_j"):
        yield "energy", f"not shown: {reason}"
    if any(each.is_alone for each in profile.pipelines):
        yield (
            "ms",
            "of kernels that ran alone, because this runtime does not tell the calls of an inference apart; some "
            "microseconds, which a launch takes, are the least",
        )
    hidden = [name_text(each) for each in profile.pipelines if each.blocks is None]
    if hidden:
        reason = "several cases, no repeats, kernels that ran alone, or that do not match the operators"
        yield "blocks", f"not shown for {', '.join(hidden)}: {reason}"


def _kernel_cells(row: ProfiledKernel, whole_s: float) -> list[str]:
    seconds, calls = row.seconds, row.weighted_calls
    costs = (row.flops, row.bytes)
    rates = [None if cost is None or not seconds else calls * cost / seconds / 1e9 for cost in costs]
    return [
        row.kernel,
        str(row.calls),
        _milli(seconds),
        format_percent(seconds / whole_s),
        *(MISSING if rate is None else format_number(rate) for rate in rates),
        format_percent(row.roof_share),
        _bound(row),
        MISSING if row.code_bytes is None else format_number(row.code_bytes / 1e3),
    ]


def _bound(row: ProfiledKernel) -> str:
    if row.bound is None:
        return MISSING
    return row.bound if row.roof_share is not None and row.roof_share >= FAR else "neither"


def _times_faster(first: float | None, last: float | None) -> str:
    return format_number(first / last) if first and last else MISSING


def _milli(value: float | None) -> str:
    return MISSING if value is None else format_number(1e3 * value)
