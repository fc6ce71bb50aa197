"""The shortlist: the best candidates of a search, measured again side by side in new processes; the winner first."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from passsearch.core import Failure, Interval
from passsearch.evaluate import Evaluator, TimedArtifacts, TimedSamples, TimingRequest
from passsearch.measure import MIN_GAIN, Ratio, one_process_ratio, process_ratio
from passsearch.search.records import Reference, Scored
from passsearch.search.scoring import Scoring

# A search times its candidates in few rounds, so its best one may be lucky. A shortlist of five makes up for that.
SHORTLIST, QUICK = 5, 2
"""Number of candidates measured side by side, and how many of them are on the list because they compile fast."""

# Ratios vary by half a percent from process to process (docs/evidence/measurement.md), and a search has one process.
NEAR_BEST = 0.98
"""Share of the best candidate's gain from which a candidate counts as nearly as good."""

# A search compiles a candidate once, and one compile differs from the next by 3 % or more. Without this margin, equally
# fast compiles would choose among candidates whose speeds differ by up to a percent.
QUICKER = 1.1
"""Number of times that a candidate must compile faster to be preferred to one that reads a little faster."""

FAR = 0.8
"""Share of that gain below which no second measurement can make a candidate the best."""

_log = logging.getLogger(__name__)


def shortlist(
    evaluator: Evaluator,
    scoring: Scoring,
    ranked: Sequence[Scored],
    *,
    reference: Reference,
    processes: int | None = None,
    is_recorded: Callable[[str], bool] = lambda key: False,
) -> list[Scored]:
    """Measure the best candidates again, side by side; return them with the winner first.

    Args:
        evaluator: Evaluates the candidates.
        scoring: Gains over the baseline.
        reference: The artifact of the search beside which they are timed.
        ranked: Candidates, the best first.
        processes: Number of processes that the time allows, if it is less than usual; with 0 the search's own
            measurements stand.
        is_recorded: Returns whether the samples of this key are in the log and take no time.
    """
    baseline = scoring.baseline.built
    candidates = _one_per_binary([scored for scored in ranked if scored.built.key != baseline.key])
    # A Pareto front has no winner that a second measurement could decide.
    if not candidates or len(scoring.options.objectives) > 1:
        return candidates[:SHORTLIST]
    # The baseline's own binary needs no measurement: its ratio is exactly 1.
    same = [scored for scored in candidates if scoring.is_baseline_binary(scored.built)]
    different = [scored for scored in candidates if not scoring.is_baseline_binary(scored.built)]
    number = evaluator.plans.processes if processes is None else min(processes, evaluator.plans.processes)

    def time(promising: Sequence[Scored]) -> TimedSamples | Failure | None:
        _log.info("measuring a shortlist of %d of %d candidates again", len(promising), len(candidates))
        request = _request(evaluator, scoring, promising, reference=reference, processes=number)
        is_timed = request is not None and (number > 0 or is_recorded(request.key))
        return evaluator.time_fresh(request) if request and is_timed else None

    promising = _promising(scoring, different)
    timings = time(promising)
    while _is_wrong(timings) and (wrong := _wrong_ones(evaluator, scoring, promising, reference=reference)):
        different = [scored for scored in different if scored not in wrong]
        promising = _promising(scoring, different)
        timings = time(promising)
    measured = _with_timings(promising, timings, reference=reference)
    preferred = _by_preference(scoring, [*measured, *same])
    if preferred:
        _log.info("the winner is %s", preferred[0].candidate)
    return preferred


def _is_wrong(timings: TimedSamples | Failure | None) -> bool:
    return isinstance(timings, Failure) and timings.kind == "wrong_result"


def _wrong_ones(
    evaluator: Evaluator, scoring: Scoring, candidates: Sequence[Scored], *, reference: Reference
) -> list[Scored]:
    """Return the candidates with wrong outputs after each was timed alone, beside the reference."""
    wrong = []
    for scored in candidates:
        request = _request(evaluator, scoring, [scored], reference=reference, processes=1)
        if request is not None and _is_wrong(evaluator.time_fresh(request)):
            _log.warning("%s is ruled out: its outputs were wrong after it was timed", scored.candidate)
            wrong.append(scored)
    return wrong


def _with_timings(
    candidates: list[Scored], timings: TimedSamples | Failure | None, *, reference: Reference
) -> list[Scored]:
    """Return candidates with what new processes measured of them; unchanged if nothing was measured."""
    # The search's own ratios remain, and the confirmation decides in any case.
    if timings is None or isinstance(timings, Failure) or not timings.processes:
        _log.debug("the shortlist keeps the ratios of the search: nothing was timed")
        return candidates
    # The reference may be one of the candidates.
    rows = {scored.built.key: number for number, scored in enumerate(_others(candidates, reference))}
    return [_with_samples(scored, timings, rows.get(scored.built.key), gain=reference.gain) for scored in candidates]


