"""Rounds on simulated artifacts whose run times are set by the test."""

import ctypes
import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from passsearch.dialects.contract import Array, Executable
from passsearch.measure import race_critical_values
from passsearch.measure.processor import CpuTimes, pin_process
from passsearch.measure.rounds import Race, Round, RoundPlan, measure, run_race

UNDISTURBED = {"steal": 0.0, "foreign": 0.0}


class Clock:
    """A clock that only artifacts advance, by running."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Scripted(Executable):
    """An executable whose runs take the times of a list, over and over."""

    def __init__(self, clock: Clock, seconds: Sequence[float]) -> None:
        self._clock, self._seconds, self.runs = clock, seconds, list[int]()

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        return list(inputs.values())

    def run_repeatedly(self, number: int) -> None:
        self._clock.now_s += number * self._seconds[len(self.runs) % len(self._seconds)]
        self.runs.append(number)


def no_disturbance() -> CpuTimes:
    return CpuTimes(0.0, 0.0, 0.0, 0.0)


def race(plan: RoundPlan, rounds: Sequence[Round]) -> Race:
    result = Race(len(rounds[0].runs), plan, rng=random.Random(0))
    for round_ in rounds:
        if not result.is_over:
            result.add(replace(round_, runs={index: round_.runs[index] for index in result.next_order()}))
    return result


def random_runs(seconds: Sequence[float], rng: np.random.Generator, deviation: float) -> dict[int, list[float]]:
    return {index: [mean_s * float(np.exp(rng.normal(0, deviation)))] for index, mean_s in enumerate(seconds)}


def stack_pointer() -> int:
    """Return the address of the C stack, from the registers that ``getcontext`` saves."""
    context = (ctypes.c_char * 4096)()
    assert ctypes.CDLL(None).getcontext(context) == 0
    return int.from_bytes(context[160:168], "little")  # gregs[REG_RSP] of ucontext_t on x86-64


@pytest.fixture
def affinity() -> Iterator[None]:
    """Restores the affinity of the test process."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("affinity")
def test_samples_are_the_seconds_of_an_inference() -> None:
    class Sleeper(Executable):
        def __init__(self, seconds: float) -> None:
            self._seconds = seconds

        def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
            return list(inputs.values())

        def run_repeatedly(self, number: int) -> None:
            time.sleep(number * self._seconds)

    plan = RoundPlan(rounds=4, runs=3, run_s=0.002)
    answer = measure(
        [Sleeper(0.001), Sleeper(0.002)], inputs={"x": np.zeros(1, "float32")}, plan=plan, cores=pin_process(1)
    )
    fast, slow = (min(samples) for samples in answer["samples"])
    assert 0.001 <= fast < 0.1 and 0.002 <= slow < 0.1  # a sleep may last longer on a busy machine, never shorter
    assert answer["conditions"]["threads"] == len(answer["conditions"]["affinity"]) == 1
    assert all(start < end for start, end in answer["spans"]) and len(answer["spans"]) == 4


def test_the_sample_of_a_visit_is_its_fastest_run() -> None:
    clock = Clock()
    noisy, constant = Scripted(clock, [0.2, 0.4, 0.1, 0.3]), Scripted(clock, [0.15])
    result = run_race(
        [noisy, constant], RoundPlan(rounds=4, runs=3, run_s=0.01), inputs={}, watch=no_disturbance, now=clock
    )
    assert result.samples() == [pytest.approx([0.1] * 4), pytest.approx([0.15] * 4)]
    assert result.stack_spread()[1] == 1.0 < result.stack_spread()[0]


@pytest.mark.parametrize(("depths", "fewest", "most"), [(1, 1, 2), (32, 4, 8)])
def test_runs_start_at_many_depths_of_the_stack(depths: int, fewest: int, most: int) -> None:
    clock, addresses = Clock(), list[int]()

    class Watcher(Scripted):
        def run_repeatedly(self, number: int) -> None:
            super().run_repeatedly(number)
            addresses.append(stack_pointer())

    run_race(
        [Watcher(clock, [0.1])], RoundPlan(rounds=2, runs=4, depths=depths), inputs={}, watch=no_disturbance, now=clock
    )
    timed = addresses[2:6] + addresses[7:11]  # without the first run and the runs that fill the caches
    assert fewest <= len(set(timed)) <= most  # the interpreter itself may call once from another depth


def test_a_device_with_events_is_timed_by_them() -> None:
    class OnGpu(Scripted):
        def event_time_s(self, number: int) -> float | None:
            self.run_repeatedly(number)
            return 0.25

    result = run_race([OnGpu(Clock(), [0.1])], RoundPlan(rounds=2), inputs={}, watch=no_disturbance)
    assert result.samples() == [[0.25, 0.25]]


