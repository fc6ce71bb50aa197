"""The confirmation of a run that is continued after its search has used up the time limit."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import passsearch.search.execution as execution_module
from passsearch.core import BuildOptions, Candidate, Failure, Interval, PassSpec, Pipeline, TimeLimit
from passsearch.evaluate import Built, MeasurementPlans
from passsearch.measure import Ratio
from passsearch.objectives import parse_objective
from passsearch.search import Pairing, RunOptions, Scored
from passsearch.search.best_sequence import BestSequence
from passsearch.search.execution import Execution
from passsearch.search.records import Counts
from passsearch.search.time_plan import TimePlan
from passsearch.store import Fact, Log

BUILD = BuildOptions(opt_level=3)
BEST = Candidate(Pipeline((PassSpec.of("Fast"),)), BUILD)


def built(state: str) -> Built:
    return Built(state, BUILD, state, Path(state), state, state, 20.0, 0, 0, 0)


def scored(candidate: Candidate) -> Scored:
    return Scored(candidate, built("root"), None, (0.1,), 20.0, 0.0)


ACCIDENT: Fact = {"failure": Failure("infra", "measure", "", "the disk was full").to_json()}
PAIRING = Pairing(Candidate(build=BUILD), BEST, scored(BEST).built, parse_objective("throughput"))


def execution(log: Log) -> Execution:
    """Return a run whose time limit has passed."""
    options, time_limit = (
        RunOptions((parse_objective("throughput"),), 40, repetitions=3),
        TimeLimit(1.0, lambda: log.clock_s),
    )
    made: Any = Execution.__new__(Execution)
    made._options, made._time_limit = options, time_limit
    made._time_plan = TimePlan(MeasurementPlans(), options, time_limit)
    made._folder = SimpleNamespace(log=log)
    made._evaluator = SimpleNamespace(restore=lambda built: built, make_room=lambda _: None, plans=MeasurementPlans())
    execution: Execution = made
    return execution


@pytest.mark.parametrize(("repetitions", "last"), [(0, {}), (1, {}), (2, {}), (2, ACCIDENT)])
def test_what_an_earlier_start_confirmed_is_confirmed_though_no_time_is_left(
    repetitions: int, last: Fact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_module, "confirm", lambda *_, is_recorded, **__: is_recorded(PAIRING.timing_key(0)))
    with Log(tmp_path / "log.jsonl") as log:
        for turn in range(repetitions):
            log.record("timed", PAIRING.timing_key(turn), fact=last if turn == 1 else {})
        scoring: Any = SimpleNamespace(baseline=scored(Candidate(build=BUILD)), objective=parse_objective("throughput"))
        confirmation: Any = execution(log)._confirm(scored(BEST), scoring, None)
    if repetitions == 2 and last is not ACCIDENT:
        assert confirmation is True
    else:
        assert isinstance(confirmation, Failure) and "leaves no" in confirmation.reason


@pytest.mark.parametrize("latency_s", [1.9, 0.005])
def test_the_twin_is_the_winners_where_the_baseline_is_slow(latency_s: float, tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        run = execution(log)
        best = replace(scored(BEST), ratio=Ratio(6.0, Interval(6.0, 6.0)), built=built("best"))
        baseline = replace(scored(Candidate(build=BUILD)), built=built("baseline"), latency_s=(latency_s,))
        scoring: Any = SimpleNamespace(baseline=baseline, objective=parse_objective("throughput"))
        pairing = run._pairing(best, scoring, None)
        is_slow = latency_s == 1.9
        assert pairing.has_slow_baseline == is_slow and pairing.twin == (best if is_slow else baseline).built
        for digest, expected in (("best", None), ("sequence", built("sequence"))):
            sequence = BestSequence(replace(best, built=built(digest)), 1)
            assert run._pairing(best, scoring, sequence).sequence == expected


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_confirmation_is_found_again_with_its_sequence_or_without(
    has_failed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_module, "confirm", lambda *_, **__: True)
    sequence = BestSequence(replace(scored(BEST), built=built("sequence")), 1)
    pairing = replace(PAIRING, sequence=None if has_failed else built("sequence"))
    with Log(tmp_path / "log.jsonl") as log:
        for turn in range(2):
            log.record("timed", pairing.timing_key(turn), fact={})
        scoring: Any = SimpleNamespace(baseline=scored(Candidate(build=BUILD)), objective=parse_objective("throughput"))
        best = replace(scored(BEST), built=built("best"))
        assert execution(log)._confirm(best, scoring, sequence) is True  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("names", [["O3"], ["O3", "O0"], ["O3", "", "O0"]])
def test_the_time_limit_is_no_reason_where_a_candidate_was_measured(names: list[str], tmp_path: Path) -> None:
    levels = tuple(Candidate(build=BUILD, name=name) for name in ("O0", "O3"))
    timeout = Candidate(build=BUILD), Failure("timeout", "build", "", "")
    with Log(tmp_path / "log.jsonl") as log:
        run: Any = execution(log)
        run._session = SimpleNamespace(dialect=SimpleNamespace(baselines=levels))
        run._search = SimpleNamespace(outcome=SimpleNamespace(coverage=SimpleNamespace(ended="time limit")))
        measured = {name: scored(Candidate(build=BUILD, name=name)) for name in names}
        run._evaluation = SimpleNamespace(scored=measured, counts=Counts(evaluated=2, failures=[timeout]))
        assert (run._failure_if_nothing_measured() is None) == ("" in names)


def planned(earlier_limit_s: float, *, spent_s: float) -> tuple[float, list[str]]:
    """Return when the search of a run of 170 s ends, and what the user is told."""
    notes, time_limit = list[str](), TimeLimit(170.0, lambda: 10.0)
    run: Any = Execution.__new__(Execution)
    options = RunOptions((parse_objective("throughput"),), 40, repetitions=3)
    earlier = {"earlier_s": spent_s, "earlier_limit_s": earlier_limit_s}
    run._time_plan = TimePlan(MeasurementPlans(), options, time_limit, **earlier)
    run._time_limit, run._plan, run._planned_for = time_limit, "", None
    run._progress = lambda text, *_: notes.append(text)
    baseline = scored(Candidate(build=BUILD))
    end_s = [run._plan_search(baseline, best, best) for best in (baseline, scored(BEST))][-1]
    return end_s, notes


def test_a_longer_confirmation_cuts_off_nothing_that_an_earlier_start_has_found() -> None:
    assert planned(math.inf, spent_s=0.0)[0] == 65.0
    assert planned(100.0, spent_s=100.0)[0] == 97.0, "the earlier search went on to its end"
    assert planned(100.0, spent_s=80.0)[0] == 80.0, "but it was interrupted"
    assert planned(100.0, spent_s=20.0)[0] == 65.0


def test_the_plan_of_a_continued_run_is_of_the_time_that_is_left() -> None:
    assert planned(math.inf, spent_s=0.0)[1] == ["plan: search 65 s, confirm 105 s"]
    notes = planned(100.0, spent_s=80.0)[1]
    assert notes == ["earlier starts took 80 s of the time limit of 170 s", "plan: search 0 s, confirm 90 s"]