def _others(candidates: Sequence[Scored], reference: Reference) -> list[Scored]:
    """Return the candidates that are timed beside the reference."""
    return [scored for scored in candidates if scored.built.key != reference.built.key]


def _request(
    evaluator: Evaluator, scoring: Scoring, candidates: Sequence[Scored], *, reference: Reference, processes: int
) -> TimingRequest | None:
    """Return the request that times the candidates; ``None`` where there is none beside the reference."""
    others = _others(candidates, reference)
    if not others:
        return None
    key = "shortlist:" + ";".join(scored.built.key for scored in others)
    # Ratios are to the reference. The key does not name the baseline, so that runs of earlier versions can go on.
    if reference.built.key != scoring.baseline.built.key:
        key += f" beside {reference.built.key}"
    # Other orders of visits and depths of the stack than in the search, by whose samples these candidates are the best.
    plan = replace(evaluator.plans.shortlist_rounds, seed=scoring.options.seed + 1)
    built = (reference.built, *(scored.built for scored in others))
    artifacts = TimedArtifacts(built[0].folder, tuple(each.folder for each in built[1:]))
    return TimingRequest(key, artifacts, plan, processes=processes, restored=built)


def _promising(scoring: Scoring, candidates: list[Scored]) -> list[Scored]:
    """Return the best by the objective, and the fastest to compile among those nearly as good as the best."""
    if not candidates:
        return []
    least = NEAR_BEST * scoring.gain(scoring.objective, candidates[0])
    candidates = [scored for scored in candidates if scoring.gain(scoring.objective, scored) >= FAR * least]
    near = [scored for scored in candidates if scoring.gain(scoring.objective, scored) >= least]
    quick = sorted(near, key=lambda scored: scored.compile_s)[:QUICK]
    rest = [scored for scored in candidates if scored not in quick]
    return [*quick, *rest[: SHORTLIST - len(quick)]]


def _by_preference(scoring: Scoring, candidates: list[Scored]) -> list[Scored]:
    """Return the winner first: the best by the objective, or the fastest to compile where none is really better."""
    admissible = [scored for scored in candidates if scoring.is_admissible(scored)]
    if not admissible:
        return []
    best = max(admissible, key=lambda scored: scoring.gain(scoring.objective, scored))
    if scoring.objective.is_speed:
        best = _quickest(_equally_fast(scoring, admissible, best=best), best=best)
    return [best, *(scored for scored in admissible if scored is not best)]


def _equally_fast(scoring: Scoring, candidates: list[Scored], *, best: Scored) -> list[Scored]:
    """Return the candidates as fast as the best one, or the baseline's own binary where the best may be no faster."""
    # A gain that one of the processes does not see is not worth the risk of a loss. The baseline's own binary, made by
    # a quicker pipeline, cannot lose throughput.
    if not all(ratio > 1 + MIN_GAIN for ratio in best.process_ratios):
        quicker = [scored for scored in candidates if scored.compile_s < scoring.baseline.compile_s]
        same = [scored for scored in quicker if scoring.is_baseline_binary(scored.built)]
        if same:
            return same
    assert best.ratio is not None
    least = best.ratio.value * (1 - MIN_GAIN)
    return [scored for scored in candidates if scored.ratio is not None and scored.ratio.value >= least]


def _quickest(candidates: list[Scored], *, best: Scored) -> Scored:
    """Return the candidate that compiles fastest, or the best one if it is among them and no other clearly does."""
    quickest = min(candidates, key=lambda scored: scored.compile_s)
    keep_best = best in candidates and quickest.compile_s * QUICKER > best.compile_s
    return best if keep_best else quickest


def _with_samples(scored: Scored, timings: TimedSamples, number: int | None, *, gain: float) -> Scored:
    """Return a candidate with its new samples.

    Args:
        scored: The candidate.
        timings: Samples of the reference and of the candidates.
        number: Place of the candidate among them; ``None`` for the reference.
        gain: Throughput of the reference as a multiple of the baseline's.
    """
    pairs = [
        (process.baseline, process.baseline if number is None else process.candidates[number])
        for process in timings.processes
    ]
    ratio = process_ratio(pairs)
    # The gain of another reference than the baseline comes from one process, which says nothing about the next.
    interval = ratio.interval if gain == 1.0 else Interval(0.0, math.inf)
    return replace(
        scored,
        ratio=Ratio(gain * ratio.value, interval),
        latency_s=tuple(value for _, candidate in pairs for value in candidate),
        process_ratios=tuple(gain * one_process_ratio(*pair).value for pair in pairs),
    )


def _one_per_binary(ranked: Sequence[Scored]) -> list[Scored]:
    """Return one candidate per binary: the one that compiles fastest, at the rank of the first with that binary."""
    best: dict[str, Scored] = {}
    for scored in ranked:
        current = best.get(scored.built.digest)
        best[scored.built.digest] = scored if current is None or scored.compile_s < current.compile_s else current
    return list(best.values())
