"""An ablation: what every pass of the winner is worth."""

from collections.abc import Mapping

from passsearch.errors import UserError
from passsearch.objectives import COMPILE_TIME, THROUGHPUT
from passsearch.report.charts.chart import Chart
from passsearch.report.charts.ratios import ratio_chart
from passsearch.report.run_record import RunRecord
from passsearch.results import AblationStep, StatedRatio

METRICS = {objective.name: objective.title for objective in (THROUGHPUT, COMPILE_TIME)}
KINDS = {"ladder": "passes added one by one", "without": "each pass left out once"}


def ablation_chart(record: RunRecord, *, metric: str = THROUGHPUT.name, kind: str = "ladder") -> Chart:
    """Return one metric of the winner with its passes added, or left out, one by one.

    Args:
        record: The run.
        metric: ``throughput`` or ``compile_time``.
        kind: ``ladder``, which adds passes one by one, or ``without``, which leaves out one each.

    Raises:
        UserError: The run has no ablation, or the arguments are impossible.
    """
    for what, value, allowed in (("metric", metric, METRICS), ("kind", kind, KINDS)):
        if value not in allowed:
            raise UserError(f"Unknown {what} of an ablation `{value}`; choose from: {', '.join(allowed)}.")
    if record.ablation is None:
        raise UserError(f"This run has no ablation; make it: passsearch ablate {record.folder or 'RUN'}")
    compared = "with it over without it" if kind == "without" else f"over that of {record.ablation.baseline}"
    labels = [
        (row.subject or "no pass", row.gain.get(metric) if kind == "without" else _ratios(row)[metric])
        for row in record.ablation.rows
        if row.kind == kind
    ]
    title = f"{METRICS[metric].capitalize()}: {KINDS[kind]}"
    return ratio_chart(title, f"times better, {compared}", labels)


def _ratios(row: AblationStep) -> Mapping[str, StatedRatio | None]:
    return {THROUGHPUT.name: row.throughput, COMPILE_TIME.name: row.compile_time}
