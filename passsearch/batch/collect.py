"""One row for each job, with what its run found."""

import json
from collections.abc import Iterable
from typing import Any

from passsearch.batch.job import TuneJob
from passsearch.objectives import COMPILE_TIME, THROUGHPUT, verdict_outcome
from passsearch.results import FoundRow, RunResult, StatedRatio, winner_latency


def collect(jobs: Iterable[TuneJob]) -> list[FoundRow]:
    """Return a flat row for each job; the values of a job without a result are ``None``."""
    return [_row(job) for job in jobs]


def _row(job: TuneJob) -> FoundRow:
    result = job.answer
    return FoundRow(
        job=job.name,
        network=job.network.text,
        batch=job.network.batch,
        objective=job.objective,
        device=job.device.name,
        run=str(job.folder),
        finished=result is not None,
        **(_findings(RunResult.from_json(result)) if result else {"toolchain": job.toolchain, "target": job.target}),
    )


def _findings(result: RunResult) -> dict[str, Any]:
    verdict, best, baseline, shown = result.verdict, result.best, result.baseline, winner_latency(result)
    sequence = result.sequence  # none was measured, or an earlier version made the result
    rival, beside = (result.rivals.hardest if result.rivals else None) or (None, None)
    return {
        "hardware": result.device.name or None,
        "toolchain": result.toolchain.name,
        "tvm_version": result.toolchain.tvm_version,
        "target": result.target,
        "gain_of": verdict.objective,
        "improved": verdict.improved,
        "confirmed": verdict.confirmed,
        **_ratio(verdict.stated, "gain", "gain"),
        **_ratio(result.ratio_of(THROUGHPUT.name), f"{THROUGHPUT.name}_ratio", THROUGHPUT.name),
        **_ratio(result.ratio_of(COMPILE_TIME.name), f"{COMPILE_TIME.name}_ratio", COMPILE_TIME.name),
        "sequence": sequence.name if sequence else None,
        **_ratio(sequence.gain if sequence else None, "sequence_gain", "sequence_gain"),
        "rival": rival,
        **_ratio(beside.lowest if beside else None, "rival_ratio", "rival"),
        "baseline": baseline.name,
        "baseline_latency_s": baseline.latency_s.median if baseline.latency_s else None,
        "best_latency_s": shown.median if shown else None,
        "baseline_compile_s": baseline.compile_s,
        "best_compile_s": best.compile_s,
        "pipeline": best.pipeline,
        "opt_level": best.build.opt_level,
        "required": ",".join(best.build.required),
        "disabled": ",".join(best.build.disabled),
        "config": json.dumps(best.build.config) if best.build.config else "",
        "measured_at": result.measured_at,
        "outcome": verdict_outcome(verdict),
        "reason": verdict.reason or None,
    }


def _ratio(ratio: StatedRatio | None, name: str, ends: str) -> dict[str, float | None]:
    low, high = ratio.interval if ratio and ratio.interval else (None, None)
    return {name: ratio.ratio if ratio else None, f"{ends}_low": low, f"{ends}_high": high}
