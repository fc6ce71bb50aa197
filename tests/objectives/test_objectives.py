"""Every objective passes the same checks: its gain, its name, its place in a result, and its words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from passsearch.core import BuildOptions, Candidate, Interval, PassSpec, Pipeline
from passsearch.errors import UserError
from passsearch.evaluate import Built, Consumed
from passsearch.evaluate.testing import Machine, Noise, SimulatedEvaluator
from passsearch.measure import Consumption, Ratio
from passsearch.objectives import (
    METERED_OBJECTIVES,
    OBJECTIVES,
    THROUGHPUT,
    MeteredObjective,
    Objective,
    parse_objective,
    parse_objectives,
    recorded_objective,
    verdict_outcome,
)
from passsearch.report import RunRecord, headline_text, history_chart
from passsearch.report.charts import ratios_chart
from passsearch.report.verdict import verdict_text
from passsearch.results import RunResult, Verdict
from passsearch.search import Confirmation, Pairing, RunOptions, Scored, Scoring, confirm
from passsearch.search.document import ratios_of
from passsearch.search.stated_ratio import stated
from passsearch.store.result_schema import schema_problem

read = RunResult.from_json

RESULT = Path(__file__).parents[1] / "report" / "data" / "result.json"
BUILD = BuildOptions(opt_level=3)
BASELINE, FAST = Candidate(build=BUILD, name="O3"), Candidate(Pipeline((PassSpec.of("Fast"),)))

every_objective = pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)


def consumption(share: float) -> Consumption:
    return Consumption((4.0 * share, 4.4 * share), {"median": 70.0 * share, "max": 80.0}, None)


def scored(name: str, share: float = 1.0) -> Scored:
    """Return a candidate of which everything is this share of the baseline's."""
    built = Built(name, BUILD, name, Path(name), name, name, 1.0, 0, 0, int(share * 2**30))
    ratio = Ratio(1 / share, Interval(1 / share, 1 / share))
    return Scored(
        Candidate(name=name),
        built,
        ratio,
        (share,),
        20.0 * share,
        0.0,
        consumption=(consumption(1), consumption(share)),
    )


class WithMeter(SimulatedEvaluator):
    """A machine whose meter reads half as much of the candidate as of the baseline."""

    def measure_consumption(self, *_: object, **__: object) -> Consumed:  # type: ignore[override]
        """Return the consumption of baseline, twin and candidate."""
        return Consumed((consumption(1.0), consumption(1.0), consumption(0.5)), 1.0)


def confirmed(objective: Objective) -> Confirmation:
    """Return the confirmation of a candidate that is twice as good in everything."""
    evaluator = WithMeter(Machine(Noise(), 3), {"Fast": 2.0}, compile_gains={"Fast": 2.0})
    twin = evaluator.build_candidate(BASELINE)
    assert isinstance(twin, Built)
    confirmation = confirm(
        evaluator,
        Pairing(BASELINE, FAST, twin, objective),
        repetitions=3,
        progress=lambda _: None,
        keep_throughput=0.98,
    )
    assert isinstance(confirmation, Confirmation)
    return confirmation


@pytest.fixture
def result() -> dict[str, Any]:
    """A result with every key."""
    document: dict[str, Any] = json.loads(RESULT.read_text())
    return document


@every_objective
def test_a_better_candidate_gains_and_the_baseline_does_not(objective: Objective) -> None:
    baseline = scored("O3")
    scoring = Scoring(RunOptions((objective,), 1), baseline)
    assert scoring.gain(objective, scored("better", 0.5)) == pytest.approx(2.0)
    assert scoring.gain(objective, scored("worse", 2.0)) == pytest.approx(0.5)
    assert scoring.gain(objective, baseline) == 1.0


@every_objective
def test_a_binary_is_equal_to_itself_but_for_the_time_of_its_compiles(objective: Objective) -> None:
    assert objective.is_equal_for_one_binary == (not objective.is_of_compiles)
    verdict = {"confirmed": True, "same_binary": True, "objective": objective.name, "interval": [0.9, 2.0]}
    assert verdict_outcome(Verdict.from_json(verdict)) == (
        "no gain" if objective.is_equal_for_one_binary else "undecided"
    )
    one_binary = replace(confirmed(objective), same_binary=True)
    assert not (objective.is_equal_for_one_binary and one_binary.improves(objective, keep_throughput=0.98))


@every_objective
def test_a_gain_is_confirmed_and_stands_in_the_result(objective: Objective) -> None:
    confirmation = confirmed(objective)
    ratio, ratios = objective.ratio(confirmation), ratios_of(confirmation)
    if ratio is None:
        assert objective.ratio_key not in ratios
        assert not confirmation.improves(objective, keep_throughput=0.98)
        return
    assert ratio.value == pytest.approx(2.0, rel=0.1)
    assert ratios[objective.ratio_key] == stated(ratio)
    assert 0 <= objective.floor(confirmation) < 0.1
    assert objective.is_certain(Ratio(1.0, Interval(0.999, 1.001)), confirmation, least_floor=0.0)
    assert confirmation.improves(objective, keep_throughput=0.98)


