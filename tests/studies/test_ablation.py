"""The steps of an ablation, and the rule by which a pass is worth something."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from time_limits import time_left

from passsearch.core import Candidate, Failure, FailureKind, Interval, Pipeline, TimeLimit
from passsearch.evaluate import Built
from passsearch.evaluate.testing.simulated import Machine, Noise, SimulatedEvaluator
from passsearch.measure import Ratio
from passsearch.objectives import THROUGHPUT
from passsearch.studies.ablation import Ablation
from passsearch.studies.ablation_document import AblationRows, Gain
from passsearch.studies.ablation_records import CompileRounds, Readings
from passsearch.studies.ablation_steps import ablation_steps, changed_kernels, shortest_form
from passsearch.studies.comparison_records import Side


def reach(pipeline: Pipeline) -> object:
    """The state of a compiler in which A and B do the same work, C changes nothing, and D needs A or B before it."""
    names = [step.name for step in pipeline.passes]
    is_ready = "A" in names or "B" in names
    return is_ready, is_ready and "D" in names


@pytest.mark.parametrize(
    ("passes", "shortest", "dropped"),
    [
        ("A,D", "A,D", []),
        ("A,C,D", "A,D", ["C"]),
        ("A,B,D", "A,D", ["B"]),
        ("A,A,C,D,D", "A,D", ["A", "C", "D"]),
        ("C", "", ["C"]),
        ("", "", []),
    ],
)
def test_the_shortest_form_leads_to_the_same_state(passes: str, shortest: str, dropped: list[str]) -> None:
    pipeline, left_out = shortest_form(Pipeline.parse(passes), reach)
    assert str(pipeline) == shortest
    assert [step.name for step in left_out] == dropped
    assert reach(pipeline) == reach(Pipeline.parse(passes))


def test_passes_are_added_one_by_one_and_each_is_left_out() -> None:
    steps = ablation_steps(Candidate(Pipeline.parse("A,B,A")))
    assert [(step.name, str(step.candidate.pipeline)) for step in steps] == [
        ("start", ""),
        ("+A", "A"),
        ("+B", "A,B"),
        ("+A (2)", "A,B,A"),
        ("-A", "B,A"),
        ("-B", "A,A"),
        ("-A (2)", "A,B"),
    ]
    assert [step.before for step in steps] == [None, "start", "+A", "+B", "+A (2)", "+A (2)", "+A (2)"]


def test_without_narrow_weights_no_kernel_is_scheduled_that_is_there_for_these_only() -> None:
    narrow = 'NarrowWeights{kernels={"add":{"storage":"int8"},"product:1":{"storage":"int4"}}}'
    kernels = '"product_int4_32":{"rows":4},"product_int4_32_integers":{"rows":2}'
    for kept, rest in (("", "ScheduleCPU"), ('"add":{"rows":2},', 'ScheduleCPU{kernels={"add":{"rows":2}}}')):
        text = f"A,{narrow},ScheduleCPU{{kernels={{{kept}{kernels}}}}},B"
        steps = {step.name: step.candidate for step in ablation_steps(Candidate(Pipeline.parse(text)))}
        assert str(steps["-NarrowWeights"].pipeline) == f"A,{rest},B"
        assert "product_int4_32" in str(steps["-B"].pipeline)


def test_kernels_are_compared_by_what_they_compute_and_not_by_name() -> None:
    before = {"conv": "1", "add": "2", "relu": "3"}
    assert changed_kernels(before, {"conv1": "1", "add": "2", "relu": "3"}) == (0, [])
    assert changed_kernels(before, {"conv": "1", "fused_add_relu": "4"}) == (2, ["fused_add_relu"])
    assert changed_kernels({"a": "1"}, {"a": "1", "b": "1"}) == (1, ["a"]), "a second one of a kind is a change"


def gain(low: float, high: float, *, floor: float = 0.0) -> Gain:
    middle = math.sqrt(low * high)
    return Gain(Ratio(middle, Interval(low, high)), Ratio(1 / middle, Interval(1 / high, 1 / low)), floor)


@pytest.mark.parametrize(
    ("interval", "floor", "worth"),
    [
        ((1.05, 1.2), 0.0, "gain"),
        ((1.05, 1.2), 0.1, "undecided"),
        ((0.8, 0.95), 0.0, "loss"),
        ((0.99, 1.015), 0.0, "nothing"),
        ((0.9, 1.1), 0.0, "undecided"),
        ((1.001, 1.005), 0.0, "nothing"),
        ((0.0, math.inf), 0.0, "undecided"),
    ],
)
def test_a_pass_is_worth_what_its_whole_interval_says(interval: tuple[float, float], floor: float, worth: str) -> None:
    if interval == (0.0, math.inf):
        assert Gain(Ratio(1.0, Interval(*interval)), Ratio(1.0, Interval(*interval))).worth == worth
    else:
        assert gain(*interval, floor=floor).worth == worth


def test_what_was_not_measured_is_undecided() -> None:
    assert Gain(None, None).worth == "undecided"


def compile_rounds(left: list[float]) -> CompileRounds:
    """Rounds of a baseline and of a pipeline that compiles in half the time; ``left`` has the time before each."""
    evaluator = SimulatedEvaluator(Machine(Noise(), 3), {}, compile_gains={"Quick": 2.0})
    candidates = [Candidate(), Candidate(Pipeline.parse("Quick"))]
    return CompileRounds(evaluator, candidates, 3, time_left(lambda: left.pop(0) if left else 1.0))


def test_compile_times_are_compared_round_by_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the simulated artifacts have relative paths
    rounds = compile_rounds([])
    for _ in range(5):
        rounds.add()
    assert len(rounds.seconds) == 3, "no more than the plan has"
    ratio = rounds.ratio(rounds.candidates[1], rounds.candidates[0], level=0.95)
    assert ratio is not None and 1.5 < ratio.value < 2.5


def test_a_round_that_the_time_cuts_off_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rounds = compile_rounds([1.0, 0.0])
    rounds.add()
    assert rounds.seconds == [] and rounds.ratio(*rounds.candidates, level=0.95) is None
    rounds.add()
    assert len(rounds.seconds) == 1


@pytest.mark.parametrize(("until_decided", "looks"), [(False, (9,)), (True, (5, 7, 9))])
def test_timing_ends_at_a_look_for_which_the_intervals_are_corrected(until_decided: bool, looks: tuple[int]) -> None:
    evaluator = SimulatedEvaluator(Machine(Noise(), 3), {})
    sides = Side(evaluator, ())  # type: ignore[arg-type]
    ablation = Ablation(sides, Candidate(), Candidate(), THROUGHPUT, print, TimeLimit(), until_decided)
    assert ablation.looks == looks
    readings = Readings(None, {}, CompileRounds(evaluator, [], 0, TimeLimit()), False, len(ablation.looks))
    steps = ablation_steps(Candidate(Pipeline.parse("A,B")))
    rows = AblationRows(steps, evaluator, readings, None, Candidate(), THROUGHPUT)  # type: ignore[arg-type]
    # Of every step throughput and compile time, at every look; five steps.
    assert rows.level == pytest.approx(1 - 0.05 / (2 * 5 * len(looks)))


class IdleEvaluator(SimulatedEvaluator):
    """An evaluator whose artifacts cannot run, so that only compile times are measured."""

    session = SimpleNamespace(cannot_run_reason="no GPU here", sensors=None)
    builder = SimpleNamespace(files=SimpleNamespace(kernel_hashes=lambda _: None))


@pytest.mark.parametrize(
    ("kind", "worth", "is_complete"),
    [("compile_error", "needed", True), ("timeout", "undecided", True), ("oom", "undecided", False)],
)
def test_a_pass_is_needed_only_if_the_network_fails_without_it_whatever_the_machine(
    kind: FailureKind, worth: str, is_complete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the simulated artifacts have relative paths
    evaluator = IdleEvaluator(Machine(Noise(), 3), {})
    failure = Failure(kind, "build", "", "it failed")
    steps = [
        replace(step, outcome=failure if step.name == "-A" else evaluator.build(step.name, step.candidate))
        for step in ablation_steps(Candidate(Pipeline.parse("A,B")))
    ]
    side = Side(evaluator, ())  # type: ignore[arg-type]
    ablation = Ablation(side, Candidate(), Candidate(), THROUGHPUT, lambda *_: None, TimeLimit())
    reference = evaluator.build("root", Candidate())
    assert isinstance(reference, Built)
    rows = ablation._measure(steps, reference)
    assert {step.name: rows.row(step).worth for step in steps}["-A"] == worth
    assert rows.readings.is_complete == is_complete
