"""What a run recommends, on a simulated machine whose candidates are known."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from passsearch.core import (
    BuildOptions,
    Candidate,
    Failure,
    FailureKind,
    Interval,
    PassSpec,
    Pipeline,
)
from passsearch.evaluate import Built, TimedSamples, TimingRequest
from passsearch.evaluate.testing import Fatigue, Machine, Noise, SimulatedEvaluator
from passsearch.measure import Ratio, one_process_ratio
from passsearch.objectives import parse_objective, parse_objectives
from passsearch.search import Confirmation, Pairing, RunOptions, Scored, Scoring, confirm
from passsearch.search.best_sequence import BestSequence
from passsearch.search.recommendation import Recommendation, recommend
from passsearch.search.records import Reference
from passsearch.search.shortlist import shortlist

BASELINE = Candidate(build=BuildOptions(opt_level=3), name="O3")


def scored(evaluator: SimulatedEvaluator, candidate: Candidate, gain: float = 1.0) -> Scored:
    built = evaluator.build_candidate(candidate)
    assert isinstance(built, Built)
    return Scored(candidate, built, one_process_ratio((gain,), (1.0,)), (1.0,), 20.0, 1.0)


class Case:
    """A winner and a sequence of known gains, and what is recommended."""

    def __init__(self, winner: float, sequence: float | None, *, objective: str = "throughput", **machine: Any) -> None:
        gains = {"Winner": winner, **({"Sequence": sequence} if sequence else {})}
        self.evaluator = SimulatedEvaluator(Machine(Noise(), 3), gains, **machine)
        self.baseline = scored(self.evaluator, BASELINE)
        # A search reads too much of its winner: that is why it is the winner.
        self.winner = scored(self.evaluator, Candidate(Pipeline((PassSpec.of("Winner"),))), 50.0)
        self.sequence = None
        if sequence:
            candidate = Candidate(Pipeline((PassSpec.of("Sequence"),)), name="AS-1")
            self.sequence = BestSequence(scored(self.evaluator, candidate, sequence), 1)
        options = RunOptions((parse_objective(objective),), 40, repetitions=3)
        self.scoring, self.again = Scoring(options, self.baseline), 0

    def confirm(self, best: Scored) -> Confirmation | Failure:
        beside = None if self.sequence is None or self.sequence.scored is best else self.sequence.scored.built
        objective = self.scoring.objective.name
        pairing = Pairing(BASELINE, best.candidate, self.baseline.built, parse_objective(objective), sequence=beside)
        keep = self.scoring.options.least_throughput
        return confirm(self.evaluator, pairing, repetitions=3, progress=lambda _: None, keep_throughput=keep)

    def confirm_again(self, best: Scored) -> Confirmation | Failure:
        self.again += 1
        return self.confirm(best)

    def recommend(self, instead: Confirmation | Failure | None = None) -> Recommendation:
        return recommend(
            self.winner,
            instead or self.confirm(self.winner),
            scoring=self.scoring,
            sequence=self.sequence,
            confirm_again=self.confirm_again,
        )


def improves(recommendation: Recommendation) -> bool:
    assert isinstance(recommendation.confirmation, Confirmation)
    return recommendation.confirmation.improves(parse_objective("throughput"), keep_throughput=0.0)


def test_a_winner_that_is_faster_than_both_is_recommended() -> None:
    case = Case(2.0, 1.5)
    assert case.recommend().best is case.winner and case.recommend().rejected is None


def test_a_winner_that_is_slower_than_the_sequence_beside_it_is_not() -> None:
    case = Case(1.5, 2.0)
    recommendation = case.recommend()
    assert case.sequence is not None and recommendation.best is case.sequence.scored and case.again == 1
    assert recommendation.rejected is not None and "of AS-1 of the catalog" in recommendation.rejected.reason
    assert improves(recommendation)
    assert isinstance(recommendation.confirmation, Confirmation) and recommendation.confirmation.throughput is not None
    assert recommendation.confirmation.throughput.value == pytest.approx(2.0, rel=0.03)


def test_where_no_time_is_left_the_samples_beside_the_winner_confirm_the_sequence() -> None:
    case = Case(1.5, 2.0)
    case.confirm_again = lambda best: Failure("timeout", "measure", "", "no time")  # type: ignore[method-assign]
    recommendation = case.recommend()
    assert case.sequence is not None and recommendation.best is case.sequence.scored and improves(recommendation)
    confirmation = recommendation.confirmation
    assert isinstance(confirmation, Confirmation) and len(confirmation.compile_s) == 1
    assert math.isinf(confirmation.compile_time.interval.high), "it was not compiled afresh"


@pytest.mark.parametrize("sequence", [None, 0.6])
def test_a_winner_that_is_slower_than_the_baseline_leaves_the_baseline(sequence: float | None) -> None:
    case = Case(0.8, sequence)
    recommendation = case.recommend()
    assert recommendation.best is case.baseline and not improves(recommendation)
    assert recommendation.rejected is not None and recommendation.rejected.scored is case.winner


def test_a_kernel_that_is_slow_after_its_first_calls_leaves_the_baseline_with_the_reason() -> None:
    case = Case(22.0, None, latency_s=0.02, fatigue={"Winner": Fatigue(400, 44.0)})
    recommendation = case.recommend()
    assert recommendation.best is case.baseline and not improves(recommendation)
    assert recommendation.rejected is not None and "the fastest runs say 22" in recommendation.rejected.reason


WIDE, BELOW = Interval(0.01, 40.0), Interval(0.6, 0.7)


@pytest.mark.parametrize(
    ("interval", "sequence", "expected"),
    [(WIDE, 9.0, "sequence"), (BELOW, 9.0, "sequence"), (WIDE, 1.5, "baseline"), (WIDE, None, "baseline")],
)
def test_what_few_processes_deny_without_certainty_leaves_a_far_faster_sequence(
    interval: Interval, sequence: float | None, expected: str
) -> None:
    case = Case(12.0, sequence)
    found = case.confirm(case.winner)
    assert isinstance(found, Confirmation)
    recommendation = case.recommend(replace(found, throughput_of_medians=Ratio(0.65, interval)))
    best = {"baseline": case.baseline, "sequence": case.sequence and case.sequence.scored}[expected]
    assert recommendation.best is best
    assert recommendation.rejected is not None and "the median runs 0.65" in recommendation.rejected.reason


@pytest.mark.parametrize(("interval", "stays"), [(WIDE, True), (BELOW, False)])
def test_a_sequence_that_won_stays_unless_it_is_certainly_slower(interval: Interval, stays: bool) -> None:
    case = Case(9.0, 9.0)
    case.sequence = BestSequence(case.winner, 1)
    found = case.confirm(case.winner)
    assert isinstance(found, Confirmation)
    recommendation = case.recommend(replace(found, throughput_of_medians=Ratio(0.65, interval)))
    assert recommendation.best is (case.winner if stays else case.baseline)
    assert (recommendation.rejected is None) == stays


@pytest.mark.parametrize(
    ("kind", "sequence", "expected"),
    [
        ("timeout", 1.5, "sequence"),
        ("oom", 1.5, "sequence"),
        ("timeout", None, "winner"),
        ("unstable", 1.5, "sequence"),
        ("crash", None, "baseline"),
        ("crash", 0.8, "baseline"),
    ],
)
def test_without_a_confirmation_the_sequence_is_recommended(
    kind: FailureKind, sequence: float | None, expected: str
) -> None:
    case = Case(2.0, sequence)
    recommendation = case.recommend(Failure(kind, "measure", "", "it ended"))
    named = {"winner": case.winner, "baseline": case.baseline, "sequence": case.sequence and case.sequence.scored}
    assert recommendation.best is named[expected]
    # A candidate that failed by itself took no time that a confirmation of the sequence needs.
    assert case.again == (sequence is not None and kind in ("unstable", "crash"))


def test_a_quicker_compile_that_certainly_loses_throughput_leaves_the_baseline() -> None:
    case = Case(0.5, None, objective="compile_time", compile_gains={"Winner": 3.0})
    assert case.recommend().best is case.baseline
    case = Case(1.0, None, objective="compile_time", compile_gains={"Winner": 3.0})
    assert case.recommend().best is case.winner


WRONG = Failure("wrong_result", "measure", "", "after the calls that were timed, outputs deviate")


@pytest.mark.parametrize("objective", ["throughput", "compile_time", "throughput,compile_time"])
def test_wrong_outputs_in_the_confirmation_leave_the_baseline(objective: str) -> None:
    case = Case(2.0, None)
    case.scoring = replace(case.scoring, options=RunOptions(parse_objectives(objective), 40, repetitions=3))
    assert case.recommend(WRONG).best is case.baseline


def test_a_sequence_with_wrong_outputs_is_not_recommended_instead() -> None:
    case = Case(1.5, 2.0)
    case.confirm_again = lambda best: WRONG  # type: ignore[method-assign]
    assert case.recommend(WRONG).best is case.baseline
    assert case.recommend().best is case.winner, "it is slower than the sequence, but right"


@pytest.mark.parametrize("wrong", ["Winner", "Sequence"])
def test_wrong_outputs_on_the_shortlist_rule_out_that_candidate_alone(wrong: str) -> None:
    case = Case(2.0, 1.5)
    assert case.sequence is not None
    case.evaluator = Wrong(Machine(Noise(), 3), {"Winner": 2.0, "Sequence": 1.5}, wrong=wrong)
    ranked = [case.winner, case.sequence.scored]
    reference = Reference(case.baseline.built, 1.0)
    left = shortlist(case.evaluator, case.scoring, ranked, reference=reference)
    assert [str(scored.candidate.pipeline) for scored in left] == [
        name for name in ("Winner", "Sequence") if name != wrong
    ]


class Wrong(SimulatedEvaluator):
    """Times artifacts of which one computes wrong outputs after some calls."""

    def __init__(self, *args: Any, wrong: str) -> None:
        super().__init__(*args)
        self._wrong = wrong

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        is_wrong = self._wrong in {Path(folder).name for folder in request.artifacts.folders}
        return WRONG if is_wrong else super().time_fresh(request)
