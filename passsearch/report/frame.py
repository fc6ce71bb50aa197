"""The candidates of a run as a pandas data frame. The only module that imports pandas."""

from collections.abc import Iterator, Mapping
from typing import Any

from passsearch.errors import UserError
from passsearch.report.charts import INSTALL
from passsearch.report.formatting import lookup
from passsearch.report.rows import label
from passsearch.report.run_record import RunRecord
from passsearch.results import NamedPipeline

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "latency_s": ("latency_s", "median"),
    "throughput_per_s": ("throughput_per_s",),
    "throughput_ratio": ("ratio", "ratio"),
    "compile_s": ("compile_s",),
    "apply_s": ("apply_s",),
    "artifact_bytes": ("artifact_bytes",),
    "peak_rss_bytes": ("memory_bytes", "peak_rss"),
    "planned_bytes": ("memory_bytes", "plan"),
    "power_w": ("power_w", "median"),
    "energy_j": ("energy_j",),
    "deviation": ("outputs", "deviation"),
    "recalled": ("recalled",),
    "state": ("state",),
    "binary": ("binary",),
}
"""Places of the columns in a candidate of a result."""

FAILURE_COLUMNS = ("failure", "stage", "step", "reason")


def candidates_frame(record: RunRecord) -> Any:
    """Return a ``pandas.DataFrame`` with a row per candidate of the search, those that failed at the end.

    Raises:
        UserError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise UserError(f"A data frame needs pandas, which is not installed; run: {INSTALL}") from None
    columns = ["name", "pipeline", "opt_level", "is_best", "built_s", *COLUMNS, *FAILURE_COLUMNS]
    return pd.DataFrame([*_measured(record), *_failed(record)], columns=columns)


def _measured(record: RunRecord) -> Iterator[dict[str, Any]]:
    best = record.result.best
    for trial in record.result.trials:
        is_best = (trial.pipeline, trial.build) == (best.pipeline, best.build)
        values = {column: lookup(trial, *place) for column, place in COLUMNS.items()}
        yield {**_identity(trial), "is_best": is_best, "built_s": record.build_time_s(trial), **values}


def _failed(record: RunRecord) -> Iterator[dict[str, Any]]:
    for failure in record.result.failed:
        reasons = dict(zip(FAILURE_COLUMNS, (failure.kind, failure.stage, failure.step, failure.reason), strict=True))
        yield {**_identity(NamedPipeline(pipeline=failure.pipeline, build=failure.build)), "is_best": False, **reasons}


def _identity(candidate: NamedPipeline) -> dict[str, Any]:
    return {"name": label(candidate), "pipeline": candidate.pipeline, "opt_level": candidate.build.opt_level}
