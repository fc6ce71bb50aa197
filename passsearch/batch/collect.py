"""One row for each job, with what its run found."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from passsearch.batch.job import TuneJob
from passsearch.core import Json
from passsearch.objectives import COMPILE_TIME, THROUGHPUT, verdict_outcome
from passsearch.results import Verdict


def collect(jobs: Iterable[TuneJob]) -> list[dict[str, Json]]:
    """Return a flat row for each job; the values of a job without a result are ``None``."""
    return [_row(job, job.answer) for job in jobs]


def _row(job: TuneJob, result: Mapping[str, Any] | None) -> dict[str, Json]:
    identity: dict[str, Json] = {
        "job": job.name,
        "network": job.network.text,
        "batch": job.network.batch,
        "objective": job.objective,
        "device": job.device.name,
        "run": str(job.folder),
        "finished": result is not None,
    }
    return identity | (_findings(result) if result else dict.fromkeys(_FINDINGS))


def _findings(result: Mapping[str, Any]) -> dict[str, Json]:
    verdict, best, baseline = result["verdict"], result["best"], result["baseline"]
    sequence = result.get("sequence") or {}  # none was measured, or an earlier version made the result
    values = (
        result["device"].get("name"),
        result["toolchain"]["name"],
        result["toolchain"]["tvm_version"],
        result["target"],
        verdict["objective"],
        verdict["improved"],
        verdict["confirmed"],
        *_ratio(verdict),
        *_ratio(result["ratios"].get(THROUGHPUT.name)),
        *_ratio(result["ratios"].get(COMPILE_TIME.name)),
        sequence.get("name"),
        *_ratio(sequence.get("gain")),
        baseline["name"],
        *((row.get("latency_s") or {}).get("median") for row in (baseline, best)),
        *(row.get("compile_s") for row in (baseline, best)),
        best["pipeline"],
        best["build"].get("opt_level"),
        *(",".join(best["build"].get(name) or ()) for name in ("required", "disabled")),
        json.dumps(config) if (config := best["build"].get("config")) else "",
        result.get("measured_at"),
        verdict_outcome(Verdict.from_json(verdict)),
    )
    return dict(zip(_FINDINGS, values, strict=True))


def _ratio(ratio: Mapping[str, Any] | None) -> tuple[Json, Json, Json]:
    low, high = (ratio or {}).get("interval") or (None, None)
    return (ratio or {}).get("ratio"), low, high


_FINDINGS = (
    "hardware",
    "toolchain",
    "tvm_version",
    "target",
    "gain_of",
    "improved",
    "confirmed",
    *("gain", "gain_low", "gain_high"),
    *("throughput_ratio", "throughput_low", "throughput_high"),
    *("compile_time_ratio", "compile_time_low", "compile_time_high"),
    *("sequence", "sequence_gain", "sequence_gain_low", "sequence_gain_high"),
    "baseline",
    *("baseline_latency_s", "best_latency_s"),
    *("baseline_compile_s", "best_compile_s"),
    "pipeline",
    *("opt_level", "required", "disabled", "config"),
    "measured_at",
    "outcome",
)
"""Keys of what a run found, in the order of ``_findings``."""
