"""What results say about one engine: statistics of its record."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from passsearch.engines.records import EnginePlan, EngineRecord
from passsearch.measure import mean_ratio


def engine_row(record: EngineRecord, *, plan: EnginePlan) -> dict[str, Any]:
    """Return the results of one engine that need no other engine, raw samples included."""
    spec = record.spec
    common = {"adapter": spec.adapter.rpartition(".")[2], **(record.opened[0] if record.opened else {}), **spec.about}
    common |= {} if record.opened else {"settings": dict(spec.settings)}
    # Outputs of another shape, or with NaN, deviate infinitely; JSON has no such number, and `failure` says it.
    deviation = max(record.deviations, default=math.inf)
    common["deviation"] = deviation if math.isfinite(deviation) else None
    if record.failure:
        return {**common, "failure": record.failure}
    open_s = [answer["open_s"] for answer in record.opened]
    medians, fastest = by_process(record)
    notes = list(_notes(record, plan=plan))
    return {
        **common,
        # TVM is compiled ahead of time; the others compile while they load.
        "compile_s": spec.about.get("compile_s", open_s[0]),
        "open_s": open_s,
        "first_s": record.first_s,
        "memory_bytes": max(record.memory_bytes, default=None),
        **({"accuracy": record.accuracy} if record.accuracy else {}),
        **({"kernels": kernel_rows(record)} if record.kernels or record.no_kernels else {}),
        "artifact_bytes": record.artifact_bytes,
        "energy_j": _typical(record.energy_j),
        "power_w": _typical(record.power_w),
        "together": {str(count): together(record, count, plan=plan) for count in plan.requests},
        "idle_share": record.idle_share,
        "inferences": sum(len(turn) for turns in record.visits for turn in turns),
        **({"note": "; ".join(notes)} if notes else {}),
        "median_s": median(medians),
        "fastest_s": median(fastest),
        "process_median_s": medians,
        "process_fastest_s": fastest,
        "latency_s": mean_latency(record),
        "visits": [[[round(value, 7) for value in turn] for turn in turns] for turns in record.visits],
    }


def _notes(record: EngineRecord, *, plan: EnginePlan) -> Iterator[str]:
    """Yield the reasons why a process has fewer inferences than the plan says, and why a value is missing."""
    processes = len(record.visits)
    few = [turns for turns in record.visits if len(turns) < plan.rounds]
    slow = sum(min(value for turn in turns for value in turn) > plan.slow_s for turns in few)
    if slow:
        yield f"slow: one inference in {slow} of {processes} processes"
    if record.not_revived and len(few) > slow:
        reason = f"the network did not load again after a crash ({record.not_revived})"
        yield f"fewer rounds in {len(few) - slow} of {processes} processes: {reason}"
    if not record.memory_bytes:
        yield "memory is unknown: the system does not show the largest memory of a process (VmHWM)"


def by_process(record: EngineRecord) -> tuple[list[float], list[float]]:
    """Return the median and the fastest inference of every process, in seconds."""
    processes = [[value for turn in turns for value in turn] for turns in record.visits]
    return [median(values) for values in processes], [min(values) for values in processes]


def kernel_rows(record: EngineRecord) -> dict[str, Any]:
    """Return what an engine's profiler says of one inference: kernels by name, the longest first, or why it cannot."""
    if record.no_kernels:
        return {"unavailable": record.no_kernels}
    by_name: defaultdict[str, list[float]] = defaultdict(list)
    for call in record.kernels:
        by_name[call.name].append(call.seconds)
    rows = [{"name": name, "calls": len(values), "seconds": math.fsum(values)} for name, values in by_name.items()]
    return {
        "sum_s": math.fsum(call.seconds for call in record.kernels),
        "by_name": sorted(rows, key=lambda row: -row["seconds"]),
    }


def _typical(values: Sequence[Sequence[float]]) -> float | None:
    """Return the median over processes of the median over rounds; ``None`` without values."""
    return median(map(median, values)) if values else None


def together(record: EngineRecord, count: int, *, plan: EnginePlan) -> dict[str, Any]:
    """Return the rate of an engine that computes ``count`` inferences at the same time.

    Returns:
        ``inferences_per_s`` (``median`` and ``interval``) and ``process_rates`` (the rates in each process), or
        ``unavailable`` with the reason why there are no rates.
    """
    if count not in record.rates or count in record.no_rates:
        return {"unavailable": record.no_rates.get(count, f"one inference takes more than {plan.slow_s:g} s")}
    rates = [median(rates) for rates in record.rates[count]]
    mean = mean_ratio([math.log(value) for value in rates]).to_json()
    return {"inferences_per_s": {"median": mean["ratio"], "interval": mean["interval"]}, "process_rates": rates}


def mean_latency(record: EngineRecord) -> dict[str, Any]:
    """Return the geometric mean over processes of their median inference in seconds, with its interval."""
    mean = mean_ratio([math.log(value) for value in by_process(record)[0]])
    document = mean.to_json()
    return {"median": document["ratio"], "interval": document["interval"]}


def throughput_ratio(anchor: EngineRecord, record: EngineRecord) -> dict[str, Any]:
    """Return an engine's throughput as a multiple of another's, by the fastest samples and by the medians."""
    # The fastest of each process: a slow engine has one turn, which must not cut the other's samples to one.
    fastest = [math.log(one / other) for one, other in zip(by_process(anchor)[1], by_process(record)[1], strict=False)]
    medians = [math.log(one / other) for one, other in zip(by_process(anchor)[0], by_process(record)[0], strict=False)]
    return {"by fastest": mean_ratio(fastest).to_json(), "by medians": mean_ratio(medians).to_json()}


def rows_by_engine(
    records: Mapping[str, EngineRecord], *, baseline: str, plan: EnginePlan
) -> dict[str, dict[str, Any]]:
    """Return the row of every engine with its throughput as a multiple of the baseline's, if both have a result."""
    anchor = records.get(baseline)
    rows = {}
    for name, record in records.items():
        rows[name] = engine_row(record, plan=plan)
        if anchor is not None and not anchor.failure and not record.failure:
            rows[name]["ratio"] = throughput_ratio(anchor, record)
            for count, row in rows[name]["together"].items():
                row["ratio"] = _rate_ratio(anchor, record, int(count))
    return rows


def _rate_ratio(anchor: EngineRecord, record: EngineRecord, count: int) -> dict[str, Any] | None:
    """Return an engine's rate as a multiple of another's; ``None`` where one of them has none."""
    if any(count not in each.rates or count in each.no_rates for each in (anchor, record)):
        return None
    pairs = zip(record.rates[count], anchor.rates[count], strict=False)
    return mean_ratio([math.log(median(own) / median(other)) for own, other in pairs]).to_json()
