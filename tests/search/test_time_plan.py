"""The division of a time limit between search and confirmation."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.core import BuildOptions, Candidate, TimeLimit
from passsearch.evaluate import Built, MeasurementPlans
from passsearch.objectives import parse_objective
from passsearch.search import RunOptions, Scored
from passsearch.search.time_plan import FRESH_PROCESS_S, SHORTLIST_PROCESS_S, TimePlan

BUILD = BuildOptions(opt_level=3)


def scored(latency_s: float, compile_s: float, size_bytes: int = 0) -> Scored:
    built = Built("root", BUILD, "root", Path("root"), "root", "root", compile_s, size_bytes, 0, 0)
    return Scored(Candidate(build=BUILD), built, None, (latency_s,), compile_s, 0.0)


SHORTLIST_S = MeasurementPlans().processes * SHORTLIST_PROCESS_S
SLOW, FAST = scored(1.7, 20.0), scored(0.02, 20.0)


def plan(
    limit_s: float, repetitions: int = 3, objective: str = "throughput", *, clock_s: Callable[[], float] = lambda: 0.0
) -> TimePlan:
    options = RunOptions((parse_objective(objective),), 40, repetitions=repetitions)
    return TimePlan(MeasurementPlans(), options, TimeLimit(limit_s, clock_s))


def test_a_search_goes_on_to_the_end_where_no_time_is_left_to_confirm() -> None:
    """Confirming takes two compiles of 20 s and two starts, twice."""
    now_s = 0.0
    timing = plan(120.0, clock_s=lambda: now_s)
    least_s = timing.least_confirm_s(SLOW, FAST)
    assert 90.0 < least_s < 120.0
    now_s = 131.0 - least_s
    end_s, text = timing.search_end(SLOW, FAST, FAST)
    # The shortest confirmation takes more than the usual reserve, and may exceed the limit by a tenth.
    assert end_s == pytest.approx(132.0 - least_s - FAST.compile_s) and end_s < 120.0 - timing.reserve_s(SLOW, FAST)
    assert "confirm" in text
    now_s = 133.0 - least_s
    end_s, text = timing.search_end(SLOW, FAST, FAST)
    assert end_s == 120.0 - FRESH_PROCESS_S and "to the end" in text
    # A leader that compiles quickly can be confirmed later.
    quick = scored(0.02, 1.0)
    assert timing.search_end(SLOW, FAST, quick)[0] == pytest.approx(120.0 - timing.reserve_s(SLOW, FAST))
    # Without a confirmation, nothing is kept for one in any case.
    unconfirmed = plan(120.0, repetitions=0, clock_s=lambda: 110.0)
    assert unconfirmed.search_end(SLOW, FAST, FAST)[0] == 120.0 - unconfirmed.reserve_s(SLOW, FAST)


def test_no_time_in_the_plan_is_negative() -> None:
    beside: Any = SimpleNamespace(processes=4, export_s=0.0, process_s=lambda _: 10.0)
    planned = replace(plan(120.0, repetitions=0), beside=beside, earlier_s=110.0)
    assert planned.rivals_s(FAST) == 20.0
    assert "confirm 0 s, other engines 20 s" in planned.search_end(SLOW, FAST, FAST)[1]


def repetitions_in(reserve_s: float, timing: TimePlan) -> float:
    return (reserve_s - SHORTLIST_S) / timing.repetition_s(SLOW, FAST)


def test_a_far_faster_winner_gets_three_repetitions_where_time_allows() -> None:
    long, short = plan(1200.0), plan(450.0)
    further_s = long.compiles_s(SLOW, FAST)  # a fourth compile, for the compile time only
    assert repetitions_in(long.reserve_s(SLOW, FAST) - further_s, long) == pytest.approx(3)
    assert repetitions_in(short.reserve_s(SLOW, FAST), short) == pytest.approx(2)


@pytest.mark.parametrize(("latency_s", "inferences"), [(30.0, 2), (2.9, 4)])
def test_a_process_runs_baseline_and_twin_once_where_that_takes_a_whole_race(latency_s: float, inferences: int) -> None:
    slow = scored(latency_s, 1.0)
    timing_s = plan(1200.0).repetition_s(slow, slow) - plan(1200.0).compiles_s(slow, slow)
    assert timing_s == pytest.approx(max(20.0, 2 * (FRESH_PROCESS_S + inferences * latency_s)))


@pytest.mark.parametrize(("latency_s", "processes", "baseline_s"), [(30.0, 1, 30.0), (2.0, 2, 8.0)])
def test_a_baseline_that_is_far_slower_than_the_winner_has_few_processes_and_no_twin(
    latency_s: float, processes: int, baseline_s: float
) -> None:
    slow, fast = scored(latency_s, 1.0), scored(0.02, 1.0)
    timing_s = plan(1200.0).repetition_s(slow, fast) - plan(1200.0).compiles_s(slow, fast)
    assert timing_s == pytest.approx(processes * (FRESH_PROCESS_S + baseline_s) + 20.0)
    compiling = plan(1200.0).repetition_s(slow, scored(0.02, 41.0)) - plan(1200.0).repetition_s(slow, fast)
    assert compiling == pytest.approx(40.0 + 28.0), "the others are timed for as long as it compiles"
    by_compile_time = plan(1200.0, objective="compile_time")
    assert by_compile_time.repetition_s(slow, fast) == by_compile_time.repetition_s(slow, slow)


def test_a_very_slow_baseline_has_one_process_only_beside_a_far_faster_winner() -> None:
    slow = scored(47.0, 1.0)
    two_s, one_s = (plan(1200.0).repetition_s(slow, scored(latency_s, 1.0)) for latency_s in (15.0, 0.1))
    assert two_s - one_s == pytest.approx(FRESH_PROCESS_S + 47.0)


def test_processes_that_load_a_large_network_take_longer() -> None:
    # GPT-2: 2.6 s for each of three artifacts, in two processes of the winner's and one of the baseline.
    slow, fast = scored(47.0, 11.0, 650_000_000), scored(0.11, 13.0, 650_000_000)
    timing_s = plan(1200.0).repetition_s(slow, fast) - plan(1200.0).compiles_s(slow, fast)
    start_s = FRESH_PROCESS_S + 3 * 2.6
    assert timing_s == pytest.approx((start_s + 47.0) + 2 * (start_s + 6.0))
    small = replace(fast, built=replace(fast.built, bytes=0))
    reserve_s, small_s = plan(1200.0, 0).reserve_s(slow, fast), plan(1200.0, 0).reserve_s(slow, small)
    assert reserve_s - small_s == pytest.approx(MeasurementPlans().processes * 4 * 2.6)


def test_a_far_slower_baseline_of_milliseconds_is_timed_in_the_processes_of_the_winner() -> None:
    quick, fast = scored(0.005, 1.0), scored(0.0008, 1.0)
    assert plan(1200.0).repetition_s(quick, fast) == plan(1200.0).repetition_s(quick, quick)


def test_the_windows_of_energy_are_part_of_a_repetition() -> None:
    windows_s = plan(1200.0, objective="energy").repetition_s(SLOW, SLOW) - plan(1200.0).repetition_s(SLOW, SLOW)
    assert windows_s == pytest.approx(62, abs=1), "three windows of 5 s for each of three artifacts"


def test_a_meter_is_read_once_for_another_objective() -> None:
    plain = plan(1200.0)
    windows = MeasurementPlans().search_windows
    once_s = replace(plain, has_meter=True).reserve_s(SLOW, FAST) - plain.reserve_s(SLOW, FAST)
    assert once_s == pytest.approx(3 * windows.windows * (windows.window_s + 1.25 * windows.settle_s))
    assert replace(plan(1200.0, repetitions=0), has_meter=True).once_s() == 0
    assert replace(plan(1200.0, objective="energy"), has_meter=True).once_s() == 0


def test_a_search_without_a_fast_winner_leaves_its_usual_share() -> None:
    assert plan(1200.0).reserve_s(SLOW, SLOW) == pytest.approx(0.4 * 1200.0)


def test_the_search_keeps_a_part_of_the_shortest_limit() -> None:
    assert plan(60.0).reserve_s(SLOW, SLOW) == pytest.approx(0.6 * 60.0)


def test_an_unconfirmed_run_leaves_the_time_of_a_shortlist_only() -> None:
    unconfirmed = plan(1200.0, repetitions=0)
    assert unconfirmed.reserve_s(SLOW, FAST) == unconfirmed.reserve_s(SLOW, SLOW) == SHORTLIST_S


def test_a_run_without_a_limit_prints_the_shortest_and_the_longest_confirmation() -> None:
    assert (
        plan(math.inf, clock_s=lambda: 30.0).estimate(SLOW)
        == "no time limit: search up to 20 min, confirm 5 min to 14 min"
    )


def test_the_search_leaves_time_to_measure_the_winner_beside_other_engines() -> None:
    beside: Any = SimpleNamespace(processes=3, export_s=0.0, process_s=lambda latency_s: 10.0 + latency_s)
    alone, timing = plan(1200.0), replace(plan(1200.0), beside=beside)
    assert timing.reserve_s(SLOW, FAST) - alone.reserve_s(SLOW, FAST) == pytest.approx(30.06)
    (end_s, text), (end_alone_s, text_alone) = timing.search_end(SLOW, FAST, FAST), alone.search_end(SLOW, FAST, FAST)
    assert end_s == pytest.approx(end_alone_s - 30.06)
    confirmed = text_alone.partition("confirm ")[2]
    assert text.endswith(f"confirm {confirmed}, other engines 30 s")
    assert timing.estimate(FAST).endswith(", other engines 30 s") and "engines" not in alone.estimate(FAST)
    # The shortlist keeps out of that time, too.
    late, late_alone = (replace(each, time_limit=TimeLimit(1200.0, lambda: 1020.0)) for each in (timing, alone))
    assert late.shortlist_processes(SLOW, [FAST]) < late_alone.shortlist_processes(SLOW, [FAST])
    # Where nothing can be confirmed, it is kept all the same.
    hopeless = replace(timing, time_limit=TimeLimit(1200.0, lambda: 1290.0))
    assert hopeless.search_end(SLOW, FAST, FAST)[0] == pytest.approx(1200.0 - FRESH_PROCESS_S - 30.06)
