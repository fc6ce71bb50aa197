"""The inputs on which networks are checked and timed."""

from zipfile import ZipFile

import numpy as np
import pytest

from passsearch.core import CheckInputs, InputRange, TensorType
from passsearch.dialects.case_inputs import case_inputs, checked_cases, timed_inputs, with_samples
from passsearch.errors import UserError
from passsearch.standalone.deployment.input_values import EDGES

CASES = (1, 2, 3, *EDGES)


def _inputs(**types: tuple[tuple[int, ...], str, InputRange | None]) -> CheckInputs:
    ranges = {name: range_ for name, (_, _, range_) in types.items() if range_ is not None}
    return CheckInputs({name: TensorType(shape, dtype) for name, (shape, dtype, _) in types.items()}, ranges)


PIXELS = _inputs(x=((4, 256), "uint8", InputRange(0, 255, "dtype")))
IDS = _inputs(ids=((1, 64), "int64", InputRange(0, 30521, "table")))


def test_integers_are_spread_over_their_range_and_reach_both_ends() -> None:
    assert set(case_inputs(PIXELS, 1)["x"].ravel()) == set(range(256))
    ids = case_inputs(IDS, 1)["ids"]
    assert (ids.min(), ids.max()) == (0, 30521) and len(set(ids.ravel())) == 64
    parts = {*(ids.ravel() * 8 // 30522)}
    assert parts == set(range(8))
    signed = case_inputs(_inputs(x=((512,), "int8", InputRange(-128, 127, "dtype"))), 3)["x"]
    assert (signed.min(), signed.max()) == (-128, 127)


def test_integers_of_unknown_meaning_are_0_and_1() -> None:
    assert set(case_inputs(_inputs(x=((64,), "int32", InputRange(0, 1, "unknown"))), 1)["x"]) == {0, 1}


def test_floats_that_are_masks_are_factors_and_terms() -> None:
    inputs = _inputs(mask=((2, 64), "float32", InputRange(0, 1, "mask")))
    assert set(case_inputs(inputs, 1)["mask"].ravel()) == {0.0, 1.0}
    added = case_inputs(inputs, 2)["mask"]
    assert set(added.ravel()) == {0.0, np.finfo("float32").min} and not added[:, 0].any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_edge_inputs_have_the_numbers_that_they_are_named_by(dtype: str) -> None:
    edges = {case: case_inputs(_inputs(x=((3, 50), dtype, None)), case)["x"] for case in EDGES}
    assert all(str(array.dtype) == dtype for array in edges.values())
    assert np.isnan(edges["nan"]).sum() == 1
    assert {*edges["inf"][np.isinf(edges["inf"])]} == {np.inf, -np.inf}
    tiny = np.finfo(dtype).tiny
    denormals = np.abs(edges["denormals"])
    assert ((denormals > 0) & (denormals < tiny)).mean() > 0.9
    assert not edges["zeros"].any() and np.isfinite(edges["huge"]).all() and np.abs(edges["huge"]).max() > 1e3


def test_equal_arguments_give_equal_arrays() -> None:
    again = CheckInputs.from_json(IDS.to_json())
    assert all(np.array_equal(case_inputs(IDS, case)["ids"], case_inputs(again, case)["ids"]) for case in CASES)


def test_a_network_without_floats_is_not_checked_twice_on_equal_inputs() -> None:
    assert checked_cases(IDS, CASES) == (1, 2, 3, "zeros")
    assert checked_cases(_inputs(x=((2,), "float32", None)), CASES) == CASES


def _network() -> CheckInputs:
    return _inputs(
        x=((2, 3), "float32", None),
        rate=((), "int64", InputRange(0, 1, "unknown")),
        ids=((4,), "int64", IDS.ranges["ids"]),
    )


def test_samples_are_checked_and_timed_and_integers_are_drawn_from_them(tmp_path) -> None:
    file, rng = tmp_path / "samples.npz", np.random.default_rng(0)
    x = rng.standard_normal((5, 2, 3)).astype("float32")
    # The right classes, for a budget of accuracy, may be in the same file.
    np.savez(file, x=x, rate=np.array(16000), ids=rng.integers(0, 30522, (5, 4)), labels=np.arange(5))
    inputs = with_samples(_network(), file)
    assert checked_cases(inputs, (1, "zeros")) == (*(f"sample{number}" for number in range(5)), 1, "zeros")
    assert np.array_equal(timed_inputs(inputs)["x"], x[0])
    assert np.array_equal(case_inputs(inputs, "sample4")["x"], x[4]) and case_inputs(inputs, "sample4")["rate"] == 16000
    assert case_inputs(inputs, 1)["rate"] == 16000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": None}, "has no array for input `rate`"),
        ({"rate": np.array(1.0)}, "Input `rate` is int64; its array"),
        ({"x": np.zeros((3, 2), "float32")}, "Input `x` has the shape [2, 3]; its array"),
        ({"y": np.zeros(1)}, "has an array `y`; its arrays are named like the inputs"),
        ({"y": np.zeros(1), "x": None}, "Write it again: numpy.savez(FILE, x=array)"),
        ({"x": np.zeros((2, 2, 3), "float32"), "ids": np.zeros((3, 4), "int64")}, "one number of samples"),
    ],
)
def test_samples_that_do_not_fit_are_refused_in_one_line(tmp_path, change, message: str) -> None:
    arrays = {"x": np.zeros((2, 3), "float32"), "rate": np.array(16000), "ids": np.zeros(4, "int64"), **change}
    np.savez(tmp_path / "s.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(UserError) as error:
        with_samples(_network(), tmp_path / "s.npz")
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("content", [None, b"", b"no archive", b"PK\x03\x04 cut"])
def test_a_file_that_is_no_archive_is_refused_in_one_line(tmp_path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(UserError, match="samples") as error:
        with_samples(IDS, tmp_path / "s.npz")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shape", [f"({1 << 70}, 0)", "(" + "[" * 90, "(" + "-" * 9000 + "1,)"])
def test_headers_that_numpy_cannot_read_are_refused_in_one_line(tmp_path, shape: str) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    with ZipFile(tmp_path / "s.npz", "w") as archive:
        archive.writestr("ids.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(UserError, match="no file of samples") as error:
        with_samples(IDS, tmp_path / "s.npz")
    assert "\n" not in str(error.value)
