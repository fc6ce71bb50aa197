"""Rounds on artifacts whose every run is known."""

import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from passsearch.core import TensorType
from passsearch.dialects.contract import Array
from passsearch.measure import race_critical
from passsearch.measure.processor import CpuTimes
from passsearch.measure.rounds import Race, Round, RoundPlan, measure

CALM = {"steal": 0.0, "foreign": 0.0}


class Scripted:
    """An executable that takes the times it is given, over and over."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds, self.runs = seconds, 0
        self.asked: list[tuple[int, int, int]] = []

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        return list(inputs.values())

    def sample(self, number: int, runs: int, flush_bytes: int = 0) -> list[float]:
        assert number >= 1
        self.runs += runs
        self.asked.append((number, runs, flush_bytes))
        return [self._seconds[turn % len(self._seconds)] for turn in range(self.runs - runs, self.runs)]


def race(plan: RoundPlan, rounds: Sequence[Round]) -> Race:
    artifacts = Race(len(rounds[0].seconds), plan)
    for each in rounds:
        if not artifacts.over:
            running = artifacts.order()
            artifacts.take(Round({i: each.seconds[i] for i in running}, each.steal, each.foreign))
    return artifacts


@pytest.fixture
def affinity() -> Iterator[None]:
    """What a measurement pins itself to must not stay."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("affinity")
def test_a_visit_keeps_the_fastest_of_its_runs() -> None:
    noisy, steady = Scripted([0.2, 0.1, 0.3]), Scripted([0.15])
    plan = RoundPlan(rounds=4, runs=3, run_s=0.01, visit_s=2.0, loads=1)
    answer = measure([noisy, steady], types={"x": TensorType((1,), "float32")}, plan=plan, threads=1)
    assert answer["samples"] == [[0.1] * 4, [0.15] * 4]
    assert answer["conditions"]["threads"] == len(answer["conditions"]["affinity"]) == 1


@pytest.mark.usefixtures("affinity")
def test_a_slow_network_runs_fewer_times_a_visit() -> None:
    slow = [Scripted([0.4]), Scripted([0.4])]
    types = {"x": TensorType((1,), "float32")}
    measure(slow, types=types, plan=RoundPlan(rounds=4, placing_rounds=1, visit_s=0.6, loads=1), threads=1)
    assert [each.runs for each in slow] == [1 + 4, 1 + 4]


@pytest.mark.usefixtures("affinity")
@pytest.mark.parametrize(("flush_bytes", "visit"), [(0, (3, 2, 0)), (1 << 20, (1, 2, 1 << 20))])
def test_a_flushed_run_is_one_inference(flush_bytes: int, visit: tuple[int, int, int]) -> None:
    quick = [Scripted([0.01]), Scripted([0.01])]
    plan = RoundPlan(rounds=2, placing_rounds=1, flush_bytes=flush_bytes, loads=1)
    measure(quick, types={"x": TensorType((1,), "float32")}, plan=plan, threads=1)
    assert [each.asked for each in quick] == [[(1, 1, 0), visit, visit]] * 2


@pytest.mark.usefixtures("affinity")
def test_the_better_load_of_each_artifact_is_timed() -> None:
    loads = [Scripted([0.1]), Scripted([0.3]), Scripted([0.12]), Scripted([0.2])]
    answer = measure(loads, types={"x": TensorType((1,), "float32")}, plan=RoundPlan(rounds=3), threads=1)
    assert answer["samples"] == [[0.1] * 3, [0.2] * 3]
    assert answer["conditions"]["placement"] == [1.2, 1.5]
    assert loads[1].runs == loads[2].runs == 2


def test_a_core_that_slowed_itself_down_for_heat_disturbs_the_round() -> None:
    before, after = CpuTimes(0.0, 0.0, 0.0, 0.0, 3, 2_000), CpuTimes(1.0, 1.0, 0.0, 1.0, 4, 1_000)
    spent = Round.of({0: 0.01}, before, after)
    assert spent.disturbance > 0 and spent.clock_hz == 1_000


def test_a_round_shorter_than_the_clock_ticks_is_not_called_disturbed() -> None:
    before, after = CpuTimes(0.0, 0.0, 0.0, 0.0), CpuTimes(0.05, 0.05, 0.0, 0.0)
    assert Round.of({0: 0.01}, before, after).disturbance == 0.0


def test_a_race_is_over_when_only_the_baseline_runs() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical(8, artifacts=2))
    times = {0: 1.0, 1: 2.0}
    rng = np.random.default_rng(4)
    rounds = [Round({i: t * float(np.exp(rng.normal(0, 0.01))) for i, t in times.items()}, **CALM) for _ in range(8)]
    finished = race(plan, rounds)
    assert finished.over and len(finished.kept()) == 4


def test_everyone_is_visited_once_a_round_in_changing_order() -> None:
    artifacts = Race(4, RoundPlan(rounds=20))
    orders = []
    while not artifacts.over:
        orders.append(artifacts.order())
        artifacts.take(Round(dict.fromkeys(orders[-1], 0.1), **CALM))
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len({tuple(order) for order in orders}) > 5


@pytest.mark.parametrize("disturbed", [{"steal": 0.2, "foreign": 0.0}, {"steal": 0.0, "foreign": 0.5}])
def test_a_disturbed_round_is_replaced_whatever_it_read(disturbed: dict[str, float]) -> None:
    best = Round({0: 0.1, 1: 0.01}, **disturbed)
    calm = Round({0: 0.1, 1: 0.1}, **CALM)
    finished = race(RoundPlan(rounds=3), [best, calm, calm, calm])
    assert finished.over and finished.dropped == 1
    assert [each.seconds[1] for each in finished.kept()] == [0.1, 0.1, 0.1]


def test_a_machine_that_is_never_calm_keeps_its_least_disturbed_rounds() -> None:
    rounds = [Round({0: number, 1: number}, 0.0, 0.2 + number / 100) for number in (6, 1, 5, 2, 4, 3)]
    finished = race(RoundPlan(rounds=3), rounds)
    assert finished.over and finished.dropped == 3
    assert [each.seconds[0] for each in finished.kept()] == [1, 2, 3]


def test_who_is_certainly_slower_leaves_and_the_baseline_never_does() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical(8, artifacts=3))
    rng = np.random.default_rng(0)
    rounds = [Round(dict(enumerate([0.2, 0.1, 0.15] * np.exp(rng.normal(0, 0.01, 3)))), **CALM) for _ in range(8)]
    kept = race(plan, rounds).kept()
    assert [sum(index in each.seconds for each in kept) for index in range(3)] == [8, 8, 4]


def test_one_as_good_as_the_best_hardly_ever_leaves() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical(8, artifacts=2), margin=0.0)
    rng = np.random.default_rng(1)
    left = 0
    for _ in range(500):
        rounds = [Round(dict(enumerate(np.exp(rng.normal(0, 0.05, 2)))), **CALM) for _ in range(8)]
        left += sum(1 in each.seconds for each in race(plan, rounds).kept()) < 8
    assert left <= 10  # 1 % of 500, and room for chance


def test_what_this_process_spends_is_not_foreign() -> None:
    before = CpuTimes.read([0])
    after = CpuTimes(before.total + 10, before.busy + 8, before.stolen + 1, before.own + 5)
    spent = Round.of({0: 1.0}, before, after)
    assert spent.steal == pytest.approx(0.1) and spent.foreign == pytest.approx(0.3)
    assert Round.of({0: 1.0}, before, before).disturbance == 0.0
