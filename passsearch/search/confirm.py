"""The confirmation of a winner on samples that did not choose it: fresh compiles in fresh processes, repeated.

Repetitions end when the verdict is clear, and the gain over the catalog's best sequence. Their intervals hold together,
so looking at each of them is no bias.
"""

import logging
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from passsearch.core import UNLIMITED, Failure, TimeLimit
from passsearch.errors import UserError
from passsearch.evaluate import (
    ACCIDENTS,
    OVERTIME,
    Consumed,
    Evaluator,
    FreshCompile,
    MeasurementPlans,
    TimedArtifacts,
    TimedSamples,
    TimingRequest,
)
from passsearch.measure import RoundPlan, level_of_looks
from passsearch.objectives import Objective
from passsearch.search.confirmation import Confirmation
from passsearch.search.repetition import Pairing, Repetition, summarize
from passsearch.search.scoring import FAR_FASTER

MORE_TIME = "the same command with more time continues"

LEAST_REPETITIONS = 2
"""Number of repetitions without which there is no interval."""

# Some seconds, because a kernel that is fast in its first calls only has a thousand of them in less.
SUSTAINED = RoundPlan(rounds=2, runs=1, run_s=1.5, visit_s=1.5, race_s=6.0, depths=1, seed=3000)
"""Plan by which winner and baseline run once without a pause."""

SUSTAINED_S = 15.0
"""Time that this takes at most, roughly: two rounds of two artifacts, twice where they are disturbed, and the start."""

LEAST_RACE_S = 1.0
"""Shortest ``RoundPlan.race_s`` of a process of a confirmation, whatever little time is left."""

LARGE_GAIN = 20.0
"""Gain in throughput that a difference between two processes does not put in doubt."""

_log = logging.getLogger(__name__)


def slow_baseline_processes(
    objective: Objective, throughput: float | None, *, latency_s: float, plans: MeasurementPlans
) -> int:
    """Return how many processes of a repetition time a slow baseline, which is as few as possible; 0 if it is not slow.

    It is slow where it is far slower than the winner, and a race of it and its twin has no time for its rounds. One
    process does where a single inference takes longer than a race may and the gain is large.

    Args:
        objective: Objective of the run.
        throughput: Throughput of the winner over the baseline's, as known so far.
        latency_s: Seconds of the baseline's inference.
        plans: Plans of the session.
    """
    plan = plans.final_rounds
    is_far_slower = throughput is not None and throughput > FAR_FASTER
    if not objective.is_speed or not is_far_slower or 2 * latency_s <= plan.race_s / plan.rounds:
        return 0
    is_large = throughput is not None and throughput > LARGE_GAIN
    return 1 if latency_s > plan.race_s and is_large else plans.least_processes


def require_repetitions(repetitions: int) -> None:
    """Refuse a number of repetitions that has no interval.

    Raises:
        UserError: Fewer than 2.
    """
    if repetitions < LEAST_REPETITIONS:
        raise UserError(f"Confirming takes 2 repetitions or more (`tune` also takes 0 for none); got {repetitions}.")


