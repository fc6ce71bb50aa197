"""Comparison of outputs with the reference's."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from passsearch.core import QUANTIZED_LIMIT, CheckInputs, TensorType
from passsearch.dialects.bits import bits_of
from passsearch.dialects.case_inputs import MAGNITUDES, case_inputs, timed_inputs
from passsearch.dialects.comparison import common_factor, mean_deviation, relative_deviation
from passsearch.dialects.contract import Array, Executable
from passsearch.measure.after import after_check
from passsearch.measure.outputs import verify
from passsearch.measure.rounds import RoundPlan, measure

SCALES = ("zeros", "small", "large")


def test_the_deviation_is_a_share_of_the_largest_value() -> None:
    expected = np.array([0.0, 10.0, -20.0], dtype="float32")
    assert relative_deviation(expected + np.float32(0.2), expected) == pytest.approx(0.01, rel=1e-4)
    assert relative_deviation(expected, expected) == 0.0


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.zeros(3, "float32"), np.zeros(4, "float32")),
        (np.zeros(3, "float16"), np.zeros(3, "float32")),
        (np.array([1, 2, 4]), np.array([1, 2, 3])),
        (np.array([True, False]), np.array([True, True])),
        (np.array([np.nan, 1.0]), np.array([1.0, 1.0])),
        (np.array([1.0, 1.0]), np.array([np.inf, 1.0])),
        (np.array([-np.inf, 1.0]), np.array([np.inf, 1.0])),
    ],
    ids=["shape", "dtype", "integers", "booleans", "new nan", "lost infinity", "other sign"],
)
def test_differences_that_no_limit_allows(actual: Array, expected: Array) -> None:
    assert math.isinf(relative_deviation(actual, expected))


def test_rounded_integers_of_a_quantised_network_deviate_by_steps() -> None:
    expected = np.random.default_rng(0).integers(20, 221, 1000).astype("uint8")
    one_step = expected + (np.arange(1000) % 10 == 0).astype("uint8")
    assert relative_deviation(one_step, expected) == 1 / 128
    assert mean_deviation(one_step, expected) < QUANTIZED_LIMIT / 4
    too_large = np.round((expected.astype("float64") - 120) * 1.05 + 120).astype("uint8")
    assert common_factor(too_large, expected) == pytest.approx(0.05, abs=5e-3)
    assert mean_deviation(too_large, expected) > QUANTIZED_LIMIT / 4, "5 % everywhere is no rounding"
    assert relative_deviation(expected[::-1].copy(), expected) > 0.5
    classes = expected % 4
    assert mean_deviation((classes + 1) % 4, classes) > QUANTIZED_LIMIT, "few steps, but many of them"


def test_rounding_may_decide_between_equal_scores_of_few_places_in_many() -> None:
    places = np.arange(20_000) % 21
    tie = places.copy()
    tie[7] += 1
    assert relative_deviation(tie, places) == 0.0
    assert math.isinf(relative_deviation(tie[:100], places[:100]))


def test_values_that_are_not_finite_in_both_agree() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 2.0])
    assert relative_deviation(values, values.copy()) == 0.0
    assert relative_deviation(np.full(2, np.nan), np.full(2, np.nan)) == 0.0


class Overflowing(Executable):
    """Is NaN on all inputs, or on large ones only."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        is_large = np.abs(inputs["x"]).max() > self.limit
        return [np.ones(3, "float32"), np.full(3, np.nan if is_large else 1.0, "float32")]


def test_outputs_without_a_finite_value_are_no_reference(tmp_path: Path) -> None:
    types, file = {"x": TensorType((2, 3), "float32")}, tmp_path / "reference.npz"
    answer = verify(Overflowing(0.0), inputs=CheckInputs(types), cases=(1, 2, "large"), outputs=file, reference=None)
    assert "output 1 has no finite value on inputs of seed 1" in answer["mismatch"] and math.isinf(answer["deviation"])
    assert not file.exists()
    stable = verify(Overflowing(50.0), inputs=CheckInputs(types), cases=(1, 2, "large"), outputs=file, reference=None)
    assert (stable["mismatch"], stable["deviation"]) == ("", 0.0) and file.exists()


TYPES = {"x": TensorType((2, 3), "float16"), "ids": TensorType((4,), "int64"), "mask": TensorType((4,), "bool")}


