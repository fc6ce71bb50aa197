"""Named pipelines against each other: built, checked, and sampled interleaved in several processes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from passsearch.catalog import with_needs
from passsearch.core import Candidate, Failure, Interval, Measurement
from passsearch.errors import UserError
from passsearch.measure import LEVEL, Ratio, improved, least_repetitions, noise_floor, process_ratio
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
    processes: int | None,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Rows of a table: every pipeline's measurement and its ratio to the baseline, or its failure.

    Every process times the baseline, the baseline again (its twin: what it reads against itself is the noise of this
    comparison) and all the pipelines, those that are one binary included. There is one compile of each. Without any
    pipeline the baseline is compared with itself. Verdicts are corrected for the number of pairs (Bonferroni), and
    without a number of processes there are as many as these verdicts need.
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
    level = 1 - (1 - LEVEL) / max(1, math.comb(len(timed) + 1, 2))
    plan, number = replace(FINAL_PLAN, rounds=rounds), processes or least_repetitions(level)
    answer = evaluator.time_fresh("compare", folders, plan, processes=number)
    if isinstance(answer, Failure):
        raise UserError(f"The measurement failed: {answer.reason}.")
    floor = noise_floor(process_ratio(answer["processes"], 1))
    rows = [
        _failed_row(candidate, outcome)
        if isinstance(outcome, Failure)
        else _row(chosen, evaluator, candidate, outcome, answer, place, level=level, floor=floor)
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
        "processes": number,
        "noise_floor": floor if math.isfinite(floor) else None,
        "rows": rows,
        "pairs": _pairs(rows, places, answer["processes"], level=level, floor=floor),
    }


def _pairs(
    rows: Sequence[Mapping[str, Any]],
    places: Sequence[int],
    processes: Sequence[Sequence[Sequence[float]]],
    *,
    level: float,
    floor: float,
) -> list[dict[str, Any]]:
    """Every two pipelines: the second's throughput as a multiple of the first's, and what that proves."""
    found = []
    measured = [(row, place) for row, place in zip(rows, places, strict=True) if place >= 0]
    for (left, reference), (right, place) in combinations(measured, 2):
        ratio = process_ratio(processes, place, reference=reference, level=level)
        names = {"first": left["name"] or left["pipeline"], "second": right["name"] or right["pipeline"]}
        verdict = _verdict(ratio, floor=floor, same=left["binary"] == right["binary"])
        found.append({**names, **ratio_document(ratio), "level": level, "verdict": verdict})
    return found


def _verdict(ratio: Ratio, *, floor: float, same: bool) -> str:
    if same:
        return "same binary"
    if improved(ratio, floor=floor):
        return "faster"
    mirrored = Ratio(1 / ratio.value, Interval(1 / ratio.interval.high, 1 / max(ratio.interval.low, 1e-12)))
    return "slower" if improved(mirrored, floor=floor) else "no significant difference"


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
    chosen: Setting,
    evaluator: Evaluator,
    candidate: Candidate,
    built: Built,
    answer: Mapping[str, Any],
    place: int,
    *,
    level: float,
    floor: float,
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
    won = improved(process_ratio(answer["processes"], place, level=level), floor=floor)
    identity = {"state": built.state, "binary": built.digest}
    return {**_named(candidate), **identity, "ratio": ratio, "improved": won, **measurement_document(measured)}
