"""Rounds on artifacts whose every run is known."""

import ctypes
import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from passsearch.core import TensorType
from passsearch.dialects.contract import Array, Executable
from passsearch.measure import race_critical
from passsearch.measure.processor import CpuTimes, pin
from passsearch.measure.rounds import Race, Round, RoundPlan, measure, run_race

CALM = {"steal": 0.0, "foreign": 0.0}


class Clock:
    """Goes on only by what runs."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Scripted(Executable):
    """An executable that takes the times it is given, over and over."""

    def __init__(self, clock: Clock, seconds: Sequence[float]) -> None:
        self._clock, self._seconds, self.asked = clock, seconds, list[int]()

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        return list(inputs.values())

    def spin(self, number: int) -> None:
        self._clock.now_s += number * self._seconds[len(self.asked) % len(self._seconds)]
        self.asked.append(number)


def calm() -> CpuTimes:
    return CpuTimes(0.0, 0.0, 0.0, 0.0)


def race(plan: RoundPlan, rounds: Sequence[Round]) -> Race:
    artifacts = Race(len(rounds[0].seconds), plan, rng=random.Random(0))
    for each in rounds:
        if not artifacts.over:
            running = artifacts.order()
            artifacts.take(replace(each, runs={i: each.runs[i] for i in running}))
    return artifacts


def drawn(seconds: Sequence[float], rng: np.random.Generator, deviation: float) -> dict[int, list[float]]:
    return {place: [each * float(np.exp(rng.normal(0, deviation)))] for place, each in enumerate(seconds)}


def stack_pointer() -> int:
    """Where the C stack is: what ``getcontext`` saves of the registers has an address there."""
    context = (ctypes.c_char * 4096)()
    assert ctypes.CDLL(None).getcontext(context) == 0
    return int.from_bytes(context[160:168], "little")  # gregs[REG_RSP] of ucontext_t on x86-64


@pytest.fixture
def affinity() -> Iterator[None]:
    """What a measurement pins itself to must not stay."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("affinity")
def test_what_is_measured_is_what_it_took() -> None:
    class Sleeper(Executable):
        def __init__(self, seconds: float) -> None:
            self._seconds = seconds

        def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
            return list(inputs.values())

        def spin(self, number: int) -> None:
            time.sleep(number * self._seconds)

    plan = RoundPlan(rounds=4, runs=3, run_s=0.002)
    answer = measure(
        [Sleeper(0.001), Sleeper(0.002)], types={"x": TensorType((1,), "float32")}, plan=plan, cores=pin(1)
    )
    fast, slow = (min(samples) for samples in answer["samples"])
    assert 0.001 <= fast < 0.1 and 0.002 <= slow < 0.1  # a sleep may last longer on a busy machine, never shorter
    assert answer["conditions"]["threads"] == len(answer["conditions"]["affinity"]) == 1
    assert all(start < end for start, end in answer["spans"]) and len(answer["spans"]) == 4


def test_a_visit_keeps_the_fastest_of_its_runs() -> None:
    clock = Clock()
    noisy, steady = Scripted(clock, [0.2, 0.4, 0.1, 0.3]), Scripted(clock, [0.15])
    finished = run_race([noisy, steady], RoundPlan(rounds=4, runs=3, run_s=0.01), watch=calm, now=clock)
    assert finished.samples() == [pytest.approx([0.1] * 4), pytest.approx([0.15] * 4)]
    assert finished.spread()[1] == 1.0 < finished.spread()[0]


@pytest.mark.parametrize(("depths", "fewest", "most"), [(1, 1, 2), (32, 4, 8)])
def test_runs_begin_at_many_places_of_the_stack(depths: int, fewest: int, most: int) -> None:
    clock, places = Clock(), list[int]()

    class Watcher(Scripted):
        def spin(self, number: int) -> None:
            super().spin(number)
            places.append(stack_pointer())

    run_race([Watcher(clock, [0.1])], RoundPlan(rounds=2, runs=4, depths=depths), watch=calm, now=clock)
    timed = places[2:6] + places[7:11]  # after what tells the duration, and without the run that fills the caches
    assert fewest <= len(set(timed)) <= most  # the interpreter itself may call once from elsewhere


def test_a_device_with_events_is_timed_by_them() -> None:
    class OnGpu(Scripted):
        def by_events(self, number: int) -> float | None:
            self.spin(number)
            return 0.25

    finished = run_race([OnGpu(Clock(), [0.1])], RoundPlan(rounds=2), watch=calm)
    assert finished.samples() == [[0.25, 0.25]]


def test_a_slow_network_runs_fewer_times_a_visit_and_fills_the_caches_on_the_way() -> None:
    clock = Clock()
    slow = [Scripted(clock, [0.4]), Scripted(clock, [0.5])]
    run_race(slow, RoundPlan(rounds=4, visit_s=0.6), watch=calm, now=clock)
    assert [len(each.asked) for each in slow] == [1 + 4] * 2


@pytest.mark.parametrize(("flush_bytes", "inferences"), [(0, 3), (1 << 20, 1)])
def test_a_flushed_run_is_one_inference(flush_bytes: int, inferences: int) -> None:
    clock = Clock()
    quick = [Scripted(clock, [0.01]), Scripted(clock, [0.01])]
    run_race(quick, RoundPlan(rounds=1, runs=2, run_s=0.025, flush_bytes=flush_bytes), watch=calm, now=clock)
    assert [each.asked for each in quick] == [[1, 1, inferences, inferences]] * 2


