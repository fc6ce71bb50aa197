"""The verdict of a run as one sentence."""

from collections.abc import Mapping
from typing import Any

from passsearch.report.formatting import format_percent, format_ratio, lookup


def verdict_text(document: Mapping[str, Any]) -> str:
    """Return the outcome of a run in one sentence."""
    objective = lookup(document, "verdict", "objective") or "throughput"
    parts = [_objective_claim(document, objective)]
    # Speed and compile time are traded against each other, so the sentence always gives both.
    if objective != "compile_time":
        parts.append(_compile_time_claim(lookup(document, "ratios", "compile_time"), _baseline_name(document)))
    elif lookup(document, "ratios", "throughput"):
        ratio = format_ratio(lookup(document, "ratios", "throughput"))
        parts.append(f"throughput {ratio} times that of {_baseline_name(document)}")
    return "; ".join(part for part in parts if part)


def _objective_claim(document: Mapping[str, Any], objective: str) -> str:
    """Return the claim the measurements support; the weakest one that applies comes first."""
    verdict = document.get("verdict") or {}
    baseline = _baseline_name(document)
    value, metric = format_ratio(verdict), objective.replace("_", " ")
    noise = verdict.get("noise_floor")
    floor = "" if noise is None else f" (noise floor {format_percent(noise)})"
    if not verdict.get("confirmed"):
        reason = verdict.get("reason") or "no reason given"
        return f"not confirmed: {metric} ratio {value} in the search's own measurement ({reason})"
    if not verdict.get("interval"):
        return f"no claim: {metric} ratio {value} in the search's own measurement, which has no interval"
    # One binary has one speed: a measured difference between two copies of it is noise and must not become a claim.
    if verdict.get("same_binary") and objective != "compile_time":
        return f"same binary as {baseline}, so the same {metric} (measured: {value}{floor})"
    if verdict["interval"][1] < 1:
        return f"worse in {metric} than {baseline}: {value}{floor}"
    if not verdict.get("improved"):
        return f"no significant improvement in {metric}: {value}{floor}"
    if objective == "compile_time":
        return f"improved: compiles {value} times faster than {baseline}"
    direction = "higher" if objective == "throughput" else "lower"
    return f"improved: {value} times {direction} {metric} than {baseline}{floor}"


def _compile_time_claim(ratio: Mapping[str, Any] | None, baseline: str) -> str:
    interval, value = lookup(ratio, "interval"), lookup(ratio, "ratio")
    if value is None:
        return ""
    if not interval or None in interval:
        return f"compiles {format_ratio(ratio)} times faster (one compile each, so no interval)"
    if interval[0] > 1:
        return f"compiles {format_ratio(ratio)} times faster"
    if interval[1] < 1:
        slower = {"ratio": 1 / value, "interval": [1 / interval[1], 1 / interval[0]]}
        return f"takes {format_ratio(slower)} times as long to compile"
    return f"no significant difference in compile time from {baseline}: {format_ratio(ratio)}"


def _baseline_name(document: Mapping[str, Any]) -> str:
    name = lookup(document, "baseline", "name")
    return str(name) if name else "the baseline"
