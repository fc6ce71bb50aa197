"""Tests of how compiled networks of files are called, with a function in place of the compiled network."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from passsearch.errors import UserError
from passsearch.frontends import call_form, read_form, resolve
from passsearch.standalone.deployment.machine_pool import InputError

INPUTS = [["a b", "float32", [2, 3]], ["c", "int64", [2]]]


def run(*arrays: Any) -> Any:
    """A compiled network returns nested tuples."""
    return arrays[0] * 2, (arrays[1] + 1,)


def test_outputs_have_the_names_of_the_file(tiny_network: Path, tmp_path: Path) -> None:
    form = call_form(resolve(tiny_network, folder=tmp_path))
    document = form.to_json()
    assert document["kind"] == "file" and document["outputs"]
    assert read_form(document).to_json() == document


def test_inputs_go_by_place_or_name() -> None:
    first, second = np.ones((2, 3), "f4"), np.zeros(2, "i8")
    call = read_form({"kind": "file", "outputs": ["x", "y"]}).bind(run, INPUTS, "cpu")
    for outputs in (call(first, second), call(first, c=second), call({"c": second, "a b": first})):
        assert list(outputs) == ["x", "y"]
        assert np.array_equal(outputs["x"], first * 2) and np.array_equal(outputs["y"], second + 1)


def test_outputs_without_names_are_a_tuple() -> None:
    outputs = read_form({}).bind(run, INPUTS, "cpu")(np.ones((2, 3), "f4"), np.zeros(2, "i8"))
    assert isinstance(outputs, tuple) and len(outputs) == 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.ones((2, 3), "f4")], "`c` is missing; the network takes `a b` float32"),
        ([np.ones((2, 3)), np.zeros(2, "i8")], "`a b` must be float32"),
        ([np.ones((3, 3), "f4"), np.zeros(2, "i8")], r"`a b` must be float32\[2, 3\], and is float32\[3, 3\]"),
        ([np.ones((2, 3), "f4"), "text"], "`c` must be int64"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(arrays: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_form({}).bind(run, INPUTS, "cpu")(*arrays)
    assert "\n" not in str(raised.value)


def test_a_form_that_could_not_be_stored_is_refused() -> None:
    with pytest.raises(UserError, match=r"cannot be stored \(a value of type `Cache`\)"):
        read_form({"kind": "torch", "unsaved": "a value of type `Cache`"})
