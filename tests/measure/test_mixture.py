"""A network with several cases: its time is the mean by weights, its outputs are those of all cases."""

import copy
import pickle
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from passsearch.core import Case, CheckInputs, TensorType
from passsearch.dialects.case_inputs import random_inputs
from passsearch.dialects.contract import Array, Executable, KernelCalls
from passsearch.measure.kernels import PlacePlan, profile_networks, time_places
from passsearch.measure.mixture import Mixture, WeightedSeconds
from passsearch.measure.outputs import verify
from passsearch.measure.processor import CpuTimes
from passsearch.measure.rounds import RoundPlan, measure, run_race

ROW = TensorType((2,), "float32")
CASES = [
    Case("long", 0.25, "", "main_long", {"x": ROW}),
    Case("short", 0.75, "", "main_short", {"x": ROW}),
]
TYPES = {"long.x": ROW, "short.x": ROW}
SECONDS = {"main_long": 0.02, "main_short": 0.0002}


class TwoFunctions(Executable):
    """A network whose functions sleep for their seconds and add a number to their input."""

    def __init__(self, function: str = "main_long", runs: dict[str, int] | None = None, error: float = 0.0) -> None:
        self._function, self._error, self.runs = function, error, {} if runs is None else runs

    def entry(self, function: str) -> "TwoFunctions":
        return TwoFunctions(function, self.runs, self._error)

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        self.run_repeatedly(1)
        wrong = self._error if self._function == "main_short" else 0.0
        return [inputs["x"] + SECONDS[self._function] + wrong]

    def run_repeatedly(self, number: int) -> None:
        self.runs[self._function] = self.runs.get(self._function, 0) + number
        time.sleep(number * SECONDS[self._function])

    def run_by_kernel(self, inputs: Mapping[str, Array], *, with_runtime: bool = False) -> KernelCalls | None:
        return [(f"kernel of {self._function}", SECONDS[self._function])]


def race(plan: RoundPlan) -> tuple[list[float], dict[str, int]]:
    network = TwoFunctions()
    inputs = {name: np.zeros(2, "float32") for name in TYPES}
    result = run_race([Mixture(network, CASES)], plan, inputs=inputs, watch=lambda: CpuTimes(0.0, 0.0, 0.0, 0.0))
    return result.samples()[0], network.runs


def test_a_sample_is_the_mean_by_weights_with_the_seconds_of_each_case() -> None:
    samples, _ = race(RoundPlan(rounds=3, runs=2, run_s=0.005))
    for sample in samples:
        assert isinstance(sample, WeightedSeconds)
        long_s, short_s = sample.parts
        assert sample == pytest.approx(0.25 * long_s + 0.75 * short_s)
        assert long_s >= SECONDS["main_long"]
        assert SECONDS["main_short"] <= short_s < long_s


def test_a_short_case_runs_more_often_than_a_long_one() -> None:
    _, runs = race(RoundPlan(rounds=3, runs=2, run_s=0.02))
    assert runs["main_short"] > 2 * runs["main_long"]


def test_the_only_sample_of_a_slow_network_is_the_mean_by_weights_too() -> None:
    network = Mixture(TwoFunctions(), CASES)
    answer = measure(
        [network], inputs=random_inputs(TYPES, seed=0), plan=RoundPlan(visit_s=0.001, race_s=0.001), cores=[0]
    )
    ((sample,),), ((parts,),) = answer["samples"], answer["parts"]
    assert sample == pytest.approx(0.25 * parts[0] + 0.75 * parts[1]) and sample < SECONDS["main_long"]


def test_outputs_of_every_case_are_compared(tmp_path) -> None:
    def check(error: float, reference) -> dict:
        network = Mixture(TwoFunctions(error=error), CASES)
        return verify(
            network, inputs=CheckInputs(TYPES), cases=[1], outputs=tmp_path / "reference.npz", reference=reference
        )

    check(0.0, None)
    assert check(0.0, tmp_path / "reference.npz")["deviation"] == 0.0
    assert check(0.5, tmp_path / "reference.npz")["deviation"] > 0.1


def test_the_seconds_of_a_verification_are_the_mean_by_weights(tmp_path) -> None:
    network = Mixture(TwoFunctions(), CASES)
    answer = verify(network, inputs=CheckInputs(TYPES), cases=[1], outputs=tmp_path / "reference.npz", reference=None)
    assert answer["run_s"] < SECONDS["main_long"]


def test_kernels_of_all_cases_are_listed() -> None:
    calls = Mixture(TwoFunctions(), CASES).run_by_kernel({name: np.zeros(2, "float32") for name in TYPES})
    assert calls is not None
    assert [name for name, _ in calls] == ["kernel of main_long", "kernel of main_short"]


PLACES = PlacePlan(processes=1, rounds=2, least_rounds=1, runs=1)


def test_kernels_in_their_places_count_by_the_weight_of_their_case() -> None:
    (places,) = time_places([Mixture(TwoFunctions(), CASES)], PLACES, inputs=random_inputs(TYPES, seed=0))
    assert places is not None and 0.25 * SECONDS["main_long"] <= places.whole_s < SECONDS["main_long"]
    assert places.kernels["kernel of main_long"] == pytest.approx(0.25 * SECONDS["main_long"])
    assert places.kernels["kernel of main_short"] == pytest.approx(0.75 * SECONDS["main_short"])


def test_a_profile_of_several_cases_has_weights_and_the_mean_inference() -> None:
    (profile,) = profile_networks([Mixture(TwoFunctions(), CASES)], PLACES, inputs=random_inputs(TYPES, seed=0))
    assert profile is not None and profile.weights == [0.25, 0.75]
    assert 0.25 * SECONDS["main_long"] <= profile.whole_s < SECONDS["main_long"]
    (one,) = profile_networks([TwoFunctions()], PLACES, inputs=random_inputs({"x": ROW}, seed=0))
    assert one is not None and one.weights == [1.0] and one.whole_s >= SECONDS["main_long"]


def test_a_weighted_time_is_copied_with_its_parts() -> None:
    seconds = WeightedSeconds([1.0, 3.0], [0.25, 0.75])
    for copied in (copy.deepcopy(seconds), pickle.loads(pickle.dumps(seconds))):
        assert (copied, copied.parts) == (2.5, (1.0, 3.0))
