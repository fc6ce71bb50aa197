"""Variants of a kernel run in turns, and those that are far slower leave early; networks run in turns, too."""

import pytest

from passsearch.measure import kernels
from passsearch.measure.kernels import PlacePlan, Places, VariantPlan, profile_networks, time_places, time_variants


class Clock:
    """A clock that only kernels advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class TimedKernel:
    """A kernel that takes a certain time."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self.digest, self.seconds, self.clock, self.runs = str(seconds), seconds, clock, 0

    def build(self) -> None: ...

    def run(self) -> None:
        self.runs += 1
        self.clock.now += self.seconds

    def event_time_s(self) -> None: ...

    def outputs(self) -> list[object]:
        return []


def test_the_fastest_run_counts_and_far_slower_variants_leave_after_the_first_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(kernels, "time", clock)
    fast, near, slow = (TimedKernel(seconds, clock) for seconds in (0.004, 0.0042, 0.02))
    plan = VariantPlan(first_rounds=2, rounds=6, margin=2.0, attempts=1)
    samples, _ = time_variants([slow, fast, near], plan)  # type: ignore[list-item]
    assert [min(runs) for runs in samples] == [pytest.approx(kernel.seconds) for kernel in (slow, fast, near)]
    assert [len(runs) for runs in samples] == [2, 6, 6]
    # Every variant runs once before the rounds.
    assert (slow.runs, fast.runs, near.runs) == (3, 7, 7)


def test_events_of_a_device_replace_the_clock() -> None:
    class OnDevice(TimedKernel):
        def event_time_s(self) -> float:  # type: ignore[override]
            return self.seconds

    plan = VariantPlan(first_rounds=1, rounds=2, attempts=1)
    assert time_variants([OnDevice(0.5, Clock())], plan) == ([[0.5, 0.5]], False)  # type: ignore[list-item]


def test_no_variant_is_no_time() -> None:
    assert time_variants([], VariantPlan(attempts=1)) == ([], False)


class ScriptedNetwork:
    """A network with two kernels, whose whole inference takes longer than both.

    The first run of every turn finds cold caches.
    """

    def __init__(self, clock: Clock, *, names: tuple[str, ...] = ("dense", "add"), runs_in_turn: int = 2) -> None:
        self.clock, self.names, self.runs_in_turn, self.runs, self.inferences = clock, names, runs_in_turn, 0, 0

    def run(self, _: object) -> list[object]:
        return []

    def run_by_kernel(self, _: object, *, with_runtime: bool) -> list[tuple[str, float]] | None:
        assert not with_runtime
        self.runs += 1
        # The run before the first turn is cold as well.
        is_cold = self.runs == 1 or (self.runs - 2) % self.runs_in_turn == 0
        return [(name, 4.0 if is_cold else 1.0 + place) for place, name in enumerate(self.names)]

    def run_repeatedly(self, number: int) -> None:
        self.inferences += number
        self.clock.now += 20.0 if self.inferences == 1 else 3.0 * len(self.names)


PLAN = PlacePlan(rounds=3, least_rounds=3, runs=2, attempts=1)


def test_a_kernel_in_its_place_is_timed_with_the_caches_that_its_own_network_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(kernels, "time", clock)
    networks = [ScriptedNetwork(clock), ScriptedNetwork(clock, names=("dense", "dense", "add"))]
    assert time_places(networks, PLAN, inputs={}) == [  # type: ignore[arg-type]
        Places({"dense": 1.0, "add": 2.0}, 6.0),
        Places({"dense": 1.0 + 2.0, "add": 3.0}, 9.0),
    ]
    assert [network.runs for network in networks] == [1 + 3 * 2] * 2


def test_a_runtime_that_does_not_tell_kernels_apart_has_no_times_in_places() -> None:
    class Whole(ScriptedNetwork):
        def run_by_kernel(self, _: object, *, with_runtime: bool) -> None:
            return None

    assert time_places([Whole(Clock())], PLAN, inputs={}) == [None]  # type: ignore[list-item]


class ObservedNetwork(ScriptedNetwork):
    """A network of two calls; its first run of each kind is cold.

    In its last run the first call is at its fastest, and the inference is not.
    """

    def run_by_kernel(self, _: object, *, with_runtime: bool) -> list[tuple[str, float]]:
        assert with_runtime
        self.runs += 1
        if self.runs == 1 + PLAN.rounds * PLAN.runs:
            return [("runtime.alloc", 0.25), ("dense", 4.0)]
        return [("runtime.alloc", 0.5), ("dense", 9.0 if self.runs == 1 else 2.0)]


def test_a_profile_has_the_fastest_inference_observed_and_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(kernels, "time", clock)
    networks = [ObservedNetwork(clock), ObservedNetwork(clock)]
    for profile in profile_networks(networks, PLAN, inputs={}):  # type: ignore[arg-type]
        assert profile.calls == [("runtime.alloc", 0.5), ("dense", 2.0)]
        assert profile.whole_s == pytest.approx(6.0)
    assert [network.runs for network in networks] == [1 + 3 * 2] * 2


def test_a_profile_has_the_whole_inference_where_calls_are_not_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(kernels, "time", clock)
    network = ObservedNetwork(clock)
    monkeypatch.setattr(network, "run_by_kernel", lambda *_, **__: None)
    (profile,) = profile_networks([network], PLAN, inputs={})  # type: ignore[list-item]
    assert profile.calls is None and profile.whole_s == pytest.approx(6.0)
