"""The pool of machines and the checks of inputs and folders, without a compiler."""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from passsearch.standalone.deployment.checked_files import Built, DeploymentError
from passsearch.standalone.deployment.machine_pool import InputError, MachinePool, Network

OPEN = [["x", "float32", ["n", 8]], ["mask", "bool", ["n"]], ["any", "int32", ["*"]]]
"""Inputs of which two have an open size in common."""


def network_of(inputs: list[Any]) -> Network:
    return Network(lambda: lambda arrays: list(arrays.values()), inputs)


@pytest.mark.parametrize("size", [1, 5])
def test_open_sizes_are_what_the_inputs_say(size: int) -> None:
    arrays = np.zeros((size, 8), "float32"), np.zeros(size, bool), np.zeros((2, 3), "int32")
    outputs = network_of(OPEN)(*arrays)
    assert [each.shape for each in outputs] == [(size, 8), (size,), (2, 3)]


def test_one_open_size_has_one_value_in_a_call() -> None:
    arrays = {"x": np.zeros((4, 8), "float32"), "mask": np.zeros(5, bool), "any": np.zeros(1, "int32")}
    with pytest.raises(InputError, match=r"^`mask` must be bool\[n\], where n is 4, and is bool\[5\]"):
        network_of(OPEN)(**arrays)


def test_a_network_without_inputs_takes_none() -> None:
    assert network_of([])() == []
    with pytest.raises(InputError, match="1 arrays are too many; the network takes no inputs"):
        network_of([])(np.zeros(1))


def test_each_call_has_a_machine_and_no_more_are_made_than_allowed() -> None:
    made, busy, most = [], set[int](), []

    def make() -> Any:
        number = len(made)
        made.append(number)

        def run(_: int) -> int:
            assert number not in busy
            busy.add(number)
            most.append(len(busy))
            time.sleep(0.002)
            busy.remove(number)
            return number

        return run

    pool = MachinePool(make, 3)
    threads = [threading.Thread(target=lambda: [pool.run(0) for _ in range(20)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 160 and 1 < max(most) <= 3 and len(made) <= 3


def test_a_machine_that_has_failed_is_not_used_again() -> None:
    machines = iter([lambda _: 1 / 0, lambda _: 2.0])
    pool = MachinePool(lambda: next(machines), 1)
    with pytest.raises(ZeroDivisionError):
        pool.run(0)
    assert pool.run(0) == pool.run(0) == 2.0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "and is None"),
        ("cat.jpg", "and is the text 'cat.jpg'"),
        (object(), "and is a value of type `object` without numbers"),
        (["a", "b"], "and is a value of type `list` without numbers"),
    ],
)
def test_what_has_no_numbers_is_named_in_plain_words(value: object, words: str) -> None:
    network = network_of([["x", "float32", [1, 8]]])
    with pytest.raises(InputError) as refusal:
        network(value)
    assert str(refusal.value) == f"`x` must be float32[1, 8], {words}; give an array of numbers"


def test_a_network_has_one_machine_at_least() -> None:
    with pytest.raises(ValueError, match="`machines` must be 1 or more; got 0"):
        Network(lambda: lambda arrays: [], [], 0)


@pytest.mark.parametrize(("is_built", "advice"), [(True, "; load that"), (False, "; run build_model.py first")])
def test_the_exported_folder_in_place_of_its_build_is_named(tmp_path: Path, is_built: bool, advice: str) -> None:
    (tmp_path / "pipeline.json").touch()
    if is_built:
        (tmp_path / "built").mkdir()
    with pytest.raises(DeploymentError, match=f"is the exported folder, and its build is .*built{advice}"):
        Built(tmp_path)
