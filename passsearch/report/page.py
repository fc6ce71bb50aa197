"""The report of one run or of several side by side, as one page that works offline.

Charts are static SVG. A page with plotly.js would be 4.8 MB larger and run a script; with static drawings a report is
some 100 kB, can be mailed, and is shown where scripts are not allowed. Notebooks have the same charts as plotly
figures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from passsearch.errors import UserError
from passsearch.objectives import COMPILE_TIME, THROUGHPUT
from passsearch.report.ablation_text import ablation_lines
from passsearch.report.charts import (
    OTHER,
    Chart,
    ablation_chart,
    chart_html,
    history_chart,
    kernels_chart,
    pareto_chart,
    precision_chart,
    ratio_chart,
    ratios_chart,
    space_chart,
)
from passsearch.report.commands import follow_up_commands, tune_command
from passsearch.report.elements import definitions, details, html_table, note, page, paragraphs, section
from passsearch.report.formatting import format_latency_ms, format_number, format_ratio, format_time, html_text
from passsearch.report.headline import headline_text
from passsearch.report.html import front_html
from passsearch.report.precision import LAYER_TITLES, layer_rows
from passsearch.report.rivals import rival_lines
from passsearch.report.rows import column_titles, level_rows, levels_title, load_note, result_rows, trial_rows
from passsearch.report.run_record import RunRecord
from passsearch.report.runs_table import RUN_TITLES, run_cells
from passsearch.report.text import evidence_lines, failure_lines, setup_lines
from passsearch.report.verdict import verdict_text, warning_lines
from passsearch.report.winner import winner_section
from passsearch.results import Input, PrecisionDecision, RunResult

MOST_FAILURES = 50
"""Failed candidates that are listed one by one."""


def report_page(records: Sequence[RunRecord]) -> str:
    """Return the report of runs as a complete HTML page."""
    if len(records) == 1:
        return page(f"passsearch: {records[0].result.model.name or 'a run'}", *_run(records[0], heading="h1"))
    runs = (details(headline_text(record.result), *_run(record, heading="h2")) for record in records)
    return page(f"passsearch: {len(records)} runs", *_side_by_side(records), *runs)


def _run(record: RunRecord, *, heading: str) -> Iterable[str]:
    """Yield the parts of one run's report."""
    result = record.result
    yield '<header><p class="mark">passsearch report</p>'
    yield f"<{heading}>{html_text(headline_text(result))}</{heading}>"
    yield f'<p class="verdict">{html_text(verdict_text(result))}</p>'
    yield f"{paragraphs(warning_lines(result))}{definitions(setup_lines(result))}</header>"
    yield _measurements(result)
    yield winner_section(record)
    yield section("What every pass is worth", *_ablation(record))
    if isinstance(result.precision, PrecisionDecision):
        yield section("Precision of every layer", *_precision(result.precision))
    yield section("Kernels side by side", _chart(lambda: kernels_chart(record)))
    yield section("History of the search", *_history(record))
    yield section("What was explored", *_space(record))
    yield _failures(result)
    yield section("Provenance", definitions(_provenance(record)))
    yield section(
        "Make it again",
        f"<pre>{html_text(tune_command(record))}</pre>",
        "<p>Check, explain and export this run:</p>",
        f"<pre>{html_text(follow_up_commands(record))}</pre>",
    )


def _measurements(result: RunResult) -> str:
    titles = column_titles(result)
    levels = level_rows(result)
    level_table = html_table(titles, [row.cells(result) for row in levels]) if levels else ""
    skipped = ("failures", "reproducer", "seconds", "space")
    evidence = [(title, text) for title, text in evidence_lines(result) if title not in skipped]
    return section(
        "Measurements",
        chart_html(ratios_chart(result)) if result.ratios else "",
        html_table(titles, [row.cells(result) for row in result_rows(result)]),
        definitions(rival_lines(result.rivals)),
        f"<h3>{html_text(levels_title(result).capitalize())}</h3>{level_table}" if levels else "",
        front_html(result),
        details("Evidence", definitions(evidence)),
    )


def _ablation(record: RunRecord) -> Iterable[str]:
    if record.ablation is None:
        yield note(f"Not measured yet. Measure it: passsearch ablate {record.folder or 'RUN'}")
        return
    yield f"<p>{html_text(record.ablation.headline)}</p>"
    for kind in ("ladder", "without"):
        for metric in (THROUGHPUT.name, COMPILE_TIME.name):
            chart = ablation_chart(record, metric=metric, kind=kind)
            if chart.series:
                yield f"<h3>{html_text(chart.title)}</h3>{chart_html(chart)}"
    yield definitions(ablation_lines(record.ablation))