@pytest.mark.parametrize("case_name", [1, *SCALES])
def test_every_case_has_the_types_of_the_network(case_name: int | str) -> None:
    inputs = case_inputs(CheckInputs(TYPES), case_name)
    assert {name: (array.shape, str(array.dtype)) for name, array in inputs.items()} == {
        "x": ((2, 3), "float16"),
        "ids": ((4,), "int64"),
        "mask": ((4,), "bool"),
    }
    assert np.isfinite(inputs["x"]).all() and set(inputs["ids"]) <= {0, 1}
    assert (case_name == "zeros") == (not inputs["x"].any())


class Summing(Executable):
    """A network that adds up rows of 64 numbers, in the order of these columns."""

    def __init__(self, columns: Sequence[int]) -> None:
        self._columns = columns

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        total = np.zeros(3, "float32")
        for column in self._columns:
            total = total + inputs["x"][:, column]
        return [total]


def test_another_order_of_a_sum_has_other_bits_on_every_input_of_the_check(tmp_path: Path) -> None:
    types, file = {"x": TensorType((3, 64), "float32")}, tmp_path / "reference.npz"
    common: Any = {"inputs": CheckInputs(types), "cases": (1, 2), "outputs": file, "with_bits": True}
    first = verify(Summing(range(64)), reference=None, **common)["bits"]
    same, other = (verify(Summing(order), reference=file, **common)["bits"] for order in (range(64), range(64)[::-1]))
    assert [*first] == ["1", "2", MAGNITUDES] and same == first
    assert all(other[case] != first[case] for case in first)


def test_the_bits_of_nan_are_one() -> None:
    one, other = (np.array([bits], "uint32").view("float32") for bits in (0x7FC00000, 0xFFC00001))
    assert np.isnan([one, other]).all() and bits_of([one]) == bits_of([other])
    assert bits_of([np.float32([0.0])]) != bits_of([np.float32([-0.0])])


class Clipping(Executable):
    """A network that is wrong on large inputs only."""

    def __init__(self, limit: float) -> None:
        self._limit = limit

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        return [np.clip(inputs["x"], -self._limit, self._limit)]

    def sample(self, number: int, runs: int, flush_bytes: int = 0) -> Sequence[float]:
        raise AssertionError("verify must not time anything")


def test_an_error_that_only_large_inputs_show_is_found_and_named(tmp_path: Path) -> None:
    types = {"x": TensorType((2, 8), "float32")}
    reference = tmp_path / "reference.npz"
    cases = (1, 2, *SCALES)
    verify(Clipping(1e9), inputs=CheckInputs(types), cases=cases, outputs=reference, reference=None)
    wrong = verify(Clipping(50.0), inputs=CheckInputs(types), cases=cases, outputs=reference, reference=reference)
    assert wrong["case"] == "large" and wrong["deviation"] > 0.1
    right = verify(Clipping(1e9), inputs=CheckInputs(types), cases=cases, outputs=reference, reference=reference)
    assert right["deviation"] == 0.0


class Centring(Executable):
    """A network whose output on zeros is the difference of equal numbers, with an error of its own."""

    def __init__(self, error: float) -> None:
        self._error = np.float32(error)

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        return [inputs["x"] - inputs["x"].mean() + self._error]

    def sample(self, number: int, runs: int, flush_bytes: int = 0) -> Sequence[float]:
        raise AssertionError("verify must not time anything")


@pytest.mark.parametrize(("error", "deviates"), [(1e-7, False), (1e-2, True)])
def test_what_rounding_leaves_of_a_difference_of_equal_numbers_is_no_error(
    tmp_path: Path, error: float, deviates: bool
) -> None:
    inputs, reference = CheckInputs({"x": TensorType((2, 8), "float32")}), tmp_path / "reference.npz"
    common: Any = {"inputs": inputs, "cases": (1, "zeros"), "outputs": reference}
    verify(Centring(0.0), reference=None, **common)
    found = verify(Centring(error), reference=reference, **common)["deviations"]["zeros"]
    assert (found > 1e-3) == deviates and found < 1.0


class Waves(Executable):
    """A network that amplifies the rounding of its inputs by their size, with an error on large ones."""

    def __init__(self, factor: float, *, error: float = 0.0) -> None:
        self._factor, self._error = np.float32(factor), np.float32(error)

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        return [np.sin(inputs["x"] * self._factor) * (1 + self._error * (np.abs(inputs["x"]).max() > 50))]

    def sample(self, number: int, runs: int, flush_bytes: int = 0) -> Sequence[float]:
        raise AssertionError("verify must not time anything")


