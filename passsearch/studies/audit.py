"""The audit of a published result: rebuilt from its record, measured again, and signed off or refused."""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from passsearch.core import Candidate, Failure, Pipeline, differing_cases, timestamp
from passsearch.evaluate import UNSEEN_FACTOR, Built, WorkerEvaluator
from passsearch.measure import LEVEL
from passsearch.objectives import THROUGHPUT, recorded_objective
from passsearch.results import (
    Audit,
    BestOfCatalog,
    Check,
    DeploymentRecord,
    Device,
    NamedPipeline,
    RunResult,
    SequenceGain,
    StatedRatio,
    Verdict,
)
from passsearch.search.confirm import confirm, slow_baseline_processes
from passsearch.search.confirmation import Confirmation
from passsearch.search.document import compiler_of, ratios_of
from passsearch.search.repetition import Pairing
from passsearch.search.stated_ratio import stated
from passsearch.store import SCHEMA

_log = logging.getLogger(__name__)


def audit_run(
    document: Mapping[str, Any],
    evaluator: WorkerEvaluator,
    *,
    folder: Path,
    repetitions: int,
    progress: Callable[[str, int, int], None],
) -> Audit:
    """Rebuild a run's winner, compare every IR, verify outputs on new inputs, and time it against the baseline again.

    Args:
        document: The run's result.
        evaluator: An evaluator of the network that the run saved, with an empty log and ``AUDIT_CASES``.
        folder: Folder for files that the audit writes.
        repetitions: Fresh compiles of winner and baseline.
        progress: Callback; gets the current step in words.
    """
    session, result = evaluator.session, RunResult.from_json(document)
    winner = _candidate(result.best)
    # The cheap checks come first. After one is refused the later ones would judge another compiler or another IR.
    checks: list[Check] = [_check_compiler(result, evaluator)]
    confirmation: Confirmation | Failure | None = None
    if checks[0].ok:
        progress("applying and building", 0, repetitions)
        checks += _check_rebuilt(result, winner, evaluator=evaluator, folder=folder)
    if all(check.ok for check in checks) and not _has_claim(result):
        checks.append(Check("measurement", True, "not timed, as the run claims no gain"))
    elif all(check.ok for check in checks):
        recorded = recorded_sequence(result)
        sequence = _build(evaluator, recorded) if recorded else None
        confirmation = _confirm_again(
            evaluator,
            winner,
            result=result,
            sequence=None if isinstance(sequence, Failure) else sequence,
            repetitions=repetitions,
            progress=lambda text: progress(text, 0, repetitions),
        )
        checks.append(_check_claim(result.verdict, confirmation))
        checks += _check_sequence(result.sequence, sequence, confirmation)
    for check in checks:
        _log.info("%s: %s, %s", check.name, "ok" if check.ok else "refused", check.detail)
    return Audit(
        schema=SCHEMA,
        measured_at=timestamp(),
        signed_off=all(check.ok for check in checks),
        checks=tuple(checks),
        claimed=document["verdict"],
        level=LEVEL,
        ratios=ratios_of(confirmation) if isinstance(confirmation, Confirmation) else None,
        sequence=_sequence_gain(confirmation),
        seconds=round(confirmation.seconds, 1) if isinstance(confirmation, Confirmation) else None,
        toolchain=compiler_of(session),
        device=Device.from_json(session.sensors.device),
    )


def _has_claim(result: RunResult) -> bool:
    """Return whether a run states an interval of a gain, which a measurement can contradict."""
    return bool(result.verdict.interval or (result.sequence and result.sequence.is_timed))


def _candidate(recorded: NamedPipeline) -> Candidate:
    return Candidate.from_json({"pipeline": recorded.pipeline, "build": recorded.build.to_json()})


def _sequence_gain(confirmation: Confirmation | Failure | None) -> SequenceGain | None:
    """Return the winner's gain over the sequence; ``None`` where it was not timed."""
    if not isinstance(confirmation, Confirmation) or confirmation.over_sequence is None:
        return None
    return SequenceGain(stated(confirmation.over_sequence.gain), confirmation.improves_on_sequence())


def _check_compiler(result: RunResult, evaluator: WorkerEvaluator) -> Check:
    recorded, here = result.toolchain, compiler_of(evaluator.session)
    same = all(getattr(recorded, name) == getattr(here, name) for name in ("dialect", "tvm_version", "tvm_commit"))
    recorded_text, here_text = (
        f"{compiler.tvm_version} ({(compiler.tvm_commit or 'no commit')[:10]})" for compiler in (recorded, here)
    )
    return Check("compiler", same, f"TVM {here_text}" if same else f"TVM {here_text}; the run had {recorded_text}")