def confirm(
    evaluator: Evaluator,
    pairing: Pairing,
    *,
    repetitions: int,
    progress: Callable[[str], None],
    keep_throughput: float = 0.0,
    is_about_sequence: bool = True,
    time_limit: TimeLimit = UNLIMITED,
    kept_s: float = 0.0,
    is_recorded: Callable[[str], bool] = lambda key: False,
) -> Confirmation | Failure:
    """Compile baseline and candidate, each in a process of its own, and time them in other processes; repeat.

    The repetitions end when the verdict is clear, after ``MeasurementPlans.most_repetitions``, or when the time is up.
    Where no gain is visible, the verdict is clear once the noise floor is below ``MeasurementPlans.least_floor``.

    Args:
        evaluator: Evaluates the candidates.
        pairing: The winner of the search, and what it is compared with.
        repetitions: Fewest repetitions if the time suffices; at least 2, or there is no interval.
        progress: Callback; gets the current repetition in words.
        keep_throughput: Least throughput as a share of the baseline's, where no objective is speed.
        is_about_sequence: False if the gain over the sequence may stay in doubt.
        time_limit: The run's time limit. Two repetitions are made if the second one exceeds it by no more than the
            share ``OVERTIME``; without two there is no interval.
        kept_s: Seconds of the time limit that are kept for what follows, unless two repetitions need them.
        is_recorded: Returns whether the repetition with this ``Pairing.timing_key`` is in the log and takes no time.
    """
    objective = pairing.objective
    results: list[Repetition] = []
    most = max(repetitions, evaluator.plans.most_repetitions)
    level = level_of_looks(most - repetitions + 1)
    is_about_speed = objective.is_speed or keep_throughput > 0
    whole_limit, time_limit = time_limit, replace(time_limit, limit_s=time_limit.limit_s - kept_s)
    sustain = partial(_sustain, evaluator, pairing, time_limit=time_limit, is_recorded=is_recorded)
    while len(results) < most:
        number = f"{repetitions} to {most}" if repetitions < most else f"{most}"
        progress(f"confirming: fresh compile {len(results) + 1} of {number}")
        _log.info("confirming %s: repetition %d", pairing.candidate.pipeline, len(results) + 1)
        processes = sum(len(earlier.timed.processes) for earlier in results)
        result = _repeat(
            evaluator,
            pairing,
            turn=len(results),
            processes=processes,
            time_limit=time_limit,
            sustain=_nothing if results or not is_about_speed else sustain,
        )
        if isinstance(result, Failure):
            if len(results) < LEAST_REPETITIONS or not _is_accident(result):
                return _as_outcome(result, repetitions=len(results))
            break
        if not result.has_sequence:
            pairing = replace(pairing, sequence=None)
        results.append(result)
        if len(results) == 1:
            most = _affordable(pairing, result.again_s, time_limit.left_s(), most=most, is_recorded=is_recorded)
            # Their number does not follow from what they say, and is the number of looks that there can be. At the
            # level of seven looks, two repetitions have an interval of 89 standard errors.
            level = level_of_looks(max(1, most - min(repetitions, most) + 1))
        _log.debug("it took %.1f s in %d processes", result.seconds, len(result.timed.processes))
        confirmation = summarize(pairing, results, level=level)
        least_floor = evaluator.plans.least_floor
        decided = confirmation.is_decided(
            objective,
            keep_throughput=keep_throughput,
            least_floor=least_floor,
            is_about_sequence=is_about_sequence,
        )
        if decided and len(results) >= repetitions:
            break
        has_interval = len(results) >= LEAST_REPETITIONS
        if (
            is_recorded(pairing.timing_key(len(results)))
            or (time_limit.left_s() if has_interval else whole_limit.left_s(overtime=OVERTIME)) >= result.again_s
        ):
            continue
        _log.info("no time is left for a further repetition")
        if has_interval:
            break
        return Failure("timeout", "measure", "", f"the time limit ended after one of two repetitions; {MORE_TIME}")
    further = _compile_further(evaluator, pairing, results, progress=progress, time_limit=time_limit)
    return further if isinstance(further, Failure) else summarize(pairing, results, further, level=level)


def _is_accident(failure: Failure) -> bool:
    """Return whether a failure says nothing about the candidate, so that it is no bias to end with it."""
    _log.info("the confirmation ends: %s in %s, %s", failure.kind, failure.stage, failure.reason)
    # A compile that reached another IR says that the candidate is not reproducible.
    return failure.kind in ACCIDENTS - {"unstable"}


def _as_outcome(failure: Failure, *, repetitions: int) -> Failure:
    """Return the failure by which a confirmation ends; after an accident, it goes on where it stopped."""
    if not repetitions or not _is_accident(failure):
        return failure
    return replace(failure, reason=f"{failure.reason}; the same command continues")


def _nothing(_: Sequence[FreshCompile]) -> None:
    """Stand for the runs of some seconds where there are none."""


def _affordable(
    pairing: Pairing, repetition_s: float, left_s: float, *, most: int, is_recorded: Callable[[str], bool]
) -> int:
    """Return how many repetitions there can be at most in the time that is left after the first one."""
    if repetition_s <= 0 or math.isinf(left_s):
        return most
    recorded = sum(is_recorded(pairing.timing_key(turn)) for turn in range(most))
    return min(most, max(1 + int(max(left_s, 0.0) / repetition_s), LEAST_REPETITIONS, recorded))