def _precision(decision: PrecisionDecision) -> Iterable[str]:
    yield chart_html(precision_chart(decision))
    yield details("All layers", html_table(LAYER_TITLES, layer_rows(decision), is_text=True))


def _history(record: RunRecord) -> Iterable[str]:
    yield chart_html(history_chart(record))
    yield f"<h3>Throughput and compile time</h3>{chart_html(pareto_chart(record))}"
    rows = trial_rows(record.result)
    cells = [
        (
            row.label,
            format_latency_ms(row.latency_s),
            format_ratio(row.throughput_ratio),
            format_number(row.candidate.compile_s),
        )
        for row in rows
    ]
    titles = ("candidate", "latency ms", f"throughput/{record.result.baseline_name}", "compile s")
    yield details(f"All {len(rows)} candidates", html_table(titles, cells), note(load_note(rows)))


def _space(record: RunRecord) -> Iterable[str]:
    chart = space_chart(record)
    if chart.points:
        yield f"<p>{html_text(chart.title)}. The green line is the way to the winner.</p>{chart_html(chart)}"
    else:
        yield note("The log of the run is not in its folder, so the state graph cannot be drawn.")
    names = ("space", "passes without effect", "passes not tried")
    yield definitions((title, text) for title, text in evidence_lines(record.result) if title in names)


def _failures(result: RunResult) -> str:
    failed = result.failed
    rows = [
        (failure.kind, failure.stage, failure.step, failure.reason, failure.log, failure.pipeline)
        for failure in failed[:MOST_FAILURES]
    ]
    titles = ("kind", "stage", "pass", "reason", "traceback in", "pipeline")
    table = html_table(titles, rows, is_text=True) if rows else ""
    shown = f"; these are the first {MOST_FAILURES}" if len(failed) > MOST_FAILURES else ""
    return section(
        "Failures",
        definitions(failure_lines(result)),
        details(f"{len(failed)} failed candidate{'s' * (len(failed) != 1)}{shown}", table),
    )


def _provenance(record: RunRecord) -> Iterable[tuple[str, str]]:
    result = record.result
    compiler, model = result.toolchain, result.model
    if record.folder:
        yield "run folder", str(record.folder)
    if result.measured_at:
        yield "last measurement", format_time(result.measured_at)
    yield "network", f"{model.source}, SHA-256 {model.sha256}"
    yield "inputs", "unknown" if model.inputs is None else _inputs(model.inputs)
    yield "compiler", f"TVM {compiler.tvm_version} {compiler.tvm_commit}".strip()
    yield "system", result.device.system or "unknown"
    names = ("seed", "sampler", "threads", "trials", "timeout_s", "repetitions", "keep_throughput", "tolerance")
    settings = [f"{name} {record.settings[name]}" for name in names if record.settings.get(name) is not None]
    yield "settings", ", ".join(settings) or "unknown"
    yield "schema", result.schema
    yield from ((title, text) for title, text in evidence_lines(result) if title == "seconds")


def _inputs(inputs: Mapping[str, Input]) -> str:
    kinds = [f"{name}: {kind.dtype}{list(kind.shape)}" for name, kind in inputs.items()]
    return ", ".join(kinds) or "none"


def _side_by_side(records: Sequence[RunRecord]) -> Iterable[str]:
    """Yield the parts that compare runs."""
    yield '<header><p class="mark">passsearch report</p>'
    yield f"<h1>{len(records)} runs side by side</h1></header>"
    results = [record.result for record in records]
    charts = []
    for objective in (THROUGHPUT, COMPILE_TIME):
        title = objective.title.capitalize()
        rows = [(_run_name(result), result.ratio_of(objective.ratio_key)) for result in results]
        colours = [None if result.verdict.confirmed else OTHER for result in results]
        chart = ratio_chart(title, "times better than the run's own baseline", rows, colours=colours)
        charts.append(f"<h3>{title}</h3>{chart_html(chart)}" if chart.series else "")
    table = html_table(RUN_TITLES, [run_cells(record) for record in records], is_text=True)
    hidden = load_note(result_rows(result)[-1] for result in results)
    yield section("Gains", table, note(hidden), *charts)


def _run_name(result: RunResult) -> str:
    return f"{result.model.name}, {result.toolchain.name}"


def _chart(make: Callable[[], Chart]) -> str:
    """Return a chart, or the reason why there is none."""
    try:
        return chart_html(make())
    except UserError as error:
        return note(str(error))
