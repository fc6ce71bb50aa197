"""Fewest items that still show a fault."""

import itertools
from collections.abc import Sequence

import pytest

from passsearch.core import fewest


@pytest.mark.parametrize("needed", [{0}, {7}, {3, 4}, {0, 15}, {1, 6, 11}, set(range(16))])
def test_only_what_a_fault_needs_stays(needed: set[int]) -> None:
    assert set(fewest(range(16), lambda some: needed <= {*some})) == needed


def test_one_of_two_ways_to_a_fault_stays() -> None:
    kept = fewest(range(10), lambda some: {1, 8} <= {*some} or {2, 5, 6} <= {*some})
    assert kept in ([1, 8], [2, 5, 6])


def test_what_was_needed_before_another_item_went_is_tried_again() -> None:
    def shows(some: Sequence[int]) -> bool:
        return 3 in some and (0 not in some or 1 in some)

    assert fewest(range(4), shows) == [3]


def test_a_fault_that_comes_and_goes_is_shown_by_the_result() -> None:
    calls = itertools.count()
    shown: list[list[int]] = [list(range(12))]

    def shows(some: Sequence[int]) -> bool:
        if is_shown := next(calls) % 3 == 0:
            shown.append(list(some))
        return is_shown

    assert fewest(range(12), shows) == shown[-1]


def test_nothing_is_left_only_where_that_is_allowed() -> None:
    assert fewest([1, 2], lambda _: True) == [2]
    assert fewest([1, 2], lambda _: True, least=0) == []
