"""The number of timing processes a decision rests on; a scripted pool says how long each took."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from passsearch.core import Candidate, Failure, ModuleSummary
from passsearch.evaluate import (
    Built,
    Evaluator,
    FreshCompile,
    MeasurementPlans,
    Network,
    NetworkProfile,
    Session,
    TimedArtifacts,
    TimingRequest,
)
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.timing import Timing
from passsearch.measure import PlacePlan, RoundPlan, Sensors
from passsearch.objectives import THROUGHPUT
from passsearch.search import Pairing, confirm
from passsearch.store import Fact

SESSION = cast(Session, SimpleNamespace(sensors=Sensors({}, {}), device="cpu", plans=MeasurementPlans()))
NETWORK = Network("root", {}, ModuleSummary((), ()))


class ScriptedPool:
    """Every process takes the same time."""

    def __init__(self, wall_s: float) -> None:
        self._wall_s = wall_s

    def ask_new(self, _: str, request: dict[str, Any], **__: object) -> Fact:
        conditions = {"stack_spread": None}
        return {"samples": [[1.0]] * len(request["folders"]), "conditions": conditions, "wall_s": self._wall_s}


@pytest.mark.parametrize(
    ("compile_s", "processes"),
    [(0.0, 4), (2.0, 4), (33.0, 6), (1000.0, 9)],
    ids=["none", "quick", "slow", "endless"],
)
def test_timing_takes_twenty_seconds_or_as_long_as_compiling(compile_s: float, processes: int) -> None:
    timing = Timing(SESSION, network=NETWORK, pool=cast(WorkerPool, ScriptedPool(5.0)))
    artifacts = TimedArtifacts(Path("a"), (Path("b"),))
    timed = timing.in_several(TimingRequest("key", artifacts, RoundPlan(), least_s=compile_s))
    assert len(timed["processes"]) == len(timed["conditions"]) == processes
    assert timed["wall_s"] == 5.0 * processes


class PlacesPool:
    """Knows kernels of artifacts by folder; each process is slower than the last one."""

    def __init__(self) -> None:
        self._processes = 0

    def ask_new(self, _: str, request: dict[str, Any], **__: object) -> Fact:
        self._processes += 1
        kernels = [{folder: 1.0 * self._processes, "add": 2.0 / self._processes} for folder in request["folders"]]
        return {"places": [{"kernels": each, "whole_s": 5.0 * self._processes} for each in kernels], "wall_s": 1.0}


def test_a_kernel_in_its_place_has_the_time_of_the_fastest_process() -> None:
    timing = Timing(SESSION, network=NETWORK, pool=cast(WorkerPool, PlacesPool()))
    fact = timing.in_places(["a", "b"], PlacePlan(processes=2))
    whole_s = [[5.0, 10.0], [5.0, 10.0]]
    assert fact == {"kernels": [{"a": 1.0, "add": 1.0}, {"b": 1.0, "add": 1.0}], "whole_s": whole_s}


def test_kernels_are_timed_in_one_process_where_no_time_is_left_for_two() -> None:
    timing = Timing(SESSION, network=NETWORK, pool=cast(WorkerPool, PlacesPool()))
    fact = timing.in_places(["a", "b"], PlacePlan(processes=2), deadline_s=0.0)
    assert fact["whole_s"] == [[5.0], [5.0]]


class CompilingEvaluator:
    """An evaluator whose compiles take a given time, and whose timing fails."""

    plans = MeasurementPlans()

    def __init__(self, *walls_s: float) -> None:
        self._walls_s, self.least_s = iter(walls_s), list[float]()

    def compile_fresh(self, key: str, *_: object, **__: object) -> FreshCompile:
        return FreshCompile(Path(key), key, 0.0, 0.0, next(self._walls_s))

    def time_fresh(self, request: TimingRequest) -> Failure:
        self.least_s.append(request.least_s)
        return Failure("infra", "measure", "", "nothing to time")

    def measure_consumption(self, *_: object, **__: object) -> None:
        return None


def test_a_repetition_has_as_many_processes_as_its_time_suffices_for() -> None:
    plans = MeasurementPlans(least_processes=2, most_processes=9, least_timing_s=20.0)
    assert plans.number_of_processes(5.0, 4.0) == 5
    assert plans.number_of_processes(5.0, 50.0) == 2
    assert plans.number_of_processes(5.0, 50.0, left_s=100.0) == 2
    assert plans.number_of_processes(5.0, 50.0, left_s=99.0) == 1


def test_a_confirmation_is_timed_for_as_long_as_it_compiled() -> None:
    evaluator, candidate = CompilingEvaluator(50.0, 7.0), Candidate()
    twin = Built("", candidate.build, "", Path("twin"), "", "", 0.0, 0, 0, 0)
    outcome = confirm(
        cast(Evaluator, evaluator),
        Pairing(candidate, candidate, twin, THROUGHPUT),
        repetitions=3,
        progress=lambda _: None,
    )
    assert isinstance(outcome, Failure)
    assert evaluator.least_s[-1] == 57.0


def test_the_calls_of_a_profile_are_those_of_the_process_with_the_fastest_inference() -> None:
    answers = [
        {"calls": [["dense", 1.0], ["add", 3.0]], "whole_s": 5.5, "weights": [1.0, 0.1]},
        {"calls": [["dense", 2.0], ["add", 2.5]], "whole_s": 4.5, "weights": [1.0, 0.1]},
    ]
    profile = NetworkProfile.from_answers(cast(Built, None), answers, {}, {})
    assert profile.calls == [("dense", 2.0), ("add", 2.5)]
    assert (profile.whole_s, profile.weights) == ((5.5, 4.5), (1.0, 0.1))


def test_one_process_without_calls_leaves_the_kernels_that_ran_alone() -> None:
    answers = [{"calls": None, "whole_s": 5.5}, {"calls": [["dense", 2.0]], "whole_s": 4.5, "weights": [1.0]}]
    alone = {
        "dense": {"calls": 2, "seconds": 3.0, "energy_j": 7.0},
        "add": {"calls": 1, "seconds": 0.5, "energy_j": None},
    }
    profile = NetworkProfile.from_answers(cast(Built, None), answers, {}, alone)
    assert profile.calls == [("dense", 1.5), ("dense", 1.5), ("add", 0.5)]
    assert profile.is_alone and profile.energy_j == {"dense": 7.0} and profile.weights == (1.0, 1.0, 1.0)
