"""Named pipelines against each other: built, checked, and sampled interleaved in one process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from passsearch.catalog import with_needs
from passsearch.core import Candidate, Failure, Measurement
from passsearch.errors import UserError
from passsearch.measure import LEVEL, Ratio, noise_floor, paired_ratio
from passsearch.search.document import measurement_document, model_document, ratio_document, toolchain_document
from passsearch.search.evaluation import SEARCH_PLAN, Built, Evaluator
from passsearch.search.setting import Setting, read
from passsearch.store import SCHEMA


def compare_candidates(
    chosen: Setting,
    contenders: Sequence[Candidate],
    evaluator: Evaluator,
    *,
    rounds: int,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Rows of a table: every pipeline's measurement and its ratio to the baseline, or its failure.

    The baseline is sampled twice in every round: what it reads against itself is the noise of this comparison. The
    intervals are those of one process and one compile each.
    """
    baseline = _baseline(chosen, contenders)
    contenders = [_with_needs(chosen, evaluator, each) for each in contenders]
    evaluator.built(evaluator.graph.root, chosen.dialect.baselines[0].build)
    reference, *built = _build_all(evaluator, [baseline, *contenders], progress)
    if isinstance(reference, Failure):
        raise UserError(f"The baseline `{baseline.name}` does not compile for this network: {reference.reason}.")
    timed = list({each.key: each for each in built if isinstance(each, Built) and each.key != reference.key}.values())
    plan = replace(SEARCH_PLAN, rounds=rounds, give_up=False)
    progress("measuring, interleaved", len(contenders), len(contenders))
    answer = evaluator.shootout("compare", [reference, reference, *timed], plan)
    if isinstance(answer, Failure):
        raise UserError(f"The measurement failed: {answer.reason}.")
    reference_s, twin_s, *samples = answer["samples"]
    by_built = {reference.key: reference_s, **dict(zip([each.key for each in timed], samples, strict=True))}
    rows = [
        _row(chosen, evaluator, candidate, outcome, reference_s, by_built, answer["conditions"])
        for candidate, outcome in zip(contenders, built, strict=True)
    ]
    return {
        "schema": SCHEMA,
        "model": model_document(chosen, evaluator.inputs, evaluator.batch),
        "target": chosen.target,
        "toolchain": toolchain_document(chosen),
        "device": chosen.sensors.device,
        "baseline": baseline.name,
        "level": LEVEL,
        "noise_floor": noise_floor(paired_ratio(reference_s, twin_s)),
        "rows": rows,
    }


def _with_needs(chosen: Setting, evaluator: Evaluator, candidate: Candidate) -> Candidate:
    """A named sequence with the passes it needs put in; what the user wrote out stays as it is."""
    if candidate.name not in chosen.catalog.sequences:
        return candidate
    present = read(chosen, evaluator.summary).fingerprint.present()
    return replace(candidate, pipeline=with_needs(candidate.pipeline, chosen.catalog, present=present))


def _baseline(chosen: Setting, contenders: Sequence[Candidate]) -> Candidate:
    names = {each.name for each in chosen.dialect.baselines}
    default = chosen.dialect.baseline
    if any(each.name == default.name for each in contenders):
        return default
    return next((each for each in contenders if each.name in names), default)


def _build_all(
    evaluator: Evaluator, candidates: Sequence[Candidate], progress: Callable[[str, int, int], None]
) -> list[Built | Failure]:
    outcomes: list[Built | Failure] = []
    for number, candidate in enumerate(candidates):
        progress(f"building {candidate.name}", number, len(candidates))
        state = evaluator.reach(candidate.pipeline)
        outcomes.append(state if isinstance(state, Failure) else evaluator.built(state, candidate.build))
    return outcomes


def _row(
    chosen: Setting,
    evaluator: Evaluator,
    candidate: Candidate,
    outcome: Built | Failure,
    reference_s: Sequence[float],
    samples: dict[str, list[float]],
    conditions: dict[str, Any],
) -> dict[str, Any]:
    named = {"name": candidate.name, "pipeline": str(candidate.pipeline), "build": candidate.build.to_json()}
    if isinstance(outcome, Failure):
        return {**named, "failure": outcome.to_json()}
    apply_s = evaluator.apply_seconds(candidate.pipeline)
    latency_s = samples[outcome.key]
    ratio: Ratio = paired_ratio(reference_s, latency_s)
    measured = Measurement(
        latency_s=tuple(latency_s),
        compile_s=apply_s + outcome.seconds,
        apply_s=apply_s,
        batch=evaluator.batch,
        memory_bytes={"plan": outcome.plan_bytes, "peak_rss": outcome.peak_rss},
        artifact_bytes=outcome.bytes,
        unavailable=chosen.sensors.unavailable,
        conditions=conditions,
    )
    return {**named, "state": outcome.state, "ratio": ratio_document(ratio), **measurement_document(measured)}