def test_the_first_run_on_a_device_is_no_sample() -> None:
    class OnGpu(Scripted):
        def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
            self._clock.now_s += 10.0  # loads the code
            return []

        def event_time_s(self, number: int) -> float | None:
            return 0.25

    clock = Clock()
    plan = RoundPlan(rounds=2, race_s=5.0, visit_s=0.5)
    result = run_race([OnGpu(clock, [0.1])], plan, inputs={}, watch=no_disturbance, now=clock)
    assert result.samples() == [[0.25, 0.25]]


def test_a_slow_network_has_fewer_runs_and_none_to_fill_the_caches() -> None:
    clock = Clock()
    slow = [Scripted(clock, [0.4]), Scripted(clock, [0.5])]
    run_race(slow, RoundPlan(rounds=4, visit_s=0.6), inputs={}, watch=no_disturbance, now=clock)
    assert [len(executable.runs) for executable in slow] == [1 + 4] * 2


@pytest.mark.parametrize(
    ("slow_s", "inferences", "samples"),
    [(30.0, 1, 1), (4.0, 2, 2), (1.0, 6, 5)],
    ids=["longer than a race", "most of a race", "a fifth of a race, whose first run is none of the samples"],
)
def test_the_first_run_of_a_long_inference_is_a_sample(slow_s: float, inferences: int, samples: int) -> None:
    class FirstRun(Scripted):
        def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
            self.run_repeatedly(1)
            return []

    def watch() -> CpuTimes:
        return CpuTimes(clock(), clock(), 0.0, clock(), time_s=clock())

    clock = Clock()
    slow, quick = FirstRun(clock, [slow_s]), FirstRun(clock, [0.001])
    plan = RoundPlan(rounds=8, race_s=5.0, visit_s=0.5)
    result = run_race([slow, quick], plan, inputs={}, watch=watch, now=clock)
    assert len(slow.runs) == inferences
    assert result.samples() == [pytest.approx([slow_s] * samples), pytest.approx([0.001] * samples)]


@pytest.mark.parametrize(("flush_bytes", "inferences"), [(0, 3), (1 << 20, 1)])
def test_a_flushed_run_is_one_inference(flush_bytes: int, inferences: int) -> None:
    clock = Clock()
    quick = [Scripted(clock, [0.01]), Scripted(clock, [0.01])]
    run_race(
        quick,
        RoundPlan(rounds=1, runs=2, run_s=0.025, flush_bytes=flush_bytes),
        inputs={},
        watch=no_disturbance,
        now=clock,
    )
    filling = [] if flush_bytes else [1]  # nothing that a flush would evict at once
    assert [executable.runs for executable in quick] == [[1, *filling, inferences, inferences]] * 2


def test_a_core_that_reduced_its_clock_for_heat_disturbs_the_round() -> None:
    before, after = CpuTimes(0.0, 0.0, 0.0, 0.0, 3, 2_000), CpuTimes(1.0, 1.0, 0.0, 1.0, 4, 1_000)
    round_ = Round.from_cpu_times({0: [0.01]}, before=before, after=after)
    assert round_.disturbance > 0 and round_.clock_hz == 1_000


def test_a_round_too_short_for_the_cpu_counters_counts_as_undisturbed() -> None:
    before, after = CpuTimes(0.0, 0.0, 0.0, 0.0), CpuTimes(0.05, 0.05, 0.0, 0.0)
    assert Round.from_cpu_times({0: [0.01]}, before=before, after=after).disturbance == 0.0


def test_a_race_is_over_when_only_the_baseline_remains() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical_values(8, artifacts=2))
    rng = np.random.default_rng(4)
    rounds = [Round(random_runs([1.0, 2.0], rng, 0.01), **UNDISTURBED) for _ in range(8)]
    result = race(plan, rounds)
    assert result.is_over and len(result.valid_rounds()) == 3


def test_a_race_with_a_far_faster_candidate_is_over_at_once() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical_values(8, artifacts=2))
    rng = np.random.default_rng(4)
    rounds = [Round(random_runs([1.7, 0.01], rng, 0.01), **UNDISTURBED) for _ in range(8)]
    assert len(race(plan, rounds).valid_rounds()) == 2


def test_the_time_limit_ends_a_race_after_an_undisturbed_round() -> None:
    plan = RoundPlan(rounds=8, race_s=1.0)
    rounds = [Round({0: [1.0], 1: [1.0]}, 0.0, 0.2 * (turn == 0), span=(turn, turn + 1)) for turn in range(12)]
    result = race(plan, rounds)
    assert result.is_over and len(result.valid_rounds()) == 1 and result.dropped_count == 1
    assert len(race(replace(plan, race_s=math.inf), rounds).valid_rounds()) == 8