def _check_rebuilt(
    result: RunResult, winner: Candidate, *, evaluator: WorkerEvaluator, folder: Path
) -> Iterator[Check]:
    recorded = result.deployment
    assert recorded is not None  # `recorded_session` has read it
    hashes = evaluator.applier.hashes(winner.pipeline)
    yield _check_hashes(winner.pipeline, hashes, recorded=recorded.states)
    if tuple(hashes) != recorded.states:
        return
    built = evaluator.build_candidate(winner)
    if isinstance(built, Failure):
        yield Check("outputs", False, f"{built.kind} in {built.stage}: {built.reason}")
        return
    deviation = built.agreement.deviation
    if deviation is None:
        yield Check("outputs", True, f"not compared: {built.agreement.cannot_run_reason}")
    else:
        yield Check("outputs", True, _outputs_detail(built, deviation, winner, evaluator))
    reason = evaluator.session.cannot_run_reason
    rebuilt = evaluator.deployment(winner, folder)
    yield _check_recorded(recorded.expected, rebuilt, cannot_run_reason=reason)
    if recorded.bits and not isinstance(rebuilt, Failure) and not reason:
        yield _check_bits(recorded, rebuilt)
    # Never refused: the IR and the outputs are what the run promised, and another linker writes other bytes.
    if result.best.binary:
        equal = built.digest == result.best.binary
        yield Check("binary", True, "the run's, byte for byte" if equal else "another one (linker or machine differ)")


def _outputs_detail(built: Built, deviation: float, winner: Candidate, evaluator: WorkerEvaluator) -> str:
    """Return what the outputs were compared on, and what they may deviate by."""
    agreement, session, samples = built.agreement, evaluator.session, evaluator.network.sample_count
    new = (agreement.cases or 0) - samples
    where = f"{new} new inputs" + (f" and {samples} samples of the run" if samples else "")
    allowed = f"{agreement.limit:.2g} is allowed"
    if (budget := session.budget) is not None and session.has_budget(winner):
        kind = "bound" if budget.is_of_classes else "budget"
        allowed = (
            f"the {kind} is {agreement.limit:.2g}, and random inputs may deviate by {UNSEEN_FACTOR:g} times as much"
        )
        if budget.is_of_classes and samples:
            allowed += f"; the samples keep the budget of classes `{budget.text}`"
    return f"those of the reference build on {where} but for {deviation:.2g} of the largest, {allowed}"


def _check_recorded(
    expected: Sequence[Mapping[str, object]], rebuilt: Mapping[str, Any] | Failure, *, cannot_run_reason: str
) -> Check:
    """Compare the outputs that the run recorded with those of the rebuilt winner."""
    if not expected:
        return Check("recorded outputs", True, "none were recorded: nothing ran")
    if cannot_run_reason:
        return Check("recorded outputs", False, f"cannot be made again: {cannot_run_reason}")
    if isinstance(rebuilt, Failure):
        return Check("recorded outputs", False, f"could not be made again: {rebuilt.reason}")
    # A run of an earlier version recorded fewer properties of its outputs.
    again = [*map(dict, rebuilt["expected"])]
    same = len(again) == len(expected) and all(
        {name: new.get(name) for name in old} == old for old, new in zip(expected, again, strict=True)
    )
    return Check("recorded outputs", same, "bit-identical" if same else "differ from the recorded ones in some bit")


def _check_bits(recorded: DeploymentRecord, rebuilt: Mapping[str, Any]) -> Check:
    """Compare the bits of the outputs on the inputs that run and audit have in common, and name the first kernel."""
    bits = rebuilt.get("bits") or {}
    differing = differing_cases(bits, recorded.bits or {})
    if differing is None:
        # A slow network runs on few inputs, and those of an audit are new.
        return Check("bits", True, "not compared: run and audit have only the input of the recorded outputs in common")
    if not differing:
        common = sum(case in bits for case in recorded.bits or {})
        return Check("bits", True, f"the recorded ones on {common} inputs")
    kernel = _first_kernel(recorded.kernel_bits, rebuilt.get("kernel_bits", ()))
    where = f"other ones on inputs {', '.join(map(str, differing))}"
    return Check("bits", False, f"{where}; they hold for one TVM, target and C library; {kernel}")


def _first_kernel(recorded: Sequence[Sequence[str]], rebuilt: Sequence[Sequence[str]]) -> str:
    """Return, in words, the first kernel call that computes other bits on floats of mixed magnitude."""
    if not recorded or [kernel for kernel, _ in recorded] != [kernel for kernel, _ in rebuilt]:
        return "which kernel is the first is unknown"
    pairs = enumerate(zip(recorded, rebuilt, strict=True), start=1)
    differing = next(((place, old[0]) for place, (old, new) in pairs if old[1] != new[1]), None)
    if differing is None:
        return "no kernel differs on floats of mixed magnitude"
    return f"the first kernel is {differing[1]}, call {differing[0]} of {len(recorded)}"


def _check_hashes(pipeline: Pipeline, hashes: Sequence[str], *, recorded: Sequence[str]) -> Check:
    for place, (actual, expected) in enumerate(zip(hashes, recorded, strict=False)):
        if actual != expected:
            after = f"pass {place}, {pipeline.passes[place - 1].name}" if place else "import"
            return Check("IR", False, f"after {after} it is {actual}, recorded was {expected}")
    if len(hashes) != len(recorded):
        return Check("IR", False, f"{len(recorded)} hashes are recorded, the pipeline reaches {len(hashes)}")
    return Check("IR", True, f"{len(hashes)} hashes as recorded")


