"""One candidate of a search, from its state to its measured ratio to the baseline."""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

from passsearch.core import Candidate, Failure, Interval
from passsearch.evaluate import Built, CandidateSamples, Evaluator
from passsearch.measure import Ratio, one_process_ratio
from passsearch.objectives import MeteredObjective, Objective
from passsearch.search.records import Pair, Reference, Scored
from passsearch.search.scoring import SAME_BINARY

# A drifting machine or a first run's cold caches slow an inference of half a second far less than fourfold.
FAR_SLOWER, LEAST_LONG_S = 4.0, 0.5
"""A candidate that takes so many times the reference's latency, and at least so many seconds, is not timed."""

# Of a run of 300 s on BERT-base, four inferences of TVM's default took 100 s.
LONG_S = 1.0
"""From this duration on, the inference whose outputs are compared also gives the latency."""

ALONE = {"timed_alone": "the reference takes so much longer that it did not run again beside this candidate"}
"""Condition of a candidate that is far faster than a slow reference."""

_log = logging.getLogger(__name__)


def measure_candidate(
    evaluator: Evaluator,
    candidate: Candidate,
    *,
    state: str,
    baseline: Built,
    reference: Reference,
    objectives: Sequence[Objective],
    longest_s: float = math.inf,
) -> Scored | Failure:
    """Build a candidate, verify its outputs, time it beside a reference, and measure its consumption.

    Args:
        evaluator: Evaluates the candidate.
        candidate: The candidate.
        state: The state its pipeline leads to.
        baseline: The artifact it is compared with.
        reference: The artifact it is timed beside.
        objectives: Objectives of the run. Power and energy are measured only if they are among them.
        longest_s: Longest inference in seconds that is of interest.
    """
    # Before the build, which finds the state in the compiler then.
    apply_s = evaluator.apply_seconds(candidate.pipeline)
    if isinstance(apply_s, Failure):
        return apply_s
    built = evaluator.build(state, candidate, longest_s=longest_s)
    if isinstance(built, Failure):
        return built
    if built.run_s is not None and built.run_s > longest_s:
        return _too_slow(candidate, built, built.run_s, apply_s=apply_s, batch=evaluator.batch, reference=reference)
    # A binary is as fast as itself, whatever was read. The samples stay in the result for its reader.
    same = built.digest == baseline.digest
    is_alone = not same and _is_far_faster(built, reference)
    samples = _sample(evaluator, built, beside=baseline if same else built if is_alone else reference.built)
    if isinstance(samples, Failure):
        return samples
    consumption = _consumption(evaluator, baseline, built, objectives=objectives)
    if isinstance(consumption, Failure):
        return consumption
    return Scored(
        candidate=candidate,
        built=built,
        ratio=SAME_BINARY if same else _ratio(samples, reference, is_alone=is_alone),
        latency_s=samples.candidate,
        compile_s=apply_s + built.seconds,
        apply_s=apply_s,
        batch=evaluator.batch,
        conditions={**samples.conditions, **(ALONE if is_alone else {})},
        consumption=consumption,
    )


def _too_slow(
    candidate: Candidate, built: Built, run_s: float, *, apply_s: float, batch: int, reference: Reference
) -> Scored:
    """Return a candidate with the one inference that showed it to be far slower than the reference."""
    assert reference.latency_s is not None
    _log.info("%s is not timed: one inference takes %.2f s", candidate.pipeline, run_s)
    return Scored(
        candidate=candidate,
        built=built,
        ratio=Ratio(reference.gain * reference.latency_s / run_s, Interval(0.0, math.inf)),
        latency_s=(run_s,),
        compile_s=apply_s + built.seconds,
        apply_s=apply_s,
        batch=batch,
        conditions={"not_timed": f"one inference took {FAR_SLOWER:g} times as long as the fastest candidate's or more"},
    )


def _is_far_faster(built: Built, reference: Reference) -> bool:
    """Return whether an artifact is so much faster than a slow reference that the reference need not run again."""
    if built.run_s is None or reference.latency_s is None or reference.latency_s < LONG_S:
        return False
    return built.run_s * FAR_SLOWER < reference.latency_s


def _sample(evaluator: Evaluator, built: Built, *, beside: Built) -> CandidateSamples | Failure:
    """Time an artifact beside another, or take the time of the run whose outputs were compared, if it is long."""
    if beside.digest == built.digest and built.run_s is not None and built.run_s >= LONG_S:
        alone = (built.run_s,)
        return CandidateSamples(alone, alone, {"timed_once": f"an inference of {LONG_S:g} s or more runs once"})
    return evaluator.sample(beside, built)


def _ratio(samples: CandidateSamples, reference: Reference, *, is_alone: bool) -> Ratio | None:
    if not samples.candidate:
        return None
    if is_alone:
        assert reference.latency_s is not None
        return Ratio(reference.gain * reference.latency_s / min(samples.candidate), Interval(0.0, math.inf))
    ratio = one_process_ratio(samples.reference, samples.candidate)
    return replace(ratio, value=reference.gain * ratio.value)


def _consumption(
    evaluator: Evaluator, baseline: Built, built: Built, *, objectives: Sequence[Objective]
) -> Pair | Failure | None:
    """Measure the consumption of baseline and candidate, where it is an objective."""
    metered = [objective for objective in objectives if isinstance(objective, MeteredObjective)]
    if not metered:
        return None
    # Both run in turns although the baseline was read before: a meter counts a whole package or card, other work
    # included, so only readings side by side can be compared.
    folders, plan = [str(baseline.folder), str(built.folder)], evaluator.plans.search_windows
    consumed = evaluator.measure_consumption(built.digest, folders, plan=plan)
    if consumed is None:  # an earlier run built the artifact; its facts are in the fact cache, its files are not
        _log.debug("building %s again to measure its consumption", built.key)
        for artifact in (baseline, built):
            restored = evaluator.restore(artifact)
            if isinstance(restored, Failure):
                return replace(restored, kind="infra")  # the build has succeeded before
        consumed = evaluator.measure_consumption(built.digest, folders, plan=plan)
    if isinstance(consumed, Failure):
        return consumed
    artifacts = consumed.artifacts if consumed else ()
    if not artifacts or not all(objective.is_read(artifact) for artifact in artifacts for objective in metered):
        names = " and ".join(objective.name for objective in metered)
        return Failure("infra", "measure", "", f"the device did not report its {names}")
    return artifacts[0], artifacts[1]
