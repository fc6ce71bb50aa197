"""One candidate of a search, from its state to its measured ratio to the baseline."""

import logging
from collections.abc import Sequence

from passsearch.core import Candidate, Failure, Objective
from passsearch.evaluate import Built, CandidateSamples, Evaluator
from passsearch.measure import CONSUMPTION_OBJECTIVES, Ratio, one_process_ratio
from passsearch.search.records import Pair, Scored
from passsearch.search.scoring import SAME_BINARY

_log = logging.getLogger(__name__)


def measure_candidate(
    evaluator: Evaluator,
    candidate: Candidate,
    *,
    state: str,
    apply_s: float,
    baseline: Built,
    objectives: Sequence[Objective],
) -> Scored | Failure:
    """Build a candidate, verify its outputs, time it beside the baseline, and measure its consumption.

    Args:
        evaluator: Evaluates the candidate.
        candidate: The candidate.
        state: The state its pipeline leads to.
        apply_s: Seconds to apply the pipeline.
        baseline: The artifact it is compared with.
        objectives: Objectives of the run. Power and energy are measured only if they are among them.
    """
    built = evaluator.build(state, candidate)
    if isinstance(built, Failure):
        return built
    samples = evaluator.sample(baseline, built)
    if isinstance(samples, Failure):
        return samples
    consumption = _consumption(evaluator, baseline, built, objectives=objectives)
    if isinstance(consumption, Failure):
        return consumption
    # A binary is as fast as itself, whatever was read. The samples stay in the result for its reader.
    same = built.digest == baseline.digest
    return Scored(
        candidate=candidate,
        built=built,
        ratio=SAME_BINARY if same else _ratio(samples),
        latency_s=samples.candidate,
        baseline_latency_s=samples.baseline,
        compile_s=apply_s + built.seconds,
        apply_s=apply_s,
        batch=evaluator.batch,
        conditions=samples.conditions,
        consumption=consumption,
    )


def _ratio(samples: CandidateSamples) -> Ratio | None:
    return one_process_ratio(samples.baseline, samples.candidate) if samples.candidate else None


def _consumption(
    evaluator: Evaluator, baseline: Built, built: Built, *, objectives: Sequence[Objective]
) -> Pair | Failure | None:
    """Measure the consumption of baseline and candidate, where it is an objective."""
    names = [objective.name for objective in objectives if objective.name in CONSUMPTION_OBJECTIVES]
    if not names:
        return None
    # Both run in turns although the baseline was read before: a meter counts a whole package or card, other work
    # included, so only readings side by side can be compared.
    folders, plan = [str(baseline.folder), str(built.folder)], evaluator.plans.search_windows
    consumed = evaluator.measure_consumption(built.digest, folders, plan=plan)
    if consumed is None:  # an earlier run built the artifact; its facts are in the fact cache, its files are not
        _log.debug("building %s again to measure its consumption", built.key)
        for artifact in (baseline, built):
            evaluator.restore(artifact)
        consumed = evaluator.measure_consumption(built.digest, folders, plan=plan)
    if isinstance(consumed, Failure):
        return consumed
    artifacts = consumed.artifacts if consumed else ()
    if not artifacts or not all(artifact.has(name) for artifact in artifacts for name in names):
        return Failure("infra", "measure", "", f"the device did not report its {' and '.join(names)}")
    return artifacts[0], artifacts[1]