def test_a_core_that_slowed_itself_down_for_heat_disturbs_the_round() -> None:
    before, after = CpuTimes(0.0, 0.0, 0.0, 0.0, 3, 2_000), CpuTimes(1.0, 1.0, 0.0, 1.0, 4, 1_000)
    spent = Round.of({0: [0.01]}, before=before, after=after)
    assert spent.disturbance > 0 and spent.clock_hz == 1_000


def test_a_round_shorter_than_the_clock_ticks_is_not_called_disturbed() -> None:
    before, after = CpuTimes(0.0, 0.0, 0.0, 0.0), CpuTimes(0.05, 0.05, 0.0, 0.0)
    assert Round.of({0: [0.01]}, before=before, after=after).disturbance == 0.0


def test_a_race_is_over_when_only_the_baseline_runs() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical(8, artifacts=2))
    times = {0: 1.0, 1: 2.0}
    rng = np.random.default_rng(4)
    rounds = [Round({i: [t * float(np.exp(rng.normal(0, 0.01)))] for i, t in times.items()}, **CALM) for _ in range(8)]
    finished = race(plan, rounds)
    assert finished.over and len(finished.kept()) == 4


def test_a_race_that_lasts_too_long_is_cut_short_at_four_calm_rounds() -> None:
    plan = RoundPlan(rounds=8, race_s=5.0)
    rounds = [Round({0: [1.0], 1: [1.0]}, 0.0, 0.2 * (turn == 1), span=(turn, turn + 1)) for turn in range(12)]
    artifacts = race(plan, rounds)
    assert artifacts.over and len(artifacts.kept()) == 4 and artifacts.dropped == 1
    assert len(race(replace(plan, race_s=math.inf), rounds).kept()) == 8


def test_a_race_that_ends_early_keeps_no_disturbed_round() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical(8, artifacts=2))
    noisy = [Round({0: [1.0], 1: [2.0 + 0.01 * turn]}, 0.2, 0.0) for turn in range(3)]
    calm = [Round({0: [1.0 + 0.001 * turn], 1: [2.0]}, **CALM) for turn in range(8)]
    finished = race(plan, [*noisy, *calm])
    assert finished.over and len(finished.kept()) == 4 and finished.dropped == 3


def test_how_often_a_visit_runs_does_not_depend_on_who_is_first() -> None:
    asked = []
    for seconds in ((0.1, 1.5), (1.5, 0.1)):
        clock = Clock()
        both = [Scripted(clock, [each]) for each in seconds]
        run_race(both, RoundPlan(rounds=1), watch=calm, now=clock)
        asked.append({len(each.asked) for each in both})
    assert asked == [{1 + 1 + 1}] * 2


def test_everyone_is_visited_once_a_round_in_changing_order() -> None:
    artifacts = Race(4, RoundPlan(rounds=20), rng=random.Random(0))
    orders = []
    while not artifacts.over:
        orders.append(artifacts.order())
        artifacts.take(Round({place: [0.1] for place in orders[-1]}, **CALM))
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len({tuple(order) for order in orders}) > 5


@pytest.mark.parametrize("disturbed", [{"steal": 0.2, "foreign": 0.0}, {"steal": 0.0, "foreign": 0.5}])
def test_a_disturbed_round_is_replaced_whatever_it_read(disturbed: dict[str, float]) -> None:
    best = Round({0: [0.1], 1: [0.01]}, **disturbed)
    calm = Round({0: [0.1], 1: [0.1]}, **CALM)
    finished = race(RoundPlan(rounds=3), [best, calm, calm, calm])
    assert finished.over and finished.dropped == 1
    assert [each.seconds[1] for each in finished.kept()] == [0.1, 0.1, 0.1]


def test_a_machine_that_is_never_calm_keeps_its_least_disturbed_rounds() -> None:
    rounds = [Round({0: [number], 1: [number]}, 0.0, 0.2 + number / 100) for number in (6, 1, 5, 2, 4, 3)]
    finished = race(RoundPlan(rounds=3), rounds)
    assert finished.over and finished.dropped == 3
    assert [each.seconds[0] for each in finished.kept()] == [1, 2, 3]


def test_who_is_certainly_slower_leaves_and_the_baseline_never_does() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical(8, artifacts=3))
    rng = np.random.default_rng(0)
    rounds = [Round(drawn([0.2, 0.1, 0.15], rng, 0.01), **CALM) for _ in range(8)]
    kept = race(plan, rounds).kept()
    assert [sum(index in each.seconds for each in kept) for index in range(3)] == [8, 8, 4]


def test_one_as_good_as_the_best_hardly_ever_leaves() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical(8, artifacts=2), margin=0.0)
    rng = np.random.default_rng(1)
    left = 0
    for _ in range(500):
        rounds = [Round(drawn([1.0, 1.0], rng, 0.05), **CALM) for _ in range(8)]
        left += sum(1 in each.seconds for each in race(plan, rounds).kept()) < 8
    assert left <= 10  # 1 % of 500, and room for chance


def test_what_this_process_spends_is_not_foreign() -> None:
    before = CpuTimes.read([0])
    after = CpuTimes(before.total + 10, before.busy + 8, before.stolen + 1, before.own + 5)
    spent = Round.of({0: [1.0]}, before=before, after=after)
    assert spent.steal == pytest.approx(0.1) and spent.foreign == pytest.approx(0.3)
    assert Round.of({0: [1.0]}, before=before, after=before).disturbance == 0.0