@every_objective
def test_a_confirmation_without_readings_has_no_ratio_of_a_meter(objective: Objective) -> None:
    read, unread = confirmed(objective), replace(confirmed(objective), consumption=())
    assert objective.ratio(unread) == (None if objective in METERED_OBJECTIVES else objective.ratio(read))
    assert objective.unread_reason


@every_objective
def test_a_name_is_parsed_and_recorded(objective: Objective) -> None:
    assert parse_objective(objective.name) is objective
    assert recorded_objective(Verdict.from_json({"objective": objective.name})) is objective
    assert objective.direction in ("maximize", "minimize") and objective.unit
    assert objective.title == objective.name.replace("_", " ")


@pytest.mark.parametrize("name", ["", "speed", "Throughput", "x"])
def test_an_unknown_name_is_refused_with_the_names_allowed(name: str, result: dict[str, Any]) -> None:
    names = ", ".join(objective.name for objective in OBJECTIVES)
    with pytest.raises(UserError, match=f"^Unknown objective `{name}`; choose from: {names}.$"):
        parse_objectives([name])
    result["verdict"]["objective"] = name
    assert all(objective.name in schema_problem(result, RunResult.json_schema()) for objective in OBJECTIVES)
    if name:
        with pytest.raises(UserError, match="Unknown objective"):
            verdict_text(read(result))


def test_the_schema_of_results_has_every_name() -> None:
    verdict = RunResult.json_schema()["properties"]["verdict"]["properties"]
    assert verdict["objective"]["enum"] == [objective.name for objective in OBJECTIVES]


def test_a_verdict_without_an_objective_is_about_throughput() -> None:
    assert recorded_objective(Verdict.from_json({})) is THROUGHPUT


@every_objective
def test_a_gain_is_worded_and_drawn(objective: Objective, result: dict[str, Any]) -> None:
    gain = {"ratio": 1.2, "interval": [1.1, 1.3]}
    result["ratios"][objective.ratio_key] = gain
    result["verdict"] |= {**gain, "objective": objective.name, "objectives": [objective.name], "improved": True}
    result["verdict"] |= {"confirmed": True, "same_binary": False, "disagreement": "", "outcome": "improved"}
    assert objective.gain_text("1.200 [1.100, 1.300]") in verdict_text(read(result))
    assert objective.gain_predicate("1.200 [1.100, 1.300]") in headline_text(read(result))
    assert history_chart(RunRecord(read(result))).y.title.startswith(f"{objective.chart_title}, ")
    assert len(ratios_chart(read(result)).series) == sum(ratio is not None for ratio in result["ratios"].values())


@every_objective
def test_what_is_undecided_names_the_objective(objective: Objective, result: dict[str, Any]) -> None:
    result["verdict"] |= {"objective": objective.name, "ratio": 1.1, "interval": [0.9, 1.3], "improved": False}
    result["verdict"] |= {"confirmed": True, "same_binary": False, "disagreement": ""}
    assert verdict_text(read(result)).startswith(f"undecided: {objective.title} 1.10")


@every_objective
def test_the_history_shows_the_gain_of_a_recorded_candidate(objective: Objective, result: dict[str, Any]) -> None:
    def row(name: str, share: float) -> dict[str, Any]:
        values: dict[str, Any] = {"ratio": {"ratio": 1 / share}, "compile_s": 20.0 * share, "energy_j": 4.0 * share}
        values |= {"memory_bytes": {"peak_rss": 1000 * share}, "power_w": {"median": 70.0 * share}}
        return {**result["best"], "name": name, **values}

    baseline = row(result["baseline"]["name"], 1.0)
    result |= {"baselines": [baseline], "trials": [baseline, row("better", 0.5)]}
    result["verdict"]["objective"] = objective.name
    gains = [point.y for series in history_chart(RunRecord(read(result))).series[1:] for point in series.points]
    assert gains == [1.0, 2.0]


@pytest.mark.parametrize("objective", METERED_OBJECTIVES, ids=lambda objective: objective.name)
def test_a_consumption_of_zero_has_no_ratio(objective: MeteredObjective) -> None:
    assert objective.is_read(consumption(1.0)) and objective.sensor
    assert not objective.is_read(Consumption(None, None, None))
    assert not objective.is_read(Consumption((0.0,), {"median": 0.0}, None))


@pytest.mark.parametrize("objective", METERED_OBJECTIVES, ids=lambda objective: objective.name)
def test_a_candidate_that_was_too_slow_to_be_measured_has_no_gain(objective: MeteredObjective) -> None:
    unread = replace(scored("slow"), consumption=None)
    assert objective.gain(scored("O3"), unread) is None
    assert objective.gain(scored("O3"), replace(unread, built=scored("O3").built)) == 1.0
