"""The verdict of a run as one sentence, and warnings about what it rests on."""

from collections.abc import Iterator

from passsearch.core import USUAL_REPETITIONS
from passsearch.objectives import COMPILE_TIME, THROUGHPUT, UNDECIDED, Objective, recorded_objective, verdict_outcome
from passsearch.report.formatting import (
    format_floor,
    format_number,
    format_percent,
    format_pipeline,
    format_ratio,
    is_below,
)
from passsearch.results import (
    BUSY_PERCENT,
    RunResult,
    StatedRatio,
    Verdict,
    disturbed_percent,
    is_disturbed,
    says_nothing,
)

EQUAL_COMPILES = 0.1
"""Largest gain that "no significant difference in compile time" may overlook. An interval that reaches further decides
nothing, and the sentence says so."""


def verdict_text(result: RunResult) -> str:
    """Return the outcome of a run in one sentence."""
    objective = recorded_objective(result.verdict)
    parts = [_objective_claim(result, objective)]
    # Speed and compile time are traded against each other, so the sentence always gives both.
    if not objective.is_of_compiles:
        parts.append(compile_time_claim(result.ratio_of(COMPILE_TIME.name), baseline_phrase(result)))
    elif not result.best_is_baseline and (throughput := result.ratio_of(THROUGHPUT.name)):
        parts.append(f"throughput {format_ratio(throughput)} times that of {baseline_phrase(result)}")
    return "; ".join(part for part in parts if part)


def _objective_claim(result: RunResult, objective: Objective) -> str:
    """Return the claim the measurements support; the weakest one that applies comes first."""
    verdict = result.verdict
    baseline = baseline_phrase(result)
    value, metric = format_ratio(verdict.stated), objective.title
    floor = _floor(verdict)
    if not verdict.confirmed:
        reason = verdict.reason or "no reason given"
        if result.best_is_baseline:
            return f"not confirmed: {reason}"
        return f"not confirmed: {metric} ratio {value} in the search's own measurement ({reason})"
    if not verdict.interval:
        return f"no claim: {metric} ratio {value} in the search's own measurement, which has no interval"
    # One binary has one speed: a measured difference between two copies of it is noise and must not become a claim.
    if verdict.same_binary and objective.is_equal_for_one_binary:
        return f"same binary as {baseline}, so the same {metric} (measured: {value}{floor})"
    if verdict_outcome(verdict) == UNDECIDED:
        return undecided_text(result, metric)
    if is_below(verdict.stated, 1.0):
        return f"worse in {metric} than {baseline}: {value}{floor}"
    if not verdict.improved:
        return _no_improvement(result, metric, value=f"{value}{floor}")
    return f"improved: {objective.gain_text(value)} than {baseline}{'' if objective.is_of_compiles else floor}"


def warning_lines(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield what a reader must know before relying on the verdict."""
    repetitions = result.verdict.repetitions
    if repetitions and repetitions < USUAL_REPETITIONS:
        # Earlier versions did not say what the limits were.
        is_limited = result.limits is not None and result.limits.timeout_s is not None
        remedy = "a longer --timeout leaves time for them" if is_limited else f"--confirm {USUAL_REPETITIONS}"
        few = f"{repetitions} fresh compiles leave intervals wide"
        yield "warning", f"{few}; {USUAL_REPETITIONS} are usual ({remedy})"
    if repetitions and is_disturbed(result):
        yield (
            "warning",
            f"other processes took {disturbed_percent(result):.0f} % of the cores' time, and a busy machine has "
            "other ratios than an idle one: the intervals are of this machine as it was",
        )


def _no_improvement(result: RunResult, metric: str, *, value: str) -> str:
    """Return the sentence for a ratio that is no improvement: refused, undecided or without a gain that counts."""
    if result.verdict.keeps_throughput is False:  # earlier versions did not say
        return f"no improvement: {metric} {value}, but {result.verdict.reason} of {baseline_phrase(result)}"
    return f"no significant improvement in {metric}: {value}"


def undecided_text(result: RunResult, metric: str) -> str:
    """Return what keeps the measurements from deciding: two estimates that contradict each other, or the noise."""
    verdict = result.verdict
    value = f"undecided: {metric} {format_ratio(verdict.stated)}{_floor(verdict)}"
    if verdict.disagreement:
        return f"{value}, but {verdict.disagreement}"
    return f"{value}{_busy(result)}; more fresh compiles narrow the interval (--confirm N)"


def _floor(verdict: Verdict) -> str:
    """Return the noise floor in parentheses, or that there is no estimate of it."""
    if verdict.noise_floor is not None:
        return f" (noise floor {format_floor(verdict.noise_floor)})"
    # Earlier versions did not say what they saw.
    noise = verdict.noise
    if noise is None or not verdict.processes:
        return ""
    seen = format_percent(noise) if noise <= 1 else f"{1 + noise:.2g} times"
    return f" (too few processes to estimate a noise floor; equal builds or processes differed by up to {seen})"


def _busy(result: RunResult) -> str:
    """Return that other processes disturbed the measurement, or an empty text."""
    percent = disturbed_percent(result)
    if percent < BUSY_PERCENT:
        return ""
    return f", measured while other processes took {percent:.0f} % of the cores' time: measure on an idle machine"


def compile_time_claim(ratio: StatedRatio | None, baseline: str) -> str:
    """Return what a ratio of compile times says, as a predicate; empty without a ratio."""
    if ratio is None or ratio.ratio is None:
        return ""
    value, (low, high) = ratio.ratio, ratio.interval or (None, None)
    if low is None or high is None:
        if value == 1:  # the baseline itself
            return ""
        return f"compiled {format_ratio(ratio)} times as fast; one compile of each proves nothing"
    if low > 1:
        return f"compiles {format_ratio(ratio)} times faster"
    if high < 1:
        slower = StatedRatio(1 / value, (1 / high, 1 / low))
        return f"takes {format_ratio(slower)} times as long to compile"
    if low < 1 - EQUAL_COMPILES or high > 1 + EQUAL_COMPILES:
        undecided = f"undecided in compile time against {baseline}"
        if says_nothing(ratio.interval):
            return f"{undecided}: {format_number(value)}, with an interval too wide to say anything"
        return f"{undecided}: {format_ratio(ratio)}"
    return f"no significant difference in compile time from {baseline}: {format_ratio(ratio)}"


def rejected_lines(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield the winner of the search where another candidate is recommended, and why."""
    if rejected := result.rejected:
        yield "not recommended", f"{format_pipeline(rejected)}: {rejected.reason}"


def baseline_phrase(result: RunResult) -> str:
    """Return the baseline's name, or words that stand for it."""
    return result.baseline.name or "the baseline"
