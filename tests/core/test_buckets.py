"""Sizes that are compiled one by one, and those between them."""

import pytest

from passsearch.core import OPEN, Calls, growing_axes, read_calls, sizes_below, with_open_sizes
from passsearch.errors import UserError


def sized(*texts: str) -> Calls:
    return with_open_sizes(read_calls(None, texts, {}))


def test_a_function_of_open_sizes_is_checked_below_each_size() -> None:
    cases = sized("ids=1x16,1x64,1x128", "mask=1x16,1x64,1x128").cases
    assert [(case.name, case.entry) for case in cases] == [
        *(("1x16", "main_1x16"), ("1x64", "main_1x64"), ("1x128", "main_1x128")),
        *(("1x9", OPEN), ("1x41", OPEN), ("1x97", OPEN)),
    ]
    assert [case.is_symbolic for case in cases] == [False] * 3 + [True] * 3
    assert cases[4].inputs["mask"].shape == (1, 41)
    assert [case.weight for case in cases[3:]] == [0.0] * 3


def test_there_is_nothing_between_neighbours() -> None:
    assert [case.name for case in sized("x=1x1,1x2").cases] == ["1x1", "1x2"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (["x=1x64,1x16"], "Sizes grow from each to the next; 1x16 follows 1x64"),
        (["x=1x16,2x8"], "Sizes grow from each to the next; 2x8 follows 1x16"),
        (["x=1x16,1x64", "y=8,8"], None),
        (["x=1x16,64"], "Sizes of `x` have one number of dimensions; got 1x16 and 64"),
        (["x=1x16,1x16"], "`1x16` is given twice"),
        (["x=1x16,1x0"], "of numbers from 1 on; got `1x0`"),
        (["x=1x16,"], "Each item is a size"),
    ],
)
def test_sizes_that_do_not_grow_are_refused(sizes: list[str], message: str | None) -> None:
    if message is None:
        assert growing_axes(sized(*sizes).cases[:2]) == {"x": [1], "y": []}
        return
    with pytest.raises(UserError, match=message) as caught:
        sized(*sizes)
    assert "\n" not in str(caught.value)


def test_sizes_that_are_padded_reach_from_the_next_to_the_last() -> None:
    growing = {"x": [1]}
    shapes = [sizes["x"] for sizes in sizes_below({"x": (1, 16)}, {"x": (1, 64)}, growing)]
    assert shapes == [(1, 17), (1, 41), (1, 63)]
    assert sizes_below({"x": (1, 16)}, {"x": (1, 17)}, growing) == []
    assert [sizes["x"] for sizes in sizes_below(None, {"x": (1, 2)}, growing)] == [(1, 1)]
