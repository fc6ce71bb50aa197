"""Named pipelines against each other: built, checked, and sampled interleaved in several processes.

Pipelines of one toolchain are interleaved in the same process, round by round. Two compilers cannot share a process, so
several toolchains take turns process by process, and ratios between them are of processes that follow each other.
"""

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
from passsearch.evaluate import Session
from passsearch.evaluate.evaluator import FINAL_PLAN, FINAL_WINDOWS, Built, Evaluator
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
from passsearch.search.pass_selection import analyze_network
from passsearch.store import SCHEMA

CACHES = ("warm", "flushed")
PAIRED, CF22 = PROTOCOLS = ("paired", "cf22")
"""The project's own protocol, and the paper's."""


@dataclass(frozen=True)
class Side:
    """What one toolchain is to build."""

    chosen: Session
    evaluator: Evaluator
    contenders: Sequence[Candidate]

    def prepared(self, *, alone: bool) -> "Side":
        """With the passes that named sequences need; beside others the toolchain is part of every name."""
        known = [with_its_needs(self.chosen, self.evaluator, candidate=each) for each in self.contenders]
        return replace(self, contenders=[each if alone else self._named(each) for each in known])

    def _named(self, candidate: Candidate) -> Candidate:
        name = candidate.name or str(candidate.pipeline)
        return replace(candidate, name=f"{self.chosen.toolchain.name}:{name}")


@dataclass(frozen=True)
class Contender:
    """One pipeline, whose it is, what became of it, and its place among the timed; -1 if it failed."""

    side: Side
    candidate: Candidate
    outcome: Built | Failure
    place: int


@dataclass(frozen=True)
class Timed:
    """What the timing processes said.

    Attributes:
        processes: By turn, the samples of baseline, its twin and the pipelines.
        conditions: By place, as the first process noted them.
        protocol: One of ``PROTOCOLS``.
        level: Of the intervals that decide verdicts, corrected for their number.
        baseline: Digest of the baseline's binary.
        consumed: By place, what it consumed; empty where the device has no meter.
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
    sides: Sequence[Side],
    *,
    rounds: int,
    processes: int | None,
    protocol: str,
    cache: str,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Rows of a table: every pipeline's measurement and its ratio to the baseline, or its failure.

    The baseline is of the first side. Every process of its toolchain times it twice (its twin: what it reads against
    itself is the noise of this comparison), and all pipelines, those that are one binary included. There is one compile
    of each. Without any pipeline the baseline is compared with itself. Verdicts are corrected for the number of pairs
    (Bonferroni), and without a number of processes there are as many as these verdicts need.
    """
    chosen, evaluator = sides[0].chosen, sides[0].evaluator
    baseline = _baseline(chosen, sides[0].contenders)
    if not any(side.contenders for side in sides):
        sides = [replace(sides[0], contenders=(baseline, baseline))]
    alone = len(sides) == 1
    sides = [side.prepared(alone=alone) for side in sides]
    [baseline] = replace(sides[0], contenders=[baseline]).prepared(alone=alone).contenders
    # The reference of all outputs is the first toolchain's: an importer that misreads the network wins nothing.
    evaluator.built(evaluator.graph.root, chosen.dialect.baselines[0])
    for side in sides[1:]:
        side.evaluator.judge_by(evaluator)
    number = sum(len(side.contenders) for side in sides)
    [reference] = _built(evaluator, [baseline], done=0, of=number, progress=progress)
    if isinstance(reference, Failure):
        told = f"{reference.kind} in {reference.stage}: {reference.reason}"
        raise UserError(f"The baseline `{baseline.name}` fails on this network, {told}.")
    contenders: list[Contender] = []
    for side in sides:
        built = _built(side.evaluator, side.contenders, done=len(contenders), of=number, progress=progress)
        for candidate, outcome in zip(side.contenders, built, strict=True):
            place = _place(reference if side is sides[0] else None, outcome, taken=[each.place for each in contenders])
            contenders.append(Contender(side, candidate, outcome, place))
    progress("measuring", number, number)
    timed = _time(sides, contenders, reference=reference, plan=_plan(protocol, cache, rounds=rounds), number=processes)
    rows = [
        {**_named(each.candidate), "failure": each.outcome.to_json()}
        if isinstance(each.outcome, Failure)
        else _row(each, built=each.outcome, timed=timed)
        for each in contenders
    ]
    document = {
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
        "pairs": [] if protocol == CF22 else _pairs(rows, [each.place for each in contenders], timed=timed),
    }
    if not alone:
        document["toolchains"] = [toolchain_document(side.chosen) for side in sides]
    return document


def _plan(protocol: str, cache: str, *, rounds: int) -> RoundPlan | Cf22Plan:
    if protocol == CF22:
        return Cf22Plan()
    return replace(FINAL_PLAN, rounds=rounds, flush_bytes=2 * cache_bytes() if cache == "flushed" else 0)


