"""The result of a run, as others rely on it (``tune --json`` and ``result.json``)."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, TypeAlias

import passsearch.results as results
from passsearch.core import MAIN, Candidate, Failure, timestamp
from passsearch.evaluate import Network, Session
from passsearch.measure import Consumption, Ratio
from passsearch.objectives import (
    COMPILE_TIME,
    METERED_OBJECTIVES,
    THROUGHPUT,
    with_outcome,
)
from passsearch.results import Compiler, StatedRatio
from passsearch.search.best_sequence import BestSequence
from passsearch.search.composition import COMPOSED
from passsearch.search.confirmation import Confirmation
from passsearch.search.measurement import latency_of, make_measurement
from passsearch.search.pass_selection import NetworkAnalysis, baselines
from passsearch.search.precision import PRECISION
from passsearch.search.recommendation import Recommendation, Rejected
from passsearch.search.records import Scored, SearchOutcome
from passsearch.search.scoring import Scoring
from passsearch.search.stated_ratio import stated
from passsearch.search.verdict import verdict_of
from passsearch.store import SCHEMA

Document: TypeAlias = dict[str, Any]
"""A JSON object."""


def run_result(
    outcome: SearchOutcome,
    scoring: Scoring,
    session: Session,
    *,
    network: Network,
    analysis: NetworkAnalysis,
    recommendation: Recommendation,
    sequence: BestSequence | None,
    seconds: Mapping[str, float],
    interrupted: bool,
    measured_at: float,
    recalled_times: int,
    reference: results.Reference,
    limits: results.RunLimits,
) -> results.RunResult:
    """Return the whole result of one run, without reproducers and what a deployment needs.

    ``measured_at`` is the time of its last fact, in seconds since 1970; ``recalled_times`` is the number of schedules
    of kernels that earlier runs have timed.
    """
    counts, names = outcome.counts, [candidate.name for candidate in baselines(session, analysis)]
    best, confirmation, rejected = recommendation.best, recommendation.confirmation, recommendation.rejected
    is_baseline = best is scoring.baseline
    verdict = verdict_of(scoring, best, confirmation=confirmation, interrupted=interrupted)
    if rejected is not None and is_baseline:
        # The numbers are those of the rejected candidate.
        verdict = replace(verdict, improved=False, reason=rejected.reason)
    winner = _contender(best, session, confirmation=confirmation, is_baseline=is_baseline)
    return results.RunResult(
        schema=SCHEMA,
        measured_at=timestamp(measured_at),
        model=model_of(session, network),
        target=session.target,
        toolchain=compiler_of(session),
        device=results.Device.from_json(session.sensors.device),
        fingerprint=analysis.fingerprint.to_json(),
        classes=tuple(results.ClassLabel(label.name, label.evidence) for label in analysis.classes),
        space=_space(outcome, analysis),
        composition=_composition(outcome, recalled_times=recalled_times),
        precision=_precision(outcome),
        baseline=_contender(outcome.baseline, session, confirmation=confirmation, is_baseline=True),
        baselines=tuple(candidate_of(scored, session) for scored in _baselines(outcome, names)),
        best=results.Winner(**vars(winner), source=_source(best, outcome, baseline_names=names)),
        sequence=None if sequence is None else _sequence(sequence, best, session, confirmation=confirmation),
        verdict=with_outcome(verdict),
        rejected=None if rejected is None else _rejected(rejected),
        cases=_cases(network, confirmation),
        ratios=_ratios(scoring, best, confirmation=None if is_baseline else confirmation),
        pareto=tuple(candidate_of(scored, session) for scored in _front(outcome, scoring, best=best)),
        trials=tuple(candidate_of(scored, session) for scored in outcome.scored.values()),
        failures=dict(Counter(failure.kind for _, failure in counts.failures)),
        failed=tuple(
            results.FailedCandidate(**_pipeline(candidate), **vars(failure)) for candidate, failure in counts.failures
        ),
        seconds={name: round(value, 3) for name, value in seconds.items()},
        interrupted=interrupted,
        reference=reference,
        limits=limits,
    )


def _rejected(rejected: Rejected) -> results.RejectedWinner:
    """Return the winner of the search that is not recommended, and why."""
    candidate = rejected.scored.candidate
    ratio = stated(rejected.ratio)
    return results.RejectedWinner(name=candidate.name, **_pipeline(candidate), ratio=ratio, reason=rejected.reason)


def _composition(
    outcome: SearchOutcome, *, recalled_times: int
) -> results.NoComposition | results.ComposedPipeline | None:
    """Return what was composed of single kernels, or why nothing was."""
    composition = outcome.composition
    if isinstance(composition, Failure):
        return results.NoComposition(results.StatedFailure(**vars(composition)), recalled=recalled_times)
    return None if composition is None else composition.stated(recalled=recalled_times)


def _precision(outcome: SearchOutcome) -> results.NoPrecision | results.PrecisionDecision | None:
    """Return what was decided on the precision of weights, or why nothing was."""
    found = outcome.precision
    return results.NoPrecision(results.StatedFailure(**vars(found))) if isinstance(found, Failure) else found


def _source(best: Scored, outcome: SearchOutcome, *, baseline_names: Collection[str]) -> results.Source:
    """Return who proposed the winner: a baseline, the catalog, the composition of kernels, or a sampler."""
    name = best.candidate.name
    if name in baseline_names:
        return results.Source("baseline", name)
    if name in (COMPOSED, PRECISION):
        return results.Source("composition", name)
    if name:
        return results.Source("sequence", name)
    return results.Source(outcome.coverage.source, outcome.coverage.sampler)


def _sequence(
    sequence: BestSequence, best: Scored, session: Session, *, confirmation: Confirmation | Failure | None
) -> results.BestOfCatalog:
    """Return the best sequence of the catalog, and what the winner gains over it.

    A confirmation times the build of the search, so compile time and consumption stay those of the search.
    """
    scored, is_best = sequence.scored, sequence.is_same_binary_as(best)
    place: dict[str, Any] = {"of": sequence.measured, "is_best": is_best}
    if not isinstance(confirmation, Confirmation) or confirmation.over_sequence is None:
        gain = None
        if not is_best and best.ratio and scored.ratio:
            gain = StatedRatio(best.ratio.value / scored.ratio.value)
        measured, gained = vars(candidate_of(scored, session)), {"gain": gain, "improved": False}
        return results.BestOfCatalog(**{**measured, **place, **gained})
    timed = confirmation.over_sequence
    confirmed = replace(scored, ratio=timed.throughput, conditions=confirmation.summary)
    measured = vars(candidate_of(confirmed, session, processes=timed.latency_s))
    gained = {"gain": stated(timed.gain), "improved": confirmation.improves_on_sequence()}
    return results.BestOfCatalog(**{**measured, **place, **gained})


def candidate_of(
    scored: Scored, session: Session, *, processes: Sequence[Sequence[float]] | None = None
) -> results.Candidate:
    """Return a candidate as the search measured it, or with its samples of other ``processes``."""
    measurement = make_measurement(
        scored.built,
        session,
        processes=[scored.latency_s] if processes is None else processes,
        compile_s=scored.compile_s,
        apply_s=scored.apply_s,
        batch=scored.batch,
        conditions=scored.conditions,
        consumption=scored.consumption[1:] if scored.consumption else (),
    )
    return results.Candidate(**_identity(scored), **vars(measurement))


def model_of(session: Session, network: Network) -> results.Model:
    """Return the network that was tuned."""
    model = session.model
    ranges = {name: {"range": range_.to_json()} for name, range_ in network.check.ranges.items()}
    inputs = {
        name: results.Input.from_json({"shape": kind.shape, "dtype": kind.dtype, **ranges.get(name, {})})
        for name, kind in network.inputs.items()
    }
    return results.Model(
        name=model.name,
        source=model.source,
        sha256=model.sha256,
        batch=network.batch,
        inputs=inputs,
        samples=network.sample_count,
        function=model.function or ("" if network.cases else MAIN),
        other_functions=tuple(network.other_functions),
        cases=tuple(results.ModelCase.from_json(case.to_json()) for case in network.cases),
    )


def _cases(network: Network, confirmation: Confirmation | Failure | None) -> tuple[results.CaseResult, ...]:
    """Return what baseline and winner take in each case; ``None`` where that is not confirmed."""
    gains = confirmation.cases if isinstance(confirmation, Confirmation) else ()
    return tuple(
        results.CaseResult(
            name=case.name,
            weight=case.weight,
            throughput=stated(gains[place].throughput) if gains else None,
            latency_s=latency_of(gains[place].latency_s) if gains else None,
            baseline_latency_s=latency_of(gains[place].baseline_latency_s) if gains else None,
        )
        for place, case in enumerate(network.cases)
    )


def compiler_of(session: Session) -> Compiler:
    """Return the compiler as documents state it."""
    toolchain = session.toolchain
    return Compiler(
        name=toolchain.name,
        dialect=toolchain.dialect,
        tvm_version=toolchain.tvm_version,
        tvm_commit=toolchain.tvm_commit,
        python=toolchain.python_version,
    )


def ratios_of(confirmation: Confirmation) -> dict[str, StatedRatio | None]:
    """Return all confirmed ratios, whatever the objective."""
    consumed = {objective.name: objective.ratio(confirmation) for objective in METERED_OBJECTIVES}
    ratios: dict[str, Ratio | None] = {
        THROUGHPUT.name: confirmation.throughput,
        COMPILE_TIME.name: confirmation.compile_time,
        "twin": confirmation.twin,
        "throughput_of_medians": confirmation.throughput_of_medians,
        "throughput_at_end": confirmation.throughput_at_end,
        **{name: ratio for name, ratio in consumed.items() if ratio},
    }
    return {name: stated(ratio) for name, ratio in ratios.items()}


def _pipeline(candidate: Candidate) -> dict[str, Any]:
    return {"pipeline": str(candidate.pipeline), "build": results.Build.from_json(candidate.build.to_json())}


def _identity(scored: Scored) -> dict[str, Any]:
    return {
        "name": scored.candidate.name,
        **_pipeline(scored.candidate),
        "state": scored.built.state,
        "binary": scored.built.digest,
        "ratio": stated(scored.ratio),
        "outputs": scored.built.agreement.stated,
    }


def _space(outcome: SearchOutcome, analysis: NetworkAnalysis) -> results.SearchedSpace:
    counts, coverage, scored = outcome.counts, outcome.coverage, outcome.scored.values()
    passes, dropped = (
        tuple(results.Decision(decision.entry.name, decision.reason) for decision in decisions)
        for decisions in (analysis.selection.candidates, analysis.selection.others)
    )
    return results.SearchedSpace(
        passes=passes,
        dropped=dropped,
        sequences_asked=counts.proposed,
        states=coverage.states,
        states_measured=len(scored),
        binaries=len({candidate.built.digest for candidate in scored}),
        duplicates=counts.duplicates,
        invalid=counts.invalid,
        kernels=len({candidate.built.kernels for candidate in scored}),
        closed=coverage.closed,
        closed_without=tuple(coverage.closed_without),
        sampler=coverage.sampler,
        ended=coverage.ended,
        idle=tuple(coverage.idle),
        untried=tuple(coverage.untried),
    )


def _ratios(
    scoring: Scoring, best: Scored, *, confirmation: Confirmation | Failure | None
) -> dict[str, StatedRatio | None]:
    if isinstance(confirmation, Confirmation):
        return ratios_of(confirmation)
    read = stated(best.ratio)
    return {THROUGHPUT.name: read, COMPILE_TIME.name: StatedRatio(scoring.gain(COMPILE_TIME, best)), "twin": None}


def _contender(
    scored: Scored, session: Session, *, confirmation: Confirmation | Failure | None, is_baseline: bool
) -> results.Contender:
    """Return the baseline or the winner with the samples that confirmed it, where there are some."""
    if not isinstance(confirmation, Confirmation):
        return results.Contender(**vars(candidate_of(scored, session)))
    compile_s = confirmation.baseline_compile_s if is_baseline else confirmation.compile_s
    consumption: list[Consumption] = [
        turn.baseline if is_baseline else turn.candidate for turn in confirmation.consumption
    ]
    measurement = make_measurement(
        scored.built,
        session,
        processes=confirmation.baseline_latency_s if is_baseline else confirmation.latency_s,
        compile_s=median(compile_s),
        # A level of the compiler has no pipeline before its build; a sequence timed beside the winner was not compiled.
        apply_s=0.0 if is_baseline else median(confirmation.apply_s or [scored.apply_s]),
        batch=scored.batch,
        conditions=confirmation.summary,
        consumption=consumption,
    )
    parts_s = confirmation.baseline_parts_s if is_baseline else confirmation.parts_s
    compiled: dict[str, Any] = {"compile_samples_s": tuple(compile_s), "compile_parts_s": parts_s or None}
    return results.Contender(**_identity(scored), **vars(measurement), **compiled)


def _baselines(outcome: SearchOutcome, names: Sequence[str]) -> list[Scored]:
    """Return the measured ones of the baselines with these names."""
    # By name: a search may build the network without any pass by its own build options, and that is a candidate.
    by_name = {scored.candidate.name: scored for scored in outcome.scored.values()}
    return [by_name[name] for name in names if name in by_name]


def _front(outcome: SearchOutcome, scoring: Scoring, *, best: Scored) -> list[Scored]:
    """Return the Pareto front; with one objective that is the winner alone."""
    # In one objective several candidates may be equal, and a front of equals tells a user nothing.
    if len(scoring.options.objectives) == 1:
        return [best]
    offered = {
        key: scored
        for key, scored in outcome.scored.items()
        if key not in outcome.unoffered and scoring.is_admissible(scored)
    }
    values = {key: scoring.values(scored) for key, scored in offered.items()}
    return [
        scored
        for key, scored in offered.items()
        if not any(_dominates(other, values[key]) for name, other in values.items() if name != key)
    ]


def _dominates(left: Sequence[float], right: Sequence[float]) -> bool:
    """Return whether values are at least as good in every objective, and better in one."""
    return all(a >= b for a, b in zip(left, right, strict=True)) and tuple(left) != tuple(right)