def _compile_further(
    evaluator: Evaluator,
    pairing: Pairing,
    results: Sequence[Repetition],
    *,
    progress: Callable[[str], None],
    time_limit: TimeLimit,
) -> list[tuple[FreshCompile, FreshCompile]] | Failure:
    """Compile baseline and candidate in further pairs, which are not timed, as far as the time suffices.

    A compile that fails, or reaches another IR, is the failure of the candidate; an accident of the machine ends this.
    """
    if pairing.objective.is_of_compiles:
        return []  # its repetitions end when compile time is decided
    pair_s = max(result.baseline.wall_s + result.candidate.wall_s for result in results)
    pairs: list[tuple[FreshCompile, FreshCompile]] = []
    # The number follows from the time alone and never from what is measured, so it is no bias.
    most = evaluator.plans.compile_pairs
    while len(results) + len(pairs) < most and time_limit.left_s() >= pair_s:
        progress(f"confirming: compile time, {len(results) + len(pairs) + 1} of {most}")
        compiles = _compile_all(evaluator, pairing, turn=len(results) + len(pairs), is_timed=False)
        if isinstance(compiles, Failure):
            _log.info("a further compile failed: %s", compiles.reason)
            if compiles.kind not in ACCIDENTS - {"unstable"}:
                return compiles
            break
        for compiled in compiles:
            shutil.rmtree(compiled.folder, ignore_errors=True)
        pairs.append((compiles[0], compiles[1]))
    return pairs


def _repeat(
    evaluator: Evaluator,
    pairing: Pairing,
    *,
    turn: int,
    processes: int,
    time_limit: TimeLimit,
    sustain: Callable[[Sequence[FreshCompile]], TimedSamples | None],
) -> Repetition | Failure:
    """Compile and time once more; ``processes`` is the number of earlier timing processes."""
    compiles = _compile_all(evaluator, pairing, turn=turn)
    if isinstance(compiles, Failure):
        return compiles
    baseline, candidate = compiles[:2]
    # Before the rounds: once those are in the log, no file is needed.
    sustained = sustain(compiles)
    time = partial(_time, evaluator, turn=turn, processes=processes, time_limit=time_limit)
    timed = time(pairing, (baseline, candidate))
    if isinstance(timed, Failure) and pairing.sequence is not None:
        # No verdict rests on the sequence, which may be what failed, or what does not fit into the memory.
        _log.info("timing failed beside a sequence, and is repeated without: %s", timed.reason)
        timed = time(replace(pairing, sequence=None), (baseline, candidate))
    consumed = None
    if not isinstance(timed, Failure):
        artifacts = replace(pairing, sequence=None).artifacts(baseline.folder, candidate.folder)
        consumed = _measure_consumption(evaluator, pairing, artifacts=artifacts, turn=turn)
    # Each folder can be as large as the network's parameters.
    for compiled in compiles:
        shutil.rmtree(compiled.folder, ignore_errors=True)
    if isinstance(timed, Failure):
        return timed
    if isinstance(consumed, Failure):
        if pairing.is_consumed:
            return consumed
        # No verdict rests on it, so the run's result is worth more than the missing columns of its table.
        _log.info("power and energy could not be read: %s", consumed.reason)
        consumed = None
    compile_twin = compiles[2] if len(compiles) > 2 else None
    is_apart = pairing.slow_processes == 1
    return Repetition(baseline, candidate, compile_twin, *timed, consumed, is_apart=is_apart, sustained=sustained)


def _sustain(
    evaluator: Evaluator,
    pairing: Pairing,
    compiles: Sequence[FreshCompile],
    *,
    time_limit: TimeLimit,
    is_recorded: Callable[[str], bool],
) -> TimedSamples | None:
    """Run winner and baseline for some seconds without a pause, if the time suffices; ``None`` if it does not."""
    baseline, candidate = compiles[:2]
    key = f"{pairing.timing_key(0)}-sustained"
    if baseline.digest == candidate.digest:
        return None
    # Two repetitions come first: another pair of compiles, and two processes that time them.
    start_s = _start_s(baseline, candidate)
    needed_s = baseline.wall_s + candidate.wall_s + 2 * (start_s + evaluator.plans.final_rounds.race_s)
    # Runs of earlier versions have none, and their files are gone.
    if not is_recorded(key) and (is_recorded(pairing.timing_key(0)) or time_limit.left_s() < SUSTAINED_S + needed_s):
        return None
    # A slow baseline has runs of seconds anyway.
    folder = None if pairing.has_slow_baseline else baseline.folder
    artifacts = TimedArtifacts(folder, (candidate.folder,))
    timed = evaluator.time_fresh(TimingRequest(key, artifacts, SUSTAINED, processes=1))
    if isinstance(timed, Failure):
        _log.info("the run of some seconds failed: %s", timed.reason)
        return None
    return timed


