"""Named pipelines against each other: built, checked, and sampled interleaved in one process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from passsearch.catalog import with_needs
from passsearch.core import Candidate, Failure, Measurement
from passsearch.errors import UserError
from passsearch.measure import LEVEL, noise_floor, process_ratio
from passsearch.search.document import measurement_document, model_document, ratio_document, toolchain_document
from passsearch.search.evaluation import FINAL_PLAN, Built, Evaluator
from passsearch.search.setting import Setting, read
from passsearch.store import SCHEMA


def compare_candidates(
    chosen: Setting,
    contenders: Sequence[Candidate],
    evaluator: Evaluator,
    *,
    rounds: int,
    processes: int,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Rows of a table: every pipeline's measurement and its ratio to the baseline, or its failure.

    Every process times the baseline, the baseline again (its twin: what it reads against itself is the noise of this
    comparison) and all the pipelines, those that are one binary included. There is one compile of each. Without any
    pipeline the baseline is compared with itself.
    """
    baseline = _baseline(chosen, contenders)
    contenders = [_with_needs(chosen, evaluator, each) for each in contenders or (baseline, baseline)]
    evaluator.built(evaluator.graph.root, chosen.dialect.baselines[0].build)
    reference, *built = _build_all(evaluator, [baseline, *contenders], progress)
    if isinstance(reference, Failure):
        raise UserError(f"The baseline `{baseline.name}` does not compile for this network: {reference.reason}.")
    places = _places(baseline, contenders, built)
    timed = [each for each, place in zip(built, places, strict=True) if isinstance(each, Built) and place > 0]
    folders = [str(each.folder) for each in (reference, reference, *timed)]
    progress("measuring, interleaved", len(contenders), len(contenders))
    answer = evaluator.time_fresh("compare", folders, replace(FINAL_PLAN, rounds=rounds), processes=processes)
    if isinstance(answer, Failure):
        raise UserError(f"The measurement failed: {answer.reason}.")
    rows = [
        _failed_row(candidate, outcome)
        if isinstance(outcome, Failure)
        else _row(chosen, evaluator, candidate, outcome, answer, place)
        for candidate, outcome, place in zip(contenders, built, places, strict=True)
    ]
    return {
        "schema": SCHEMA,
        "model": model_document(chosen, evaluator.inputs, evaluator.batch),
        "target": chosen.target,
        "toolchain": toolchain_document(chosen),
        "device": chosen.sensors.device,
        "baseline": baseline.name,
        "level": LEVEL,
        "noise_floor": noise_floor(process_ratio(answer["processes"], 1)),
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


def _places(baseline: Candidate, contenders: Sequence[Candidate], built: Sequence[Built | Failure]) -> list[int]:
    """Where each stands among the timed: the baseline first, its twin second, then the others in turn.

    A baseline named twice is timed once more for every further time; what failed has the place of nobody, -1.
    """
    places: list[int] = []
    for candidate, outcome in zip(contenders, built, strict=True):
        if isinstance(outcome, Failure):
            places.append(-1)
        elif candidate.name == baseline.name and 0 not in places:
            places.append(0)
        else:
            places.append(max(places, default=0) + 1 if max(places, default=0) > 0 else 2)
    return places


def _failed_row(candidate: Candidate, failure: Failure) -> dict[str, Any]:
    return {**_named(candidate), "failure": failure.to_json()}


def _named(candidate: Candidate) -> dict[str, Any]:
    return {"name": candidate.name, "pipeline": str(candidate.pipeline), "build": candidate.build.to_json()}


def _row(
    chosen: Setting, evaluator: Evaluator, candidate: Candidate, built: Built, answer: Mapping[str, Any], place: int
) -> dict[str, Any]:
    apply_s = evaluator.apply_seconds(candidate.pipeline)
    measured = Measurement(
        latency_s=tuple(value for process in answer["processes"] for value in process[place]),
        compile_s=apply_s + built.seconds,
        apply_s=apply_s,
        batch=evaluator.batch,
        memory_bytes={"plan": built.plan_bytes, "peak_rss": built.peak_rss},
        artifact_bytes=built.bytes,
        unavailable=chosen.sensors.unavailable,
        conditions=answer["conditions"][0],
    )
    ratio = ratio_document(process_ratio(answer["processes"], place))
    identity = {"state": built.state, "binary": built.digest}
    return {**_named(candidate), **identity, "ratio": ratio, **measurement_document(measured)}