def _time(
    sides: Sequence[Side],
    contenders: Sequence[Contender],
    *,
    reference: Built,
    plan: RoundPlan | Cf22Plan,
    number: int | None,
) -> Timed:
    protocol = CF22 if isinstance(plan, Cf22Plan) else PAIRED
    extra = [each for each in contenders if each.place > 0]
    level = 1 - (1 - LEVEL) / max(1, math.comb(len(extra) + 1, 2))
    number = number or (1 if protocol == CF22 else least_repetitions(level))
    asked: list[tuple[Side, list[Built]]] = []
    for side in sides:
        own = [each.outcome for each in extra if each.side is side and isinstance(each.outcome, Built)]
        asked.append((side, [reference, reference, *own] if side is sides[0] else own))
    asked = [(side, artifacts) for side, artifacts in asked if artifacts]
    answers = [_turn(asked, plan=plan, turn=turn) for turn in range(number)]
    consumed: list[Mapping[str, Any]] = []
    for side, artifacts in asked:
        folders = [str(each.folder) for each in artifacts]
        read = side.evaluator.consumption(_key(artifacts, plan, "consume"), folders, plan=FINAL_WINDOWS)
        consumed += [] if read is None or isinstance(read, Failure) else read["consumed"]
    processes = [[samples for answer in turn for samples in answer["processes"][0]] for turn in answers]
    conditions = [
        answer["conditions"][0] for (_, artifacts), answer in zip(asked, answers[0], strict=True) for _ in artifacts
    ]
    complete = consumed if len(consumed) == len(conditions) else ()
    return Timed(processes, conditions, protocol, level, reference.digest, complete)


def _turn(
    asked: Sequence[tuple[Side, Sequence[Built]]], *, plan: RoundPlan | Cf22Plan, turn: int
) -> list[Mapping[str, Any]]:
    """One process of each toolchain, in the order of the sides; every other turn the last goes first."""
    places = range(len(asked)) if turn % 2 == 0 else reversed(range(len(asked)))
    answers = {place: _ask(*asked[place], plan=plan, turn=turn) for place in places}
    return [answers[place] for place in sorted(answers)]


def _ask(side: Side, artifacts: Sequence[Built], *, plan: RoundPlan | Cf22Plan, turn: int) -> Mapping[str, Any]:
    """One process of one toolchain."""
    folders = [str(each.folder) for each in artifacts]
    key = _key(artifacts, plan, f"compare {turn}")
    answer = side.evaluator.time_fresh(key, folders, plan=plan, processes=1, turn=turn)
    if isinstance(answer, Failure):
        raise UserError(f"The measurement failed: {answer.reason}.")
    return answer


def _key(artifacts: Sequence[Built], plan: RoundPlan | Cf22Plan, what: str) -> str:
    asked = json.dumps([asdict(plan), [each.key for each in artifacts]])
    return f"{what} {hashlib.sha256(asked.encode()).hexdigest()[:16]}"


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
        found.append({**names, **numbers, **(ratio_document(ratio) or {}), "verdict": verdict})
    return found


def _verdict(timed: Timed, *, first: int, second: int) -> str:
    if improved(timed.ratio(second, reference=first, level=timed.level), floor=timed.floor):
        return "faster"
    if improved(timed.ratio(first, reference=second, level=timed.level), floor=timed.floor):
        return "slower"
    return "no significant difference"


def with_its_needs(chosen: Session, evaluator: Evaluator, *, candidate: Candidate) -> Candidate:
    """A named sequence with the passes it needs put in; what the user wrote out stays as it is."""
    if candidate.name not in chosen.catalog.sequences:
        return candidate
    present = analyze_network(chosen, evaluator.summary).fingerprint.present()
    return replace(candidate, pipeline=with_needs(candidate.pipeline, chosen.catalog, present=present))


def _baseline(chosen: Session, contenders: Sequence[Candidate]) -> Candidate:
    names = {each.name for each in chosen.dialect.baselines}
    default = chosen.dialect.baseline
    if any(each.name == default.name for each in contenders):
        return default
    return next((each for each in contenders if each.name in names), default)


def _built(
    evaluator: Evaluator,
    candidates: Sequence[Candidate],
    *,
    done: int,
    of: int,
    progress: Callable[[str, int, int], None],
) -> list[Built | Failure]:
    outcomes: list[Built | Failure] = []
    for number, candidate in enumerate(candidates):
        progress(f"building {candidate.name}", done + number, of)
        state = evaluator.reach(candidate.pipeline)
        outcomes.append(state if isinstance(state, Failure) else evaluator.built(state, candidate))
    return [each if isinstance(each, Failure) else evaluator.restore(each) for each in outcomes]


def _place(reference: Built | None, outcome: Built | Failure, *, taken: Sequence[int]) -> int:
    """Where one stands among the timed: the baseline first, its twin second, then the others in turn.

    A baseline named twice is timed once more for every further time; what failed has the place of nobody, -1.
    """
    if isinstance(outcome, Failure):
        return -1
    if reference is not None and outcome.key == reference.key and 0 not in taken:
        return 0
    return max(1, *taken, 0) + 1


def _named(candidate: Candidate) -> dict[str, Any]:
    return {"name": candidate.name, "pipeline": str(candidate.pipeline), "build": candidate.build.to_json()}


def _row(contender: Contender, *, built: Built, timed: Timed) -> dict[str, Any]:
    chosen, evaluator, place = contender.side.chosen, contender.side.evaluator, contender.place
    apply_s = evaluator.apply_seconds(contender.candidate.pipeline)
    measured = Measurement(
        latency_s=tuple(value for process in timed.processes for value in process[place]),
        compile_s=apply_s + built.seconds,
        apply_s=apply_s,
        batch=evaluator.batch,
        artifact_bytes=built.bytes,
        conditions=timed.conditions[place],
        **beside_time(built, timed.consumed[place : place + 1], chosen=chosen),
    )
    ratio = timed.ratio(place, level=timed.level)
    return {
        **_named(contender.candidate),
        "toolchain": chosen.toolchain.name,
        "state": built.state,
        "binary": built.digest,
        "ratio": ratio_document(timed.ratio(place)),
        "outputs": built.agreement.to_json(),
        "improved": built.digest != timed.baseline and improved(ratio, floor=timed.floor),
        **measurement_document(measured),
    }
