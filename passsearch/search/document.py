"""A run as the JSON others rely on (``tune --json`` and ``result.json``)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from passsearch.core import Failure, Measurement
from passsearch.evaluate import Session
from passsearch.evaluate.evaluator import Built
from passsearch.measure import CONSUMED, LEVEL, Ratio, median_interval
from passsearch.search.confirm import Confirmation
from passsearch.search.pass_selection import NetworkAnalysis
from passsearch.search.records import Scored
from passsearch.search.study import Search
from passsearch.store import SCHEMA

NOT_READ = "read over long windows, of the baseline and the winner only"
NOT_RUN = ("latency_s", "throughput_per_s", "memory_bytes.peak_rss")
NOT_TOLD = "the device did not tell it while the windows ran"


def measurement_document(measured: Measurement) -> dict[str, Any]:
    """Statistics beside the raw samples they come from; ``null`` with a reason where there is no reading."""
    middle = median(measured.latency_s) if measured.latency_s else None
    latency = middle and {
        "median": middle,
        "interval": median_interval(measured.latency_s).to_json(),
        "samples": list(measured.latency_s),
        "n": len(measured.latency_s),
    }
    return {
        "latency_s": latency,
        "throughput_per_s": measured.batch / middle if middle else None,
        "compile_s": measured.compile_s,
        "apply_s": measured.apply_s,
        "memory_bytes": {"plan": None, "peak_rss": None, "device": None, **measured.memory_bytes},
        "artifact_bytes": measured.artifact_bytes,
        "power_w": measured.power_w,
        "energy_j": measured.energy_j,
        "temperature_c": measured.temperature_c,
        "unavailable": dict(measured.unavailable),
        "conditions": dict(measured.conditions),
    }


def scored_document(scored: Scored, chosen: Session) -> dict[str, Any]:
    """A candidate as the search measured it."""
    measured = _measurement(
        scored,
        chosen,
        samples=scored.latency_s,
        compile_s=scored.compile_s,
        apply_s=scored.apply_s,
        consumed=scored.consumed[1:],
    )
    return {
        "name": scored.candidate.name,
        "pipeline": str(scored.candidate.pipeline),
        "build": scored.candidate.build.to_json(),
        "state": scored.built.state,
        "binary": scored.built.digest,
        "ratio": ratio_document(scored.ratio),
        "outputs": scored.built.agreement.to_json(),
        **measurement_document(measured),
    }


def result_document(
    search: Search,
    chosen: Session,
    *,
    reading: NetworkAnalysis,
    best: Scored,
    confirmation: Confirmation | Failure | None,
    seconds: Mapping[str, float],
    interrupted: bool,
) -> dict[str, Any]:
    """The whole result of one run."""
    assert search.baseline is not None
    baseline = search.scored[search.baseline.key]
    return {
        "schema": SCHEMA,
        "model": model_document(chosen, search.evaluator.inputs, batch=search.evaluator.batch),
        "target": chosen.target,
        "toolchain": toolchain_document(chosen),
        "device": chosen.sensors.device,
        "fingerprint": reading.fingerprint.to_json(),
        "classes": [each.to_json() for each in reading.classes],
        "space": _space(search, reading),
        "baseline": _confirmed(baseline, chosen, confirmation=confirmation, is_baseline=True),
        "baselines": [scored_document(each, chosen) for each in _baselines(search, chosen)],
        "best": _confirmed(best, chosen, confirmation=confirmation, is_baseline=False),
        "verdict": _verdict(search, best, confirmation=confirmation),
        "ratios": _ratios(search, best, confirmation=confirmation),
        "pareto": [scored_document(each, chosen) for each in _front(search, best)],
        "trials": [scored_document(each, chosen) for each in search.scored.values()],
        "failures": dict(Counter(failure.kind for _, failure in search.tally.failures)),
        "failed": [
            {"pipeline": str(candidate.pipeline), "build": candidate.build.to_json(), **failure.to_json()}
            for candidate, failure in search.tally.failures
        ],
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "interrupted": interrupted,
    }


def model_document(chosen: Session, inputs: Mapping[str, Any], *, batch: int) -> dict[str, Any]:
    """What was tuned."""
    model = chosen.model
    shapes = {name: {"shape": shape, "dtype": dtype} for name, (shape, dtype) in inputs.items()}
    return {"name": model.name, "source": model.source, "sha256": model.sha256, "batch": batch, "inputs": shapes}


def toolchain_document(chosen: Session) -> dict[str, Any]:
    """What compiled it."""
    toolchain = chosen.toolchain
    return {
        "name": toolchain.name,
        "dialect": toolchain.dialect,
        "tvm_version": toolchain.tvm_version,
        "tvm_commit": toolchain.tvm_commit,
        "python": toolchain.python_version,
    }


def ratio_document(ratio: Ratio | None) -> dict[str, Any] | None:
    """A ratio and its interval, ``null`` where there are too few repetitions for one; ``null`` where nothing runs."""
    if ratio is None:
        return None
    bounded = ratio.interval.low > 0 and math.isfinite(ratio.interval.high)
    return {"ratio": ratio.value, "interval": ratio.interval.to_json() if bounded else None}


def _space(search: Search, reading: NetworkAnalysis) -> dict[str, Any]:
    tally, graph = search.tally, search.evaluator.graph
    return {
        "passes": [{"name": ruling.entry.name, "reason": ruling.reason} for ruling in reading.selection.kept],
        "dropped": [{"name": ruling.entry.name, "reason": ruling.reason} for ruling in reading.selection.dropped],
        "sequences_asked": tally.asked,
        "states": graph.states,
        "states_measured": len(search.scored),
        "binaries": len({each.built.digest for each in search.scored.values()}),
        "duplicates": tally.duplicates,
        "invalid": tally.invalid,
        "kernels": len({each.built.kernels for each in search.scored.values()}),
        "closed": search.closed,
        "closed_without": list(search.closed_without),
        "sampler": search.sampler,
        "ended": search.ended,
    }


def _verdict(search: Search, best: Scored, *, confirmation: Confirmation | Failure | None) -> dict[str, Any]:
    objective = search.plan.objectives[0]
    unconfirmed = {"ratio": search.gain(objective, best), "interval": None, "confirmed": False}
    if not isinstance(confirmation, Confirmation):
        reason = confirmation.reason if confirmation else "not confirmed"
        ending = {"improved": False, "noise_floor": None, "reason": reason}
        return {"objective": objective.name, "level": LEVEL, **unconfirmed, **ending}
    ratio, floor = confirmation.ratio(objective.name), confirmation.floor(objective.name)
    noise = floor if objective.name in CONSUMED else confirmation.noise_floor
    document = ratio_document(ratio) or unconfirmed
    keep = search.plan.keep_throughput
    gained = confirmation.improves(objective.name, keep_throughput=keep)
    reason = "no significant improvement"
    if ratio is None:
        reason = "not measured again"
    elif not confirmation.keeps(objective.name, keep):
        reason = f"keeps less than {keep} of the throughput"
    elif confirmation.same_binary and objective.name != "compile_time":
        reason = "the same binary as the baseline"
    return {
        "improved": gained,
        "objective": objective.name,
        **document,
        "level": LEVEL,
        "confirmed": ratio is not None,
        "repetitions": confirmation.repetitions,
        "processes": confirmation.processes,
        "reproducible": confirmation.reproducible,
        "same_binary": confirmation.same_binary,
        "noise_floor": noise if math.isfinite(noise) else None,
        "keep_throughput": keep,
        "seconds": round(confirmation.seconds, 1),
        "reason": "" if gained else reason,
    }


def _ratios(search: Search, best: Scored, *, confirmation: Confirmation | Failure | None) -> dict[str, Any]:
    if isinstance(confirmation, Confirmation):
        return ratios_document(confirmation)
    compile_time = {"ratio": search.default_scored.compile_s / best.compile_s, "interval": None}
    return {"throughput": ratio_document(best.ratio), "compile_time": compile_time, "twin": None}


def ratios_document(confirmation: Confirmation) -> dict[str, Any]:
    """All that was confirmed, whatever the objective."""
    consumed = {objective: confirmation.ratio(objective) for objective in CONSUMED}
    return {
        "throughput": ratio_document(confirmation.throughput),
        "compile_time": ratio_document(confirmation.compile_time),
        "twin": ratio_document(confirmation.twin),
        **{objective: ratio_document(ratio) for objective, ratio in consumed.items() if ratio},
    }


def _confirmed(
    scored: Scored, chosen: Session, *, confirmation: Confirmation | Failure | None, is_baseline: bool
) -> dict[str, Any]:
    document = scored_document(scored, chosen)
    if not isinstance(confirmation, Confirmation):
        return document
    samples = confirmation.baseline_latency_s if is_baseline else confirmation.latency_s
    compile_s = confirmation.baseline_compile_s if is_baseline else confirmation.compile_s
    apply_s = 0.0 if is_baseline else median(confirmation.apply_s)
    consumed = [turn[0 if is_baseline else 2] for turn in confirmation.consumed]
    known = replace(scored, conditions=confirmation.summary)
    measured = _measurement(
        known, chosen, samples=samples, compile_s=median(compile_s), apply_s=apply_s, consumed=consumed
    )
    return {**document, **measurement_document(measured), "compile_samples_s": list(compile_s)}


def _measurement(
    scored: Scored,
    chosen: Session,
    *,
    samples: Sequence[float],
    compile_s: float,
    apply_s: float,
    consumed: Sequence[Mapping[str, Any]],
) -> Measurement:
    return Measurement(
        latency_s=tuple(samples),
        compile_s=compile_s,
        apply_s=apply_s,
        batch=scored.batch,
        artifact_bytes=scored.built.bytes,
        conditions=scored.conditions,  # type: ignore[arg-type]
        **beside_time(scored.built, consumed, chosen=chosen),
    )


def beside_time(built: Built, consumed: Sequence[Mapping[str, Any]], *, chosen: Session) -> dict[str, Any]:
    """The fields of a measurement that are not times: memory, power, energy, temperature, and why one is missing."""
    found = {metric: _over(metric, consumed) for metric in ("power_w", "temperature_c")}
    energies = [value for each in consumed for value in each["energy_j"] or ()]
    device_bytes = max((each["memory_bytes"] for each in consumed if each["memory_bytes"] is not None), default=None)
    read = {**found, "energy_j": median(energies) if energies else None}
    missing = [name for name, value in {**read, "memory_bytes.device": device_bytes}.items() if value is None]
    reason = chosen.idle or (NOT_TOLD if consumed else NOT_READ)
    idle = dict.fromkeys(NOT_RUN, chosen.idle) if chosen.idle else {}
    if built.plan_bytes is None:
        idle["memory_bytes.plan"] = "the compiler planned none"
    return {
        **read,
        "memory_bytes": {"plan": built.plan_bytes, "peak_rss": built.peak_rss, "device": device_bytes},
        "unavailable": {**dict.fromkeys(missing, reason), **chosen.sensors.unavailable, **idle},
    }


def _over(metric: str, consumed: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Of several repetitions: where the first begins and the last ends, the highest, and the median of medians."""
    known = [each[metric] for each in consumed if each[metric] is not None]
    if not known:
        return None
    found = {"median": median(each["median"] for each in known), "max": max(each["max"] for each in known)}
    return found | ({"start": known[0]["start"], "end": known[-1]["end"]} if "start" in known[0] else {})


def _baselines(search: Search, chosen: Session) -> list[Scored]:
    """A search may also build the network as it is, without any pass, in its own way: that is a candidate."""
    scored = {each.candidate.name: each for each in search.scored.values()}
    return [scored[each.name] for each in chosen.dialect.baselines if each.name in scored]


def _front(search: Search, best: Scored) -> list[Scored]:
    """Candidates no other beats in every objective; with one objective that is the winner."""
    if len(search.plan.objectives) == 1:
        return [best]
    values = {key: search.values(each) for key, each in search.scored.items()}
    return [
        each
        for key, each in search.scored.items()
        if not any(_dominates(other, values[key]) for name, other in values.items() if name != key)
    ]


def _dominates(left: Sequence[float], right: Sequence[float]) -> bool:
    return all(a >= b for a, b in zip(left, right, strict=True)) and tuple(left) != tuple(right)
