"""Named pipelines against each other: built, checked, and sampled interleaved in several processes."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from passsearch.catalog import with_needs
from passsearch.core import Candidate, Failure, Measurement
from passsearch.errors import UserError
from passsearch.measure import (
    LEVEL,
    Cf22Plan,
    Ratio,
    RoundPlan,
    cache_bytes,
    cf22_ratio,
    improved,
    least_repetitions,
    noise_floor,
    process_ratio,
)
from passsearch.search.document import (
    beside_time,
    measurement_document,
    model_document,
    ratio_document,
    toolchain_document,
)
from passsearch.search.evaluation import FINAL_PLAN, FINAL_WINDOWS, Built, Evaluator
from passsearch.search.setting import Setting, read
from passsearch.store import SCHEMA

CACHES = ("warm", "flushed")
PAIRED, CF22 = PROTOCOLS = ("paired", "cf22")
"""The project's own protocol, and the paper's."""


@dataclass(frozen=True)
class Timed:
    """What the timing processes said.

    Attributes:
        processes: By process, the samples of baseline, its twin and the pipelines.
        conditions: By process, as it noted them.
        protocol: One of ``PROTOCOLS``.
        level: Of the intervals that decide verdicts, corrected for their number.
        baseline: Digest of the baseline's binary.
        consumed: By artifact, what it consumed; empty where the device has no meter.
    """

    processes: Sequence[Sequence[Sequence[float]]]
    conditions: Sequence[Mapping[str, Any]]
    protocol: str
    level: float
    baseline: str
    consumed: Sequence[Mapping[str, Any]] = ()

    def ratio(self, place: int, *, reference: int = 0, level: float = LEVEL) -> Ratio:
        """One artifact's throughput as a multiple of another's."""
        if self.protocol == CF22:
            return cf22_ratio(self.processes, place, reference=reference)
        return process_ratio(self.processes, place, reference=reference, level=level)

    @property
    def floor(self) -> float:
        """What the baseline reads against its twin; infinite where there are too few processes to say."""
        return noise_floor(self.ratio(1))


def compare_candidates(
    chosen: Setting,
    contenders: Sequence[Candidate],
    *,
    evaluator: Evaluator,
    rounds: int,
    processes: int | None,
    protocol: str,
    cache: str,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Rows of a table: every pipeline's measurement and its ratio to the baseline, or its failure.

    Every process times the baseline, the baseline again (its twin: what it reads against itself is the noise of this
    comparison) and all the pipelines, those that are one binary included. There is one compile of each. Without any
    pipeline the baseline is compared with itself. Verdicts are corrected for the number of pairs (Bonferroni), and
    without a number of processes there are as many as these verdicts need.
    """
    baseline = _baseline(chosen, contenders)
    contenders = [with_its_needs(chosen, evaluator, candidate=each) for each in contenders or (baseline, baseline)]
    evaluator.built(evaluator.graph.root, chosen.dialect.baselines[0])
    reference, *built = _build_all(evaluator, [baseline, *contenders], progress=progress)
    if isinstance(reference, Failure):
        told = f"{reference.kind} in {reference.stage}: {reference.reason}"
        raise UserError(f"The baseline `{baseline.name}` fails on this network, {told}.")
    places = _places(reference, built)
    artifacts = [each for each, place in zip(built, places, strict=True) if isinstance(each, Built) and place > 0]
    progress("measuring", len(contenders), len(contenders))
    plan = _plan(protocol, cache, rounds=rounds)
    timed = _time(evaluator, [reference, reference, *artifacts], plan=plan, processes=processes)
    rows = [
        {**_named(candidate), "failure": outcome.to_json()}
        if isinstance(outcome, Failure)
        else _row(chosen, evaluator, candidate=candidate, built=outcome, timed=timed, place=place)
        for candidate, outcome, place in zip(contenders, built, places, strict=True)
    ]
    return {
        "schema": SCHEMA,
        "model": model_document(chosen, evaluator.inputs, batch=evaluator.batch),
        "target": chosen.target,
        "toolchain": toolchain_document(chosen),
        "device": chosen.sensors.device,
        "baseline": baseline.name,
        "protocol": protocol,
        "cache": cache,
        "level": LEVEL,
        "processes": len(timed.processes),
        "noise_floor": timed.floor if math.isfinite(timed.floor) else None,
        "rows": rows,
        "pairs": [] if protocol == CF22 else _pairs(rows, places, timed=timed),
    }


def _plan(protocol: str, cache: str, *, rounds: int) -> RoundPlan | Cf22Plan:
    if protocol == CF22:
        return Cf22Plan()
    return replace(FINAL_PLAN, rounds=rounds, flush_bytes=2 * cache_bytes() if cache == "flushed" else 0)