def test_twice_the_time_limit_ends_a_race_on_a_machine_that_is_always_disturbed() -> None:
    rounds = [Round({0: [turn], 1: [turn]}, 0.0, 0.5 + turn / 10, span=(turn, turn + 1)) for turn in range(12)]
    result = race(RoundPlan(rounds=8, race_s=2.0), rounds)
    assert result.is_over and [round_.samples[0] for round_ in result.valid_rounds()] == [0, 1, 2, 3]


def test_a_race_that_ends_early_has_no_disturbed_round() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical_values(8, artifacts=2))
    noisy = [Round({0: [1.0], 1: [2.0 + 0.01 * turn]}, 0.2, 0.0) for turn in range(3)]
    quiet = [Round({0: [1.0 + 0.001 * turn], 1: [2.0]}, **UNDISTURBED) for turn in range(8)]
    result = race(plan, [*noisy, *quiet])
    assert result.is_over and len(result.valid_rounds()) == 2 and result.dropped_count == 3


def test_the_number_of_runs_does_not_depend_on_which_artifact_is_first() -> None:
    counts = []
    for seconds in ((0.1, 1.5), (1.5, 0.1)):
        clock = Clock()
        both = {run_s: Scripted(clock, [run_s]) for run_s in seconds}
        run_race(list(both.values()), RoundPlan(rounds=1), inputs={}, watch=no_disturbance, now=clock)
        counts.append({run_s: len(executable.runs) for run_s, executable in both.items()})
    # An estimate and one run of each; the quick one fills the caches before it.
    assert counts == [{0.1: 1 + 1 + 1, 1.5: 1 + 1}] * 2


def test_every_artifact_is_visited_once_per_round_in_a_new_order() -> None:
    result = Race(4, RoundPlan(rounds=20), rng=random.Random(0))
    orders = []
    while not result.is_over:
        orders.append(result.next_order())
        result.add(Round({index: [0.1] for index in orders[-1]}, **UNDISTURBED))
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len({tuple(order) for order in orders}) > 5


@pytest.mark.parametrize("disturbed", [{"steal": 0.2, "foreign": 0.0}, {"steal": 0.0, "foreign": 0.5}])
def test_a_disturbed_round_is_replaced_even_if_it_has_the_best_samples(disturbed: dict[str, float]) -> None:
    best = Round({0: [0.1], 1: [0.01]}, **disturbed)
    quiet = Round({0: [0.1], 1: [0.1]}, **UNDISTURBED)
    result = race(RoundPlan(rounds=3), [best, quiet, quiet, quiet])
    assert result.is_over and result.dropped_count == 1
    assert [round_.samples[1] for round_ in result.valid_rounds()] == [0.1, 0.1, 0.1]


def test_on_a_machine_that_is_always_disturbed_the_least_disturbed_rounds_count() -> None:
    rounds = [Round({0: [number], 1: [number]}, 0.0, 0.2 + number / 100) for number in (6, 1, 5, 2, 4, 3)]
    result = race(RoundPlan(rounds=3), rounds)
    assert result.is_over and result.dropped_count == 3
    assert [round_.samples[0] for round_ in result.valid_rounds()] == [1, 2, 3]


def test_an_artifact_that_is_certainly_slower_leaves_and_the_baseline_stays() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical_values(8, artifacts=3))
    rng = np.random.default_rng(0)
    rounds = [Round(random_runs([0.15, 0.1, 0.15], rng, 0.01), **UNDISTURBED) for _ in range(8)]
    valid = race(plan, rounds).valid_rounds()
    visits = [sum(index in round_.samples for round_ in valid) for index in range(3)]
    assert visits[:2] == [8, 8] and visits[2] <= 4


def test_an_artifact_as_good_as_the_best_hardly_ever_leaves() -> None:
    plan = RoundPlan(rounds=8, critical=race_critical_values(8, artifacts=2), margin=0.0)
    rng = np.random.default_rng(1)
    exits = 0
    for _ in range(500):
        rounds = [Round(random_runs([1.0, 1.0], rng, 0.05), **UNDISTURBED) for _ in range(8)]
        exits += sum(1 in round_.samples for round_ in race(plan, rounds).valid_rounds()) < 8
    assert exits <= 10  # 1 % of 500, and room for chance


def test_the_time_of_this_process_is_not_foreign() -> None:
    before = CpuTimes.read([0])
    after = CpuTimes(before.total + 10, before.busy + 8, before.stolen + 1, before.own + 5)
    round_ = Round.from_cpu_times({0: [1.0]}, before=before, after=after)
    assert round_.steal == pytest.approx(0.1) and round_.foreign == pytest.approx(0.3)
    assert Round.from_cpu_times({0: [1.0]}, before=before, after=before).disturbance == 0.0