def test_the_change_of_an_unstable_reference_is_that_of_one_rounding_of_its_inputs(tmp_path: Path) -> None:
    common: Any = {
        "inputs": CheckInputs({"x": TensorType((2, 64), "float32")}),
        "cases": (1, *SCALES),
        "reference": None,
    }
    stable = verify(Waves(1e-3), outputs=tmp_path / "stable.npz", **common)["changes"]
    unstable = verify(Waves(100.0), outputs=tmp_path / "unstable.npz", **common)["changes"]
    assert set(stable) == set(unstable) == {"small", "large"}, "a rounding does not move zeros"
    assert max(stable.values()) < 1e-6 and 1e-5 < unstable["large"] < 0.1
    again = verify(Waves(100.0), outputs=tmp_path / "again.npz", **common)["changes"]
    assert again == unstable, "the directions do not depend on the process"


def test_the_change_stands_in_the_reference_for_every_candidate(tmp_path: Path) -> None:
    types, reference = {"x": TensorType((2, 64), "float32")}, tmp_path / "reference.npz"
    common: Any = {"inputs": CheckInputs(types), "cases": (1, *SCALES), "outputs": reference}
    made = verify(Waves(100.0), reference=None, **common)
    found = verify(Waves(100.0, error=0.01), reference=reference, **common)
    assert found["changes"] == made["changes"]
    assert set(found["deviations"]) == {"1", *SCALES} and found["deviations"]["1"] == 0.0
    assert found["deviations"]["large"] == found["deviation"] == pytest.approx(0.01, rel=1e-3)


def test_integers_and_a_slow_reference_have_no_change(tmp_path: Path) -> None:
    common: Any = {"cases": (1, *SCALES), "outputs": tmp_path / "reference.npz", "reference": None}
    slow = verify(Slow(1e9), inputs=CheckInputs({"x": TensorType((2, 8), "float32")}), total_s=0.0, **common)
    assert slow["changes"] == {}
    integers = verify(Clipping(1e9), inputs=CheckInputs({"x": TensorType((2, 8), "int64")}), **common)
    assert integers["changes"] == {}


class Slow(Clipping):
    """A network whose inferences take a fifth of a second."""

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        time.sleep(0.2)
        return super().run(inputs)


@pytest.mark.parametrize(("longest_s", "is_cut"), [(0.001, True), (60.0, False)])
def test_an_artifact_that_is_too_slow_runs_once_and_is_still_compared(
    tmp_path: Path, longest_s: float, is_cut: bool
) -> None:
    types, cases = {"x": TensorType((2, 8), "float32")}, (1, 2, *SCALES)
    reference = tmp_path / "reference.npz"
    common: Any = {"inputs": CheckInputs(types), "cases": cases, "outputs": reference}
    verify(Clipping(1e9), reference=None, **common)
    right = verify(Slow(1e9), reference=reference, longest_s=longest_s, **common)
    assert right["deviation"] == 0.0 and not right["mismatch"]
    assert right["is_cut"] == is_cut and right["run_s"] >= 0.02
    # Small values are clipped in the first case already, so that one inference shows it.
    assert verify(Slow(0.01), reference=reference, longest_s=longest_s, **common)["deviation"] > 0.1


def test_a_slow_reference_runs_on_fewer_inputs_and_only_those_are_compared(tmp_path: Path) -> None:
    reference = tmp_path / "reference.npz"
    common: Any = {
        "inputs": CheckInputs({"x": TensorType((2, 8), "float32")}),
        "cases": (1, 2, *SCALES),
        "outputs": reference,
    }
    made = verify(Slow(1e9), reference=None, total_s=0.3, **common)
    assert (made["cases"], made["is_cut"]) == (2, False)
    right = verify(Clipping(1e9), reference=reference, **common)
    assert (right["cases"], right["is_cut"], right["deviation"]) == (2, False, 0.0)
    assert verify(Clipping(0.01), reference=reference, **common)["deviation"] > 0.1


def test_a_slow_artifact_runs_on_fewer_inputs_than_a_fast_reference(tmp_path: Path) -> None:
    reference = tmp_path / "reference.npz"
    common: Any = {
        "inputs": CheckInputs({"x": TensorType((2, 8), "float32")}),
        "cases": (1, 2, *SCALES),
        "outputs": reference,
    }
    verify(Clipping(1e9), reference=None, **common)
    right = verify(Slow(1e9), reference=reference, total_s=0.3, **common)
    assert (right["cases"], right["is_cut"], right["deviation"]) == (2, False, 0.0)
    assert verify(Slow(0.01), reference=reference, total_s=0.3, **common)["deviation"] > 0.1