def _time(
    evaluator: Evaluator, artifacts: Sequence[Built], *, plan: RoundPlan | Cf22Plan, processes: int | None
) -> Timed:
    protocol = CF22 if isinstance(plan, Cf22Plan) else PAIRED
    level = 1 - (1 - LEVEL) / max(1, math.comb(len(artifacts) - 1, 2))
    number = processes or (1 if protocol == CF22 else least_repetitions(level))
    folders = [str(each.folder) for each in artifacts]
    asked = json.dumps([asdict(plan), number, [each.key for each in artifacts]])
    key = f"compare {hashlib.sha256(asked.encode()).hexdigest()[:16]}"
    answer = evaluator.time_fresh(key, folders, plan=plan, processes=number)
    consumed = evaluator.consumption(key, folders, plan=FINAL_WINDOWS)
    if isinstance(answer, Failure):
        raise UserError(f"The measurement failed: {answer.reason}.")
    read = () if consumed is None or isinstance(consumed, Failure) else consumed["consumed"]
    return Timed(answer["processes"], answer["conditions"], protocol, level, artifacts[0].digest, read)


def _pairs(rows: Sequence[Mapping[str, Any]], places: Sequence[int], *, timed: Timed) -> list[dict[str, Any]]:
    """Every two pipelines: the second's throughput as a multiple of the first's, and what that proves."""
    found = []
    measured = [number for number, place in enumerate(places) if place >= 0]
    for first, second in combinations(measured, 2):
        left, right = rows[first], rows[second]
        names = {"first": left["name"] or left["pipeline"], "second": right["name"] or right["pipeline"]}
        ratio = timed.ratio(places[second], reference=places[first], level=timed.level)
        verdict = "same binary"
        if left["binary"] != right["binary"]:
            verdict = _verdict(timed, first=places[first], second=places[second])
        numbers = {"rows": [first, second], "level": timed.level}
        found.append({**names, **numbers, **ratio_document(ratio), "verdict": verdict})
    return found


def _verdict(timed: Timed, *, first: int, second: int) -> str:
    if improved(timed.ratio(second, reference=first, level=timed.level), floor=timed.floor):
        return "faster"
    if improved(timed.ratio(first, reference=second, level=timed.level), floor=timed.floor):
        return "slower"
    return "no significant difference"


def with_its_needs(chosen: Setting, evaluator: Evaluator, *, candidate: Candidate) -> Candidate:
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
    evaluator: Evaluator, candidates: Sequence[Candidate], *, progress: Callable[[str, int, int], None]
) -> list[Built | Failure]:
    outcomes: list[Built | Failure] = []
    for number, candidate in enumerate(candidates):
        progress(f"building {candidate.name}", number, len(candidates))
        state = evaluator.reach(candidate.pipeline)
        outcomes.append(state if isinstance(state, Failure) else evaluator.built(state, candidate))
    return [each if isinstance(each, Failure) else evaluator.restore(each) for each in outcomes]


def _places(reference: Built, built: Sequence[Built | Failure]) -> list[int]:
    """Where each stands among the timed: the baseline first, its twin second, then the others in turn.

    A baseline named twice is timed once more for every further time; what failed has the place of nobody, -1.
    """
    places: list[int] = []
    for outcome in built:
        if isinstance(outcome, Failure):
            places.append(-1)
        elif outcome.key == reference.key and 0 not in places:
            places.append(0)
        else:
            places.append(max(1, *places, 0) + 1)
    return places


def _named(candidate: Candidate) -> dict[str, Any]:
    return {"name": candidate.name, "pipeline": str(candidate.pipeline), "build": candidate.build.to_json()}


def _row(
    chosen: Setting, evaluator: Evaluator, *, candidate: Candidate, built: Built, timed: Timed, place: int
) -> dict[str, Any]:
    apply_s = evaluator.apply_seconds(candidate.pipeline)
    measured = Measurement(
        latency_s=tuple(value for process in timed.processes for value in process[place]),
        compile_s=apply_s + built.seconds,
        apply_s=apply_s,
        batch=evaluator.batch,
        artifact_bytes=built.bytes,
        conditions=timed.conditions[0],
        **beside_time(built, timed.consumed[place : place + 1], chosen=chosen),
    )
    ratio = timed.ratio(place, level=timed.level)
    return {
        **_named(candidate),
        "state": built.state,
        "binary": built.digest,
        "ratio": ratio_document(timed.ratio(place)),
        "outputs": built.agreement.to_json(),
        "improved": built.digest != timed.baseline and improved(ratio, floor=timed.floor),
        **measurement_document(measured),
    }
