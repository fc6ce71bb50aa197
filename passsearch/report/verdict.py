"""The verdict of a run as one sentence, and warnings about what it rests on."""

from collections.abc import Iterator, Mapping
from typing import Any

from passsearch.core import USUAL_REPETITIONS
from passsearch.objectives import COMPILE_TIME, THROUGHPUT, UNDECIDED, Objective, recorded_objective, verdict_outcome
from passsearch.report.formatting import (
    format_floor,
    format_number,
    format_percent,
    format_pipeline,
    format_ratio,
    lookup,
    says_nothing,
)

EQUAL_COMPILES = 0.1
"""Largest gain that "no significant difference in compile time" may overlook. An interval that reaches further decides
nothing, and the sentence says so."""

BUSY_PERCENT = 10
"""Share of the cores' time, taken by others, from which on they are named as the cause of a wide interval."""


def verdict_text(document: Mapping[str, Any]) -> str:
    """Return the outcome of a run in one sentence."""
    objective = recorded_objective(document.get("verdict") or {})
    parts = [_objective_claim(document, objective)]
    # Speed and compile time are traded against each other, so the sentence always gives both.
    if not objective.is_of_compiles:
        parts.append(compile_time_claim(lookup(document, "ratios", COMPILE_TIME.name), baseline_phrase(document)))
    elif lookup(document, "ratios", THROUGHPUT.name):
        ratio = format_ratio(lookup(document, "ratios", THROUGHPUT.name))
        parts.append(f"throughput {ratio} times that of {baseline_phrase(document)}")
    return "; ".join(part for part in parts if part)


def _objective_claim(document: Mapping[str, Any], objective: Objective) -> str:
    """Return the claim the measurements support; the weakest one that applies comes first."""
    verdict = document.get("verdict") or {}
    baseline = baseline_phrase(document)
    value, metric = format_ratio(verdict), objective.title
    floor = _floor(verdict)
    if not verdict.get("confirmed"):
        reason = verdict.get("reason") or "no reason given"
        if lookup(document, "best", "source", "kind") == "baseline":
            return f"not confirmed: {reason}"
        return f"not confirmed: {metric} ratio {value} in the search's own measurement ({reason})"
    if not verdict.get("interval"):
        return f"no claim: {metric} ratio {value} in the search's own measurement, which has no interval"
    # One binary has one speed: a measured difference between two copies of it is noise and must not become a claim.
    if verdict.get("same_binary") and objective.is_equal_for_one_binary:
        return f"same binary as {baseline}, so the same {metric} (measured: {value}{floor})"
    if verdict_outcome(verdict) == UNDECIDED:
        return undecided_text(document, metric)
    if verdict["interval"][1] is not None and verdict["interval"][1] < 1:
        return f"worse in {metric} than {baseline}: {value}{floor}"
    if not verdict.get("improved"):
        return _no_improvement(document, metric, value=f"{value}{floor}")
    return f"improved: {objective.gain_text(value)} than {baseline}{'' if objective.is_of_compiles else floor}"


def warning_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a reader must know before relying on the verdict."""
    repetitions = lookup(document, "verdict", "repetitions")
    if repetitions and repetitions < USUAL_REPETITIONS:
        yield (
            "warning",
            f"{repetitions} fresh compiles leave intervals wide; {USUAL_REPETITIONS} are usual "
            f"(--confirm {USUAL_REPETITIONS}, and time for them)",
        )
    if repetitions and _disturbed_percent(document) >= BUSY_PERCENT:
        yield (
            "warning",
            f"other processes took {_disturbed_percent(document):.0f} % of the cores' time, and a busy machine has "
            "other ratios than an idle one: the intervals are of this machine as it was",
        )


def _no_improvement(document: Mapping[str, Any], metric: str, *, value: str) -> str:
    """Return the sentence for a ratio that is no improvement: refused, undecided or without a gain that counts."""
    verdict = document["verdict"]
    if verdict.get("keeps_throughput") is False:  # earlier versions did not say
        return f"no improvement: {metric} {value}, but {verdict.get('reason')} of {baseline_phrase(document)}"
    return f"no significant improvement in {metric}: {value}"


def undecided_text(document: Mapping[str, Any], metric: str) -> str:
    """Return what keeps the measurements from deciding: two estimates that contradict each other, or the noise."""
    verdict = document["verdict"]
    value = f"undecided: {metric} {format_ratio(verdict)}{_floor(verdict)}"
    if verdict.get("disagreement"):
        return f"{value}, but {verdict['disagreement']}"
    return f"{value}{_busy(document)}; more fresh compiles narrow the interval (--confirm N)"


def _floor(verdict: Mapping[str, Any]) -> str:
    """Return the noise floor in parentheses, or that there is no estimate of it."""
    if verdict.get("noise_floor") is not None:
        return f" (noise floor {format_floor(verdict['noise_floor'])})"
    # Earlier versions did not say what they saw.
    noise = verdict.get("noise")
    if noise is None or not verdict.get("processes"):
        return ""
    seen = format_percent(noise) if noise <= 1 else f"{1 + noise:.2g} times"
    return f" (too few processes to estimate a noise floor; differences of {seen} were seen)"


def _busy(document: Mapping[str, Any]) -> str:
    """Return that other processes disturbed the measurement, or an empty text."""
    percent = _disturbed_percent(document)
    if percent < BUSY_PERCENT:
        return ""
    return f", measured while other processes took {percent:.0f} % of the cores' time: measure on an idle machine"


def _disturbed_percent(document: Mapping[str, Any]) -> float:
    """Return the share of the cores' time that others took while the winner was timed, in percent."""
    conditions = lookup(document, "best", "conditions")
    return float(sum(lookup(conditions, name) or 0 for name in ("foreign_percent", "steal_percent")))


def compile_time_claim(ratio: Mapping[str, Any] | None, baseline: str) -> str:
    """Return what a ratio of compile times says, as a predicate; empty without a ratio."""
    interval, value = lookup(ratio, "interval"), lookup(ratio, "ratio")
    if value is None:
        return ""
    if not interval or None in interval:
        if value == 1:  # the baseline itself
            return ""
        return f"compiled {format_ratio(ratio)} times as fast; one compile of each proves nothing"
    if interval[0] > 1:
        return f"compiles {format_ratio(ratio)} times faster"
    if interval[1] < 1:
        slower = {"ratio": 1 / value, "interval": [1 / interval[1], 1 / interval[0]]}
        return f"takes {format_ratio(slower)} times as long to compile"
    if interval[0] < 1 - EQUAL_COMPILES or interval[1] > 1 + EQUAL_COMPILES:
        undecided = f"undecided in compile time against {baseline}"
        if says_nothing(interval):
            return f"{undecided}: {format_number(value)}, with an interval too wide to say anything"
        return f"{undecided}: {format_ratio(ratio)}"
    return f"no significant difference in compile time from {baseline}: {format_ratio(ratio)}"


def rejected_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the winner of the search where another candidate is recommended, and why."""
    rejected = document.get("rejected")
    if rejected:
        yield "not recommended", f"{format_pipeline(rejected)}: {rejected['reason']}"


def baseline_phrase(document: Mapping[str, Any]) -> str:
    """Return the baseline's name, or words that stand for it."""
    name = lookup(document, "baseline", "name")
    return str(name) if name else "the baseline"