def _time(
    evaluator: Evaluator,
    pairing: Pairing,
    compiles: tuple[FreshCompile, FreshCompile],
    *,
    turn: int,
    processes: int,
    time_limit: TimeLimit,
) -> tuple[TimedSamples, TimedSamples | None] | Failure:
    """Time fresh compiles of baseline and winner; return the samples with the baseline, and others without it."""
    baseline, candidate = compiles
    plans, artifacts = evaluator.plans, pairing.artifacts(baseline.folder, candidate.folder)
    # The interval narrows with the number of processes. Where compiling is slow, more processes cost little beside it.
    compile_s = baseline.wall_s + candidate.wall_s
    # One binary is as fast as itself, so its times only show the noise.
    is_one = baseline.digest == candidate.digest and not pairing.is_consumed
    # The repetitions without which there is no interval share the time that is left.
    further = max(0, LEAST_REPETITIONS - turn - 1)
    left_s = (time_limit.left_s() - further * compile_s) / (further + 1)
    # A race lasts twice as long where it is disturbed.
    race_s = min(plans.final_rounds.race_s, max(LEAST_RACE_S, (left_s - _start_s(baseline, candidate)) / 2))
    plan = replace(plans.final_rounds, race_s=race_s)
    request = TimingRequest(
        pairing.timing_key(turn),
        artifacts,
        # Other orders of visits and depths of the stack than those of the shortlist, whose seed is the run's plus 1.
        replace(plan, seed=1000 + turn),
        plans.least_processes if is_one else None,
        least_s=compile_s,
        left_s=left_s,
        turn=processes,
        restored=pairing.earlier,
    )
    if not pairing.has_slow_baseline:
        timed = evaluator.time_fresh(request)
        return timed if isinstance(timed, Failure) else (timed, None)
    # A race with a slow baseline has few rounds of short runs: enough for a gain of a hundred times, not for
    # one of a few percent. The others come first: once the times with the baseline are in the log, no file is needed.
    others = evaluator.time_fresh(
        replace(
            request,
            key=f"{request.key}-others-{candidate.digest[:8]}",
            artifacts=replace(artifacts, baseline=None),
            plan=replace(plan, seed=2000 + turn),
            left_s=left_s / 2,
        )
    )
    if isinstance(others, Failure):
        return others
    timed = evaluator.time_fresh(
        replace(
            request,
            artifacts=replace(artifacts, twin=None),
            restored=(pairing.sequence,) if pairing.sequence else (),
            most=pairing.slow_processes,
            left_s=left_s - others.wall_s,
        )
    )
    return timed if isinstance(timed, Failure) else (timed, others)


def _start_s(*compiles: FreshCompile) -> float:
    """Return the time in which a process starts on this machine as it is now."""
    return max(compiled.wall_s - compiled.compile_s for compiled in compiles)


def _compile_all(
    evaluator: Evaluator, pairing: Pairing, *, turn: int, is_timed: bool = True
) -> list[FreshCompile] | Failure:
    """Compile baseline and candidate, and the baseline's twin where compile time is the objective."""
    name = f"fresh-{turn}-{pairing.slug}"
    jobs = [(f"{name}-baseline", pairing.baseline), (f"{name}-best", pairing.candidate)]
    jobs += [(f"{name}-twin", pairing.baseline)] if pairing.objective.is_of_compiles else []
    kinds = () if not is_timed else ("timed", "consumed") if pairing.is_consumed else ("timed",)
    compiled: dict[str, FreshCompile] = {}
    # A machine that gets slower meanwhile favours the compile that comes first, so the first changes every time.
    first = turn % len(jobs)
    for key, candidate in [*jobs[first:], *jobs[:first]]:
        result = evaluator.compile_fresh(key, candidate, timing_key=pairing.timing_key(turn), kinds=kinds)
        if isinstance(result, Failure):
            return result
        compiled[key] = result
    return [compiled[key] for key, _ in jobs]


def _measure_consumption(
    evaluator: Evaluator, pairing: Pairing, *, artifacts: TimedArtifacts, turn: int
) -> Consumed | Failure | None:
    # Three windows of 5 s for each of three artifacts take 62 s. Only an objective is worth that in every repetition.
    if turn > 0 and not pairing.is_consumed:
        return None
    plans = evaluator.plans
    windows = replace(plans.final_windows if pairing.is_consumed else plans.search_windows, seed=turn)
    return evaluator.measure_consumption(pairing.timing_key(turn), artifacts.folders, plan=windows)
