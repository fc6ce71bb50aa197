"""Which latencies are shown beside a ratio: none that contradicts it."""

from passsearch.results.candidate import Candidate, Latency
from passsearch.results.parts import StatedRatio
from passsearch.results.run import RunResult

MOST_CONTRADICTION = 1.2
"""Largest factor between two latencies' ratio and the ratio that runs in turns have read.

A search times each candidate at another moment, and the machine may be busy at one of them: the ratio to what ran in
turns with it then holds, and the latency does not. Where two candidates were confirmed side by side, both come from the
same processes, and a contradiction is evidence.
"""


def winner_latency(result: RunResult) -> Latency | None:
    """Return the latency of a run's winner; ``None`` if it is not shown, because its ratio contradicts it."""
    best = result.best
    return None if is_withheld(result, best, result.ratio_of("throughput")) else best.latency_s


def is_withheld(result: RunResult, candidate: Candidate, ratio: StatedRatio | None) -> bool:
    """Return whether the latency of the winner, or of the sequence timed beside it, contradicts its ratio.

    Beside a slow baseline the winner has few runs, so it has processes of its own.
    """
    number, latency = result.verdict.processes, result.best.latency_s
    is_apart = number is None or not latency or latency.processes != number
    return is_apart and contradicts(result.baseline, candidate, ratio)


def contradicts(reference: Candidate | None, candidate: Candidate, ratio: StatedRatio | None) -> bool:
    """Return whether the latency of a candidate contradicts its ratio to the reference."""
    own_s, other_s = (each and each.latency_s and each.latency_s.median for each in (candidate, reference))
    if not own_s or not other_s or not ratio or not ratio.ratio:
        return False
    factor = other_s / own_s / ratio.ratio
    return max(factor, 1 / factor) > MOST_CONTRADICTION