def _confirm_again(
    evaluator: WorkerEvaluator,
    winner: Candidate,
    *,
    result: RunResult,
    sequence: Built | None,
    repetitions: int,
    progress: Callable[[str], None],
) -> Confirmation | Failure:
    baseline, throughput = evaluator.session.dialect.baseline, result.ratio_of(THROUGHPUT.name)
    latency_s = min(result.baseline.latency_s.samples if result.baseline.latency_s else (), default=0.0)
    objective = recorded_objective(result.verdict)
    slow = slow_baseline_processes(
        objective, throughput.ratio if throughput else None, latency_s=latency_s, plans=evaluator.plans
    )
    # The twin is a build of this audit's own compiler, so it is earlier than every fresh compile it is timed beside.
    twin = _build(evaluator, winner if slow else baseline)
    if isinstance(twin, Failure):
        return twin
    return confirm(
        evaluator,
        Pairing(baseline, winner, twin, objective, slow, sequence),
        repetitions=repetitions,
        progress=progress,
        keep_throughput=result.verdict.keep_throughput,
        # Where the run claims no gain over the sequence, there is none to be seen again.
        is_about_sequence=bool(result.sequence and result.sequence.improved),
    )


def _build(evaluator: WorkerEvaluator, candidate: Candidate) -> Built | Failure:
    unknown = [step.name for step in candidate.pipeline.passes if step.name not in evaluator.session.factories]
    if unknown:
        return Failure(
            "infra", "apply", unknown[0], "it is in no catalog of this call; give --catalog FILE (catalogs=)"
        )
    return evaluator.build_candidate(candidate)


def recorded_sequence(result: RunResult) -> Candidate | None:
    """Return the best sequence of the catalog that the run timed; ``None`` where there is none but the winner."""
    sequence = result.sequence  # earlier versions timed none
    if sequence is None or sequence.is_best or sequence.gain is None:
        return None
    return _candidate(sequence)


def _check_sequence(
    recorded: BestOfCatalog | None, sequence: Built | Failure | None, confirmation: Confirmation | Failure
) -> Iterator[Check]:
    """Check what the winner gains over the best sequence of the catalog; without a claim nothing is refused."""
    if recorded is None or recorded.gain is None or sequence is None or isinstance(confirmation, Failure):
        return
    claim, name = recorded.gain, "gain over the catalog"
    if isinstance(sequence, Failure):
        detail = f"{recorded.name} fails: {sequence.kind} in {sequence.stage}: {sequence.reason}"
        yield Check(name, not claim.interval, detail)
        return
    if confirmation.over_sequence is None:
        yield Check(name, not claim.interval, f"{recorded.name} could not be timed beside the winner")
        return
    gain = confirmation.over_sequence.gain
    detail = f"{gain:.3f} of the throughput of {recorded.name}, claimed {_claim_text(claim)}"
    if recorded.improved and not confirmation.improves_on_sequence():
        yield Check(name, False, f"{detail}: the gain is not seen again")
    elif gain.interval.high < _least(claim):
        yield Check(name, False, f"{detail}: below the claim")
    else:
        yield Check(name, True, detail)


def _check_claim(claim: Verdict, confirmation: Confirmation | Failure) -> Check:
    """Check that a claimed win is a win again, by the same rule, and that the new interval allows the claim."""
    if isinstance(confirmation, Failure):
        return Check("measurement", False, f"{confirmation.kind} in {confirmation.stage}: {confirmation.reason}")
    objective = recorded_objective(claim)
    ratio = objective.ratio(confirmation)
    # A confirmation does not read peak memory, so a claim about it cannot be checked.
    if ratio is None:
        detail = f"{objective.name} is not measured again; throughput and compile time stand below"
        return Check("measurement", not claim.improved, detail)
    addition = "" if claim.improved or not claim.interval else " (no significant improvement)"
    detail = f"{objective.name} {ratio:.3f}, claimed {_claim_text(claim.stated)}{addition}"
    if claim.improved and not confirmation.improves(objective, keep_throughput=claim.keep_throughput):
        reason = confirmation.disagreement(objective)
        return Check("measurement", False, f"{detail}: the win is not seen again{f', {reason}' if reason else ''}")
    # A smaller win is a win, but it contradicts the claim if even its upper end lies below the claimed interval.
    if ratio.interval.high < _least(claim.stated):
        return Check("measurement", False, f"{detail}: below the claim")
    return Check("measurement", True, detail)


def _least(claim: StatedRatio) -> float:
    """Return the lower end of a claimed interval; minus infinity without one, which no measurement is below."""
    low = claim.interval[0] if claim.interval else None
    return -math.inf if low is None else low


def _claim_text(claim: StatedRatio) -> str:
    if not claim.interval:
        return f"nothing: the search read {claim.ratio:.3f} and confirmed none"
    ends = ", ".join("–" if end is None else f"{end:.3f}" for end in claim.interval)
    return f"{claim.ratio:.3f} [{ends}]"
