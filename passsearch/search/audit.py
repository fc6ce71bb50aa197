"""A published result made again from what its run wrote down, and signed off or refused."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from passsearch.core import BuildOptions, Candidate, Failure, Pipeline
from passsearch.evaluate import Session
from passsearch.evaluate.evaluator import Evaluator
from passsearch.measure import LEVEL
from passsearch.search.confirm import Confirmation, confirm
from passsearch.search.document import ratios_document, toolchain_document
from passsearch.store import SCHEMA

OUTPUT_CASES = (101, 102, 103)
"""Seeds of inputs that no search has seen."""


@dataclass(frozen=True)
class Check:
    """One thing that was held against the record.

    Attributes:
        name: What.
        ok: Whether it agrees.
        detail: What was found.
    """

    name: str
    ok: bool
    detail: str


def audit_run(
    document: Mapping[str, Any],
    chosen: Session,
    *,
    evaluator: Evaluator,
    folder: Path,
    repetitions: int,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Rebuild a run's winner, compare every IR, check outputs on new inputs, time it against the baseline again.

    Args:
        document: The run's result.
        chosen: The run's toolchain and target, its network as the run saved it.
        evaluator: With nothing in its log, and ``OUTPUT_CASES``.
        folder: For what the audit writes.
        repetitions: Fresh compiles of winner and baseline.
        progress: Told what is under way.
    """
    best = document["best"]
    winner = Candidate(Pipeline.parse(best["pipeline"]), BuildOptions.from_json(best["build"]))
    checks, confirmation = [_compiler(document, chosen)], None
    if checks[0].ok:
        progress("applying and building", 0, repetitions)
        checks += _rebuilt(document, winner, evaluator=evaluator, folder=folder)
    if all(check.ok for check in checks):
        confirmation = _again(
            chosen,
            evaluator,
            winner=winner,
            repetitions=repetitions,
            objective=document["verdict"]["objective"],
            progress=lambda text: progress(text, 0, repetitions),
        )
        checks.append(_claim(document, confirmation))
    return {
        "schema": SCHEMA,
        "signed_off": all(check.ok for check in checks),
        "checks": [asdict(check) for check in checks],
        "claimed": document["verdict"],
        "level": LEVEL,
        "ratios": ratios_document(confirmation) if isinstance(confirmation, Confirmation) else None,
        "seconds": round(confirmation.seconds, 1) if isinstance(confirmation, Confirmation) else None,
        "toolchain": toolchain_document(chosen),
        "device": chosen.sensors.device,
    }


def _compiler(document: Mapping[str, Any], chosen: Session) -> Check:
    recorded, here = document["toolchain"], toolchain_document(chosen)
    same = all(recorded.get(key) == here[key] for key in ("dialect", "tvm_version", "tvm_commit"))
    told = [f"{each['tvm_version']} ({(each.get('tvm_commit') or 'no commit')[:10]})" for each in (recorded, here)]
    return Check("compiler", same, f"TVM {told[1]}" if same else f"TVM {told[1]}; the run had {told[0]}")


def _rebuilt(document: Mapping[str, Any], winner: Candidate, *, evaluator: Evaluator, folder: Path) -> Iterator[Check]:
    recorded = document["deployment"]
    hashes = evaluator.hashes(winner.pipeline)
    yield _hashes(winner.pipeline, hashes, recorded=recorded["states"])
    if hashes != recorded["states"]:
        return
    built = evaluator.built(evaluator.states(winner.pipeline)[-1], winner)
    if isinstance(built, Failure):
        yield Check("outputs", False, f"{built.kind} in {built.stage}: {built.reason}")
        return
    deviation = built.agreement.deviation
    if deviation is None:
        yield Check("outputs", True, f"not compared: {built.agreement.unread}")
    else:
        share = f"{deviation:.2g} of the largest, {built.agreement.limit:.2g} is allowed"
        told = f"those of the unoptimised build on {len(OUTPUT_CASES)} new inputs but for {share}"
        yield Check("outputs", True, told)
    yield _recorded(recorded["expected"], evaluator.deployment(winner, folder), idle=evaluator.subject.idle)
    if document["best"].get("binary"):
        equal = built.digest == document["best"]["binary"]
        yield Check("binary", True, "the run's, byte for byte" if equal else "another one (linker or machine differ)")


def _recorded(expected: list[Any], made: Mapping[str, Any] | None, *, idle: str) -> Check:
    """The outputs that the run wrote down, made again."""
    if not expected:
        return Check("recorded outputs", True, "none were recorded: nothing ran")
    if idle:
        return Check("recorded outputs", False, f"cannot be made again: {idle}")
    same = made is not None and made["expected"] == expected
    differ = "could not be made again" if made is None else "differ from the recorded ones in some bit"
    return Check("recorded outputs", same, "bit-identical" if same else differ)


def _hashes(pipeline: Pipeline, hashes: list[str], *, recorded: list[str]) -> Check:
    for place, (found, expected) in enumerate(zip(hashes, recorded, strict=False)):
        if found != expected:
            after = f"pass {place}, {pipeline.passes[place - 1].name}" if place else "import"
            return Check("IR", False, f"after {after} it is {found}, recorded was {expected}")
    if len(hashes) != len(recorded):
        return Check("IR", False, f"{len(recorded)} hashes are recorded, the pipeline reaches {len(hashes)}")
    return Check("IR", True, f"{len(hashes)} hashes as recorded")


def _again(
    chosen: Session,
    evaluator: Evaluator,
    *,
    winner: Candidate,
    repetitions: int,
    objective: str,
    progress: Callable[[str], None],
) -> Confirmation | Failure:
    baseline = chosen.dialect.baseline
    twin = evaluator.built(evaluator.graph.root, baseline)
    if isinstance(twin, Failure):
        return twin
    return confirm(
        evaluator,
        winner,
        baseline=baseline,
        twin=twin.folder,
        repetitions=repetitions,
        objective=objective,
        progress=progress,
    )


def _claim(document: Mapping[str, Any], confirmation: Confirmation | Failure) -> Check:
    """A claimed win must be a win again, by the same rule; any claim must lie where the new interval allows it."""
    if isinstance(confirmation, Failure):
        return Check("measurement", False, f"{confirmation.kind} in {confirmation.stage}: {confirmation.reason}")
    claimed = document["verdict"]
    objective = claimed["objective"]
    ratio = confirmation.ratio(objective)
    if ratio is None:
        told = f"{objective} is not measured again; throughput and compile time stand below"
        return Check("measurement", not claimed["improved"], told)
    low, high = ratio.interval.low, ratio.interval.high
    told = f"{objective} {ratio.value:.3f} [{low:.3f}, {high:.3f}], claimed {_told(claimed)}"
    keep = claimed.get("keep_throughput", 0.0)
    if claimed["improved"] and not confirmation.improves(objective, keep_throughput=keep):
        return Check("measurement", False, f"{told}: the win is not seen again")
    least = (claimed.get("interval") or [None])[0]
    if least is not None and high < least:
        return Check("measurement", False, f"{told}: below the claim")
    return Check("measurement", True, told)


def _told(claimed: Mapping[str, Any]) -> str:
    ends = ", ".join("–" if end is None else f"{end:.3f}" for end in claimed.get("interval") or ())
    return f"{claimed['ratio']:.3f} [{ends}]" + ("" if claimed["improved"] else " (no significant improvement)")
