"""Regions and kernels get what they run fastest with, and the sum over kernels decides."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest
from time_limits import time_left

from passsearch.catalog import load
from passsearch.core import Candidate, Failure, PassSpec, Pipeline, TimeLimit
from passsearch.dialects.contract import Kernel
from passsearch.evaluate import NetworkKernels, PlaceTimes, Region
from passsearch.search.composition import Composer, has_kernel_schedules
from passsearch.search.composition_records import Composition, Decision
from passsearch.search.decision_choice import choose
from passsearch.search.kernel_times import KernelTimes

BEGIN = Pipeline.parse("ConvertLayout,LegalizeOps,FuseTIR,ScheduleCPU")
ENTRIES = [load("relax").entry(name) for name in ("Winograd", "ScheduleCPU")]


class TableProfiler:
    """Two convolutions of one kind and one of another; tiles of 4 pay for the first kind only."""

    def __init__(self, schedules: Mapping[str, Mapping[str, float]]) -> None:
        self.schedules = schedules
        self.timed: list[tuple[str, str]] = []
        self.recorded: Sequence[tuple[str, str]] = ()

    def reach(self, pipeline: Pipeline) -> str | Failure:
        return str(pipeline)

    def regions(self, state: str, function: str) -> tuple[Region, ...] | Failure:
        return Region("0", "large"), Region("1", "large"), Region("2", "small")

    def kernels(self, state: str) -> NetworkKernels | Failure:
        steps = Pipeline.parse(state).passes
        arguments = next((step.argument_values for step in steps if step.name == "Winograd"), {})
        sizes, size = arguments.get("convolutions", {}), arguments.get("size", 0)
        assert isinstance(sizes, dict)
        large = f"large{sizes.get('0', size)}"
        kernels = [(large, 2), (f"small{sizes.get('2', size)}", 1)]
        return NetworkKernels(state, tuple(Kernel(name, name, calls, 1000, 10, False) for name, calls in kernels), 0)

    def variants(
        self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec]
    ) -> Mapping[PassSpec, float] | Failure:
        self.timed += [(kernel.name, str(step)) for step in steps]
        times = self.schedules.get(kernel.name, {})
        timed = {step: times[str(step)] for step in steps if str(step) in times}
        return timed or Failure("infra", "measure", "", "no time")

    def is_timed(self, network: NetworkKernels, kernel: Kernel, step: PassSpec) -> bool:
        return (kernel.name, str(step)) in self.recorded

    def time_ahead(self, network: NetworkKernels, kernels: Sequence[Kernel], steps: Sequence[PassSpec]) -> bool:
        return False

    def stop_time_ahead(self) -> None: ...

    def in_places(
        self, candidates: Sequence[Candidate], *, deadline_s: float = math.inf, is_judged: bool = True
    ) -> tuple[PlaceTimes, ...]:
        return ()


class NetworkProfiler(TableProfiler):
    """A profiler of a network in which kernels take other times than alone, by the setting of ``rows``."""

    def __init__(self, schedules: Mapping[str, Mapping[str, float]], places: Mapping[str, Mapping[int, float]]) -> None:
        super().__init__(schedules)
        self.places = places
        self.built: list[str] = []

    def in_places(
        self, candidates: Sequence[Candidate], *, deadline_s: float = math.inf, is_judged: bool = True
    ) -> tuple[PlaceTimes, ...]:
        self.built += [str(candidate.pipeline) for candidate in candidates]
        times = (self._times(candidate.pipeline) for candidate in candidates)
        return tuple(PlaceTimes(each, (1.08 * sum(each.values()), 1.12 * sum(each.values()))) for each in times)

    def _times(self, pipeline: Pipeline) -> dict[str, float]:
        network = self.kernels(str(pipeline))
        assert isinstance(network, NetworkKernels)
        settings = cast("dict[str, dict[str, int]]", pipeline.passes[-1].argument_values.get("kernels") or {})
        rows = {kernel.name: settings.get(kernel.name, {}).get("rows", 0) for kernel in network.kernels}
        return {kernel.name: kernel.calls * self.places[kernel.name][rows[kernel.name]] for kernel in network.kernels}


def composition_of(
    profiler: TableProfiler, begin: Pipeline = BEGIN, *, left_s: Callable[[], float] = lambda: math.inf
) -> Composition:
    composition = Composer(profiler, ENTRIES, time_limit=time_left(left_s)).compose(begin)  # type: ignore[arg-type]
    assert isinstance(composition, Composition)
    return composition


def compose(profiler: TableProfiler) -> str:
    return str(composition_of(profiler).pipeline)


TIMES = {
    "large0": {"ScheduleCPU": 5.0},
    "large2": {"ScheduleCPU": 4.0},
    "large4": {"ScheduleCPU": 3.0},
    "small0": {"ScheduleCPU": 2.0},
    "small2": {"ScheduleCPU": 2.5},
    "small4": {"ScheduleCPU": 2.1},
}


def test_regions_of_one_kind_share_the_value_that_saves_most_and_others_stay_as_they_are() -> None:
    composed = compose(TableProfiler(TIMES))
    assert composed == 'ConvertLayout,Winograd{convolutions={"0":4,"1":4}},LegalizeOps,FuseTIR,ScheduleCPU'


def test_a_sequence_that_decides_on_all_regions_alike_is_decided_on_again_one_by_one() -> None:
    alike = Pipeline.parse("ConvertLayout,Winograd{size=4},LegalizeOps,FuseTIR,ScheduleCPU")
    composition = composition_of(TableProfiler(TIMES), alike)
    expected = 'ConvertLayout,Winograd{convolutions={"0":4,"1":4}},LegalizeOps,FuseTIR,ScheduleCPU'
    assert str(composition.pipeline) == expected
    slow = {**TIMES, "small0": {"ScheduleCPU": 9.0}, "small2": {}, "large0": {}}
    kept = composition_of(TableProfiler(slow), alike)
    assert kept.pipeline == alike


def test_a_sequence_that_decides_on_all_regions_alike_to_their_loss_gives_way_to_none() -> None:
    alike = Pipeline.parse("ConvertLayout,Winograd{size=4},LegalizeOps,FuseTIR,ScheduleCPU")
    losing = {**TIMES, "large2": {}, "large4": {"ScheduleCPU": 6.0}}
    composition = composition_of(TableProfiler(losing), alike)
    assert composition.decisions == ()
    assert composition.predicted_s == composition.bound_s == 2 * 5.0 + 2.0


def test_every_kernel_gets_its_fastest_schedule_and_differences_within_the_noise_are_ignored() -> None:
    schedules = {"ScheduleCPU": 3.0, "ScheduleCPU{rows=8}": 2.99, "ScheduleCPU{keep_weights=true,rows=8}": 1.5}
    small = {"ScheduleCPU": 2.0, "ScheduleCPU{vectors=1}": 1.97}
    composed = compose(TableProfiler({**TIMES, "large4": schedules, "small0": small}))
    assert composed.endswith('ScheduleCPU{kernels={"large4":{"keep_weights":true,"rows":8}}}')


def test_a_sequence_that_schedules_single_kernels_is_composed_again() -> None:
    named = Pipeline.parse('ConvertLayout,LegalizeOps,FuseTIR,ScheduleCPU{kernels={"large0":{"rows":8}}}')
    times = {"large0": {"ScheduleCPU": 3.0, "ScheduleCPU{rows=8}": 1.5}, "small0": {"ScheduleCPU": 2.0}}
    composition = composition_of(TableProfiler({**TIMES, **times, "large2": {}, "large4": {}}), named)
    assert composition.pipeline == named
    assert composition.predicted_s == 2 * 1.5 + 2.0


def test_schedules_are_timed_for_kernels_that_lose_time_against_the_fastest_arithmetic() -> None:
    profiler = TableProfiler({**TIMES, "small0": {"ScheduleCPU": 1e-4}})
    compose(profiler)
    tried = {name for name, step in profiler.timed if step != "ScheduleCPU"}
    assert tried == {"large4"}


def test_a_value_that_fails_on_a_region_is_not_used() -> None:
    composed = compose(TableProfiler({**TIMES, "large4": {}}))
    assert '{"0":2,"1":2}' in composed


def test_nothing_is_composed_without_time_and_the_reason_is_an_outcome() -> None:
    composer = Composer(TableProfiler(TIMES), ENTRIES, time_limit=TimeLimit(0.0))  # type: ignore[arg-type]
    failure = composer.compose(BEGIN)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.reason) == ("timeout", "the search ended before all kernels were timed once")


def test_a_kernel_without_a_schedule_that_runs_is_named() -> None:
    profiler = TableProfiler({**TIMES, "large0": {}})
    failure = Composer(profiler, ENTRIES, time_limit=TimeLimit()).compose(BEGIN)  # type: ignore[arg-type]
    assert isinstance(failure, Failure) and failure.kind == "infra" and "`large0`" in failure.reason


def test_only_pipelines_with_a_pass_that_schedules_decide_on_kernels() -> None:
    assert has_kernel_schedules(BEGIN, ENTRIES) and not has_kernel_schedules(Pipeline.parse("LegalizeOps"), ENTRIES)


class GpuProfiler(TableProfiler):
    """A profiler whose kernels are timed ahead, which takes all the time there is."""

    def __init__(self, schedules: Mapping[str, Mapping[str, float]]) -> None:
        super().__init__(schedules)
        self.left_s, self.stopped = 100.0, False

    def time_ahead(self, network: NetworkKernels, kernels: Sequence[Kernel], steps: Sequence[PassSpec]) -> bool:
        if len(steps) > 1:
            self.left_s = 0.0
        return True

    def stop_time_ahead(self) -> None:
        self.stopped = True


def test_what_was_timed_ahead_counts_though_no_time_is_left() -> None:
    schedules = {"ScheduleCPU": 3.0, "ScheduleCPU{keep_weights=true,rows=8}": 1.5}
    profiler = GpuProfiler({**TIMES, "large4": schedules})
    composition = composition_of(profiler, left_s=lambda: profiler.left_s)
    assert (
        str(composition.pipeline).endswith('{kernels={"large4":{"keep_weights":true,"rows":8}}}') and profiler.stopped
    )


def test_what_an_earlier_start_has_timed_counts_though_no_time_is_left() -> None:
    profiler = TableProfiler({**TIMES, "large4": {"ScheduleCPU": 3.0, "ScheduleCPU{keep_weights=true,rows=8}": 1.5}})
    first = composition_of(profiler)
    again = TableProfiler(profiler.schedules)
    again.recorded = profiler.timed
    assert composition_of(again, left_s=lambda: 0.0) == first


def test_schedules_leave_time_to_time_kernels_in_their_places() -> None:
    profiler = NetworkProfiler(TIMES, {name: {0: seconds["ScheduleCPU"]} for name, seconds in TIMES.items()})
    # Less than the schedules of one kernel take. After two parts of them 16 are left, less than three tenths of 56.
    composition = composition_of(profiler, left_s=lambda: 56 - len(profiler.timed))
    assert len(profiler.timed) > 30
    assert profiler.built and composition.inference_s is not None


def test_values_that_were_timed_before_the_time_is_up_are_used() -> None:
    profiler = TableProfiler(TIMES)
    composition = composition_of(profiler, left_s=lambda: 4 - len(profiler.timed))
    assert '{"0":4,"1":4}' in str(composition.pipeline)
    assert "small2" not in {name for name, _ in profiler.timed}


def test_the_clock_is_read_more_often_in_the_last_seconds() -> None:
    profiler = TableProfiler({})
    kernel = Kernel("large0", "large0", 1, 1000, 10, False)
    steps = Pipeline.parse(",".join(f"ScheduleCPU{{rows={rows}}}" for rows in range(1, 61))).passes
    times = KernelTimes(profiler, left_s=lambda: 40.0 - len(profiler.timed))  # type: ignore[arg-type]
    times.take(NetworkKernels("", (kernel,), 0), kernel, steps)
    # The first 16 and, each time beside the first one again, 16, 4 and 4 others; then no second is left.
    assert len(profiler.timed) == 16 + 17 + 5 + 5


def test_a_value_that_failed_needs_no_time_again() -> None:
    times = {**TIMES, "large4": {}, "small4": {"ScheduleCPU": 1.0}}
    profiler = NetworkProfiler(times, {name: {0: seconds["ScheduleCPU"]} for name, seconds in times.items() if seconds})
    composition = composition_of(profiler, left_s=lambda: 0 if profiler.built else math.inf)
    assert '{"0":2,"1":2,"2":4}' in str(composition.pipeline)
    assert profiler.built, "the time ended after the first kernels were timed in their places"


class Interfering(TableProfiler):
    """With tiles of 4 in both kinds, which save time one by one, another kernel appears."""

    def kernels(self, state: str) -> NetworkKernels | Failure:
        network = super().kernels(state)
        assert not isinstance(network, Failure)
        names = {kernel.name for kernel in network.kernels}
        extra = Kernel("joined", "joined", 1, 0, 10, False)
        return NetworkKernels(state, (*network.kernels, extra), 0) if names == {"large4", "small4"} else network


def test_values_that_cost_time_together_are_not_used() -> None:
    times = {**TIMES, "small4": {"ScheduleCPU": 1.0}, "joined": {"ScheduleCPU": 50.0}}
    composed = compose(Interfering(times))
    assert composed == str(BEGIN)


def test_where_the_time_ends_after_kernels_were_timed_in_their_places_the_composition_so_far_is_used() -> None:
    class InterferingNetwork(Interfering, NetworkProfiler):
        """Small tiles pay once the network was run, and lead to a kernel that nobody has timed alone."""

    places = {"large0": {0: 5.0}, "large4": {0: 3.0}, "small0": {0: 9.0}}
    profiler = InterferingNetwork({**TIMES, "joined": {"ScheduleCPU": 0.1}}, places)
    composition = composition_of(profiler, left_s=lambda: 0 if profiler.built else math.inf)
    assert '{"0":4,"1":4}' in str(composition.pipeline)
    assert profiler.built and "joined" not in {name for name, _ in profiler.timed}


def test_the_prediction_is_the_sum_over_calls() -> None:
    composition = composition_of(TableProfiler(TIMES))
    assert (composition.begin_s, composition.predicted_s) == (pytest.approx(12.0), pytest.approx(8.0))
    assert composition.kernels == 6
    # Three values for each of two kinds, and one schedule that runs for each of the two kernels.
    assert composition.combinations == pytest.approx(0.954, abs=1e-3)


def test_a_prediction_counts_calls_by_the_weight_of_their_case() -> None:
    class Weighted(TableProfiler):
        """A network of two cases, of which the one that calls the large kernel has a tenth of the weight."""

        def kernels(self, state: str) -> NetworkKernels | Failure:
            network = super().kernels(state)
            assert not isinstance(network, Failure)
            weights = (0.1, 0.9)
            kernels = zip(network.kernels, weights, strict=True)
            return NetworkKernels(state, tuple(replace(each, calls=weight * each.calls) for each, weight in kernels), 0)

    composition = composition_of(Weighted(TIMES))
    assert composition.begin_s == pytest.approx(0.1 * 2 * 5.0 + 0.9 * 2.0)
    assert composition.predicted_s == pytest.approx(0.1 * 2 * 3.0 + 0.9 * 2.0)


def decision(name: str, saved_s: float, replaced: Mapping[str, int], *, value: int = 1) -> Decision:
    return Decision("Cut", (name,), value, saved_s, replaced)


SCHEDULES = {
    "large0": {
        "ScheduleCPU": 5.0,
        "ScheduleCPU{keep_weights=true,rows=8}": 4.0,
        "ScheduleCPU{keep_weights=true,rows=14}": 4.5,
    },
    "small0": {"ScheduleCPU": 2.0},
}


def test_a_schedule_that_is_fast_alone_and_slow_in_its_place_is_not_used() -> None:
    profiler = NetworkProfiler(SCHEDULES, {"large0": {0: 5.0, 8: 6.0, 14: 4.4}, "small0": {0: 2.0}})
    assert compose(profiler) == f'{BEGIN}{{kernels={{"large0":{{"keep_weights":true,"rows":14}}}}}}'
    assert profiler.built == [
        str(BEGIN),
        f'{BEGIN}{{kernels={{"large0":{{"keep_weights":true,"rows":8}}}}}}',
        str(BEGIN),
        f'{BEGIN}{{kernels={{"large0":{{"keep_weights":true,"rows":14}}}}}}',
    ]


def test_a_value_of_a_region_that_is_slow_in_its_place_is_not_used() -> None:
    places = {"large0": {0: 5.0}, "large2": {0: 4.6}, "large4": {0: 6.0}, "small0": {0: 2.0}}
    assert compose(NetworkProfiler(TIMES, places)) == compose(TableProfiler({**TIMES, "large4": {}}))


def test_the_prediction_is_compared_with_the_schedule_of_the_pipeline_before() -> None:
    profiler = NetworkProfiler(SCHEDULES, {"large0": {0: 5.0, 8: 4.2, 14: 4.4}, "small0": {0: 2.0}})
    composition = composition_of(profiler)
    assert (composition.begin_s, composition.predicted_s) == (pytest.approx(12.0), pytest.approx(10.4))


def test_a_whole_inference_is_predicted_from_what_those_of_the_timed_networks_took_beside_their_kernels() -> None:
    profiler = NetworkProfiler(SCHEDULES, {"large0": {0: 5.0, 8: 4.2, 14: 4.4}, "small0": {0: 2.0}})
    composition = composition_of(profiler)
    assert composition.inference_s is not None
    value, interval = composition.inference_s
    assert value == pytest.approx(10.4 * (1.08 * 1.12) ** 0.5)
    assert 10.4 < interval.low < 10.4 * 1.08 and 10.4 * 1.12 < interval.high < 10.4 * 1.2
    untimed = composition_of(TableProfiler(TIMES))
    assert untimed.inference_s is None and untimed.stated(recalled=0).inference_s is None


def test_only_schedules_that_were_timed_in_their_places_are_used() -> None:
    rows = (8, 14, 16)
    schedules = {f"ScheduleCPU{{keep_weights=true,rows={number}}}": 4.0 - 0.1 * number for number in rows}
    times = {"large0": {"ScheduleCPU": 5.0, **schedules}, "small0": {"ScheduleCPU": 2.0}}
    slow_in_its_place = {"large0": {0: 5.0, 8: 5.2, 14: 5.2, 16: 5.2}, "small0": {0: 2.0}}
    profiler = NetworkProfiler(times, slow_in_its_place)
    composition = composition_of(profiler)
    assert composition.pipeline == BEGIN
    # The third schedule was timed alone only, so it is not chosen, and nothing says that it is slower.
    assert composition.bound_s < composition.predicted_s


def test_a_value_of_a_region_that_was_never_timed_in_its_place_is_not_used() -> None:
    first, second = "ScheduleCPU{keep_weights=true,rows=8}", "ScheduleCPU{keep_weights=true,rows=14}"
    times = {
        **{name: {"ScheduleCPU": seconds} for name, seconds in (("large0", 9.0), ("large2", 3.1))},
        "large4": {"ScheduleCPU": 3.0, first: 2.0, second: 2.1},
        **{name: {"ScheduleCPU": seconds} for name, seconds in (("small0", 1.0), ("small2", 1.5), ("small4", 2.0))},
    }
    places = {"large0": {0: 9.0}, "large2": {0: 6.0}, "large4": {0: 3.3, 8: 5.0, 14: 5.0}, "small0": {0: 1.0}}
    profiler = NetworkProfiler(times, {**places, "small2": {0: 1.5}, "small4": {0: 2.0}})
    begin = Pipeline.parse("ConvertLayout,Winograd{size=4},LegalizeOps,FuseTIR,ScheduleCPU")
    composition = composition_of(profiler, begin)
    # Alone, tiles of 2 are nearly as fast as those of 4, whose two schedules were slow in their places.
    assert '"0":2' not in str(composition.pipeline)
    assert composition.predicted_s == pytest.approx(sum(profiler._times(composition.pipeline).values()))
    assert composition.bound_s < composition.predicted_s, "nothing says that they are slower"


def test_values_that_were_timed_in_their_places_are_used_though_those_of_the_plain_pipeline_were_not() -> None:
    seconds = {"large0": 9.0, "large2": 5.0, "large4": 3.0, "small0": 4.0, "small2": 1.0, "small4": 2.0}
    profiler = NetworkProfiler(
        {name: {"ScheduleCPU": value} for name, value in seconds.items()},
        {name: {0: value} for name, value in seconds.items()},
    )
    begin = Pipeline.parse("ConvertLayout,Winograd{size=4},LegalizeOps,FuseTIR,ScheduleCPU")
    composition = composition_of(profiler, begin)
    assert '{"0":4,"1":4,"2":2}' in str(composition.pipeline)
    assert composition.predicted_s == composition.bound_s == pytest.approx(7.0)


def test_of_decisions_that_replace_the_same_call_the_best_set_is_chosen() -> None:
    both = decision("a", 5.0, {"k": 1, "l": 1})
    first, second = decision("b", 3.0, {"k": 1}), decision("c", 3.0, {"l": 1})
    assert choose([both, first, second], {"k": 1, "l": 1}) == [first, second]
    assert choose([both, first, second], {"k": 2, "l": 2}) == [both, first, second]


def test_savings_of_nanoseconds_are_chosen_as_those_of_seconds_are() -> None:
    both = decision("a", 5e-9, {"k": 1, "l": 1})
    first, second = decision("b", 3e-9, {"k": 1}), decision("c", 3e-9, {"l": 1})
    assert choose([both, first, second], {"k": 1, "l": 1}) == [first, second]


def test_a_region_gets_one_value() -> None:
    small, large = decision("a", 1.0, {"k": 1}, value=2), decision("a", 2.0, {"k": 1}, value=4)
    assert choose([small, large], {"k": 9}) == [large]
    assert choose([], {}) == []


def test_the_bound_is_lower_than_the_prediction_by_the_gains_that_are_left_out_as_noise() -> None:
    schedules = {"ScheduleCPU": 3.0, "ScheduleCPU{keep_weights=true,rows=8}": 2.99}  # 0.3 %, called twice
    profiler = TableProfiler({**TIMES, "large4": schedules, "small4": {"ScheduleCPU": 1.9995}})  # 0.0005 of 8 saved
    composition = composition_of(profiler)
    assert composition.predicted_s == pytest.approx(8.0)
    assert composition.predicted_s - composition.bound_s == pytest.approx(2 * 0.01 + 0.0005)
