"""Which latencies are shown beside a ratio: none that contradicts it."""

from passsearch.results.candidate import Candidate, Latency
from passsearch.results.parts import StatedRatio
from passsearch.results.run import RunResult

MOST_CONTRADICTION = 1.2
"""Largest factor between two latencies' ratio and the ratio that runs in turns have read.

A search times each candidate at another moment, and the machine may be busy at one of them: the ratio to what ran in
turns with it then holds, and the latency does not. Where two candidates were confirmed side by side, both come from the
same processes, and on an idle machine a contradiction is evidence.
"""

BUSY_PERCENT = 10.0
"""Share of the cores' time, taken by others, from which on they are named as the cause of a wide interval."""


def winner_latency(result: RunResult) -> Latency | None:
    """Return the latency of a run's winner; ``None`` if it is not shown, because its ratio contradicts it."""
    best = result.best
    return None if is_withheld(result, best, result.ratio_of("throughput")) else best.latency_s


def is_withheld(result: RunResult, candidate: Candidate, ratio: StatedRatio | None) -> bool:
    """Return whether reports leave out the latency of a candidate because it contradicts the candidate's ratio.

    It is left out only where latency and ratio are of different processes, or where others used the cores. Beside a
    slow baseline the winner is timed too seldom for a latency, so processes of its own time it.

    Args:
        result: The run.
        candidate: The winner, or the sequence that was timed beside it.
        ratio: The throughput of the candidate as a multiple of the baseline's.
    """
    number, latency = result.verdict.processes, result.best.latency_s
    is_apart = number is None or not latency or latency.processes != number
    return (is_apart or is_disturbed(result)) and contradicts(result.baseline, candidate, ratio)


def is_disturbed(result: RunResult) -> bool:
    """Return whether others used the cores while the winner was timed."""
    return disturbed_percent(result) >= BUSY_PERCENT


def disturbed_percent(result: RunResult) -> float:
    """Return the share of the cores' time that others took while the winner was timed, in percent."""
    conditions = result.best.conditions or {}
    values = [conditions.get(name) for name in ("foreign_percent", "steal_percent")]
    return float(sum(value for value in values if isinstance(value, int | float)))


def contradicts(reference: Candidate | None, candidate: Candidate, ratio: StatedRatio | None) -> bool:
    """Return whether the latency of a candidate contradicts its ratio to the reference."""
    own_s, other_s = (each and each.latency_s and each.latency_s.median for each in (candidate, reference))
    if not own_s or not other_s or not ratio or not ratio.ratio:
        return False
    factor = other_s / own_s / ratio.ratio
    return max(factor, 1 / factor) > MOST_CONTRADICTION
