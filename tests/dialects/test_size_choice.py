"""The function that a call of a certain size takes."""

from typing import Any

import numpy as np
import pytest

from passsearch.standalone.relax.deployment.size_choice import Choice, cut, pad

BUCKETS = [
    {"name": f"1x{size}", "function": f"main_1x{size}", "inputs": {"ids": [1, size], "mask": [1, size]}}
    for size in (4, 8)
]
PADDING = {"masks": ["mask"], "outputs": [{"1": ["ids", 1]}, {}]}


@pytest.fixture
def record() -> dict[str, Any]:
    growing = {"ids": [1], "mask": [1]}
    return {"buckets": BUCKETS, "growing": growing, "padding": PADDING, "open": True, "open_reason": "no reason"}


def inputs(length: int, shown: int = 1, batch: int = 1) -> dict[str, Any]:
    mask = np.zeros((batch, length), "int64")
    mask[:, :shown] = 1
    return {"ids": np.arange(batch * length).reshape(batch, length) + 1, "mask": mask}


def name(bucket: Any) -> str | None:
    return bucket and bucket["name"]


def test_a_size_of_its_own_is_taken_and_others_are_padded_to_the_next(record: dict[str, Any]) -> None:
    choice = Choice(record)
    assert [name(choice.exact(inputs(length))) for length in (3, 4, 8, 9)] == [None, "1x4", "1x8", None]
    assert [name(choice.padded(inputs(length))) for length in (1, 3, 5, 7, 9)] == ["1x4", "1x4", "1x8", "1x8", None]
    assert choice.padded(inputs(3, batch=2)) is None


def test_inputs_are_padded_where_that_was_faster(record: dict[str, Any]) -> None:
    buckets = [{**BUCKETS[0], "padded_from": 2}, {**BUCKETS[1], "padded_from": 7}]
    choice = Choice({**record, "buckets": buckets})
    assert [name(choice.padded(inputs(length))) for length in (1, 2, 5, 6, 7)] == [None, "1x4", None, None, "1x8"]


def test_a_mask_that_hides_all_is_not_padded(record: dict[str, Any]) -> None:
    assert Choice(record).padded(inputs(3, shown=0)) is None
    both = {key: np.concatenate([inputs(3)[key], inputs(3, shown=0)[key]]) for key in ("ids", "mask")}
    assert not Choice(record).shows(both)


def test_nothing_is_padded_without_a_proof(record: dict[str, Any]) -> None:
    assert Choice({**record, "padding": None}).padded(inputs(3)) is None


def test_inputs_are_filled_with_zeros_and_outputs_are_cut() -> None:
    given = inputs(3)
    padded = pad(given, BUCKETS[0])
    assert padded["ids"].tolist() == [[1, 2, 3, 0]] and padded["mask"].tolist() == [[1, 0, 0, 0]]
    states, pooled = cut([np.ones((1, 4, 2)), np.ones((1, 2))], given, PADDING["outputs"])
    assert states.shape == (1, 3, 2) and pooled.shape == (1, 2) and states.flags.c_contiguous


def test_a_refusal_names_the_sizes_in_one_line(record: dict[str, Any]) -> None:
    text = Choice(record).refusal(inputs(3))
    assert text == (
        "The network is compiled for the sizes 1x4, 1x8, and not for `ids` int64[1, 3], `mask` int64[1, 3] (no reason)"
    )