class Scores(Executable):
    """A classifier that always returns the same scores, and other outputs if there are any."""

    def __init__(self, scores: Array, *others: Array) -> None:
        self._outputs = [scores, *others]

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        return self._outputs

    def sample(self, number: int, runs: int, flush_bytes: int = 0) -> Sequence[float]:
        raise AssertionError("verify must not time anything")


def leads(tmp_path: Path, expected: Scores, actual: Scores) -> list[float] | None:
    types = {"x": TensorType((2, 8), "float32")}
    options = {"inputs": CheckInputs(types), "cases": (1, "large"), "outputs": tmp_path / "reference.npz"}
    verify(expected, reference=None, **options)  # type: ignore[arg-type]
    answer = verify(actual, reference=tmp_path / "reference.npz", **options)  # type: ignore[arg-type]
    return answer["leads"]  # type: ignore[no-any-return]


def test_the_lead_of_a_class_is_negative_if_another_class_is_best(tmp_path: Path) -> None:
    scores = np.zeros((2, 12), "float32")
    scores[0, 3], scores[0, 5], scores[1, 7] = 4.0, 3.0, -2.0
    changed = scores.copy()
    changed[0, 5] = 4.5
    assert leads(tmp_path, Scores(scores), Scores(scores)) == [0.25, 0.0], "one lead per row, of the random inputs only"
    assert leads(tmp_path, Scores(scores), Scores(changed)) == [-0.25, 0.0]


@pytest.mark.parametrize(
    "outputs",
    [
        [np.zeros((1, 9), "float32")],
        [np.zeros((1, 12), "int64")],
        [np.zeros((1, 4, 12), "float32")],
        [np.zeros((1, 12), "float32"), np.zeros((1, 12), "float32")],
    ],
    ids=["few columns", "integers", "three dimensions", "two of them"],
)
def test_other_outputs_are_no_class_scores(outputs: list[Array], tmp_path: Path) -> None:
    assert leads(tmp_path, Scores(*outputs), Scores(*outputs)) is None


class Held(Executable):
    """A network that doubles its input, with a fault that shows after some calls or in the input's memory."""

    def __init__(self, *, right: float = math.inf, clears: bool = False) -> None:
        self._right, self._clears, self._calls = right, clears, 0
        self._outputs = np.zeros((2, 8), "float32")

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        self._inputs = {name: array.copy() for name, array in inputs.items()}
        self.run_repeatedly(1)
        return [self._outputs.copy()]

    def run_repeatedly(self, number: int) -> None:
        for _ in range(number):
            self._calls += 1
            if self._calls <= self._right:
                self._outputs[:] = 2 * self._inputs["x"]
            if self._clears:
                self._inputs["x"][:] = 0

    def held_inputs(self) -> Mapping[str, Array]:
        return self._inputs


CHECKED = CheckInputs({"x": TensorType((2, 8), "float32")})


def test_a_network_that_changes_its_inputs_is_no_reference_and_no_candidate(tmp_path: Path) -> None:
    common: Any = {"inputs": CHECKED, "cases": (1, 2), "outputs": tmp_path / "reference.npz"}
    assert verify(Held(clears=True), reference=None, **common)["mismatch"] == "the network changes its input `x`"
    assert verify(Held(), reference=None, **common)["mismatch"] == ""
    found = verify(Held(clears=True), reference=tmp_path / "reference.npz", **common)
    assert found["mismatch"] == "the network changes its input `x`" and math.isinf(found["deviation"])


def test_a_network_that_stops_computing_while_it_is_timed_is_found_afterwards(tmp_path: Path) -> None:
    reference = tmp_path / "reference.npz"
    verify(Held(), inputs=CHECKED, cases=(1, 2), outputs=reference, reference=None)
    plan = RoundPlan(rounds=2, runs=2, run_s=0.001)
    check = after_check(CHECKED, reference, (1, 2))
    networks = [Held(), Held(right=40), Held(clears=True)]
    answer = measure(networks, inputs=timed_inputs(CHECKED), plan=plan, cores=[0], check=check)
    right, lazy, clearing = answer["after"]
    assert (right["deviation"], right["changed"]) == (0.0, "")
    assert lazy["deviation"] > 0.1 and not lazy["changed"]
    assert clearing["changed"] == "the network changes its input `x`"
