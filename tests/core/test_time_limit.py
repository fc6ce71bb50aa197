"""A time limit and its clock."""

import math
import time

import pytest

from passsearch.core import TimeLimit, limit_or_inf, limit_or_none


def test_the_time_that_is_left_follows_the_clock_that_came_with_the_limit() -> None:
    now_s = 7.0
    limit = TimeLimit(10.0, lambda: now_s)
    assert limit.left_s() == pytest.approx(3.0) and limit.left_s(overtime=0.1) == pytest.approx(4.0)
    assert not limit.is_over
    now_s = 10.0
    assert limit.is_over and limit.left_s(overtime=0.1) == pytest.approx(1.0)


def test_a_limit_begins_when_it_is_made() -> None:
    limit = TimeLimit(0.01)
    time.sleep(0.02)
    assert limit.is_over and TimeLimit(0.0).is_over and not TimeLimit(10.0).is_over


def test_no_limit_is_never_over() -> None:
    assert TimeLimit().left_s() == TimeLimit().left_s(overtime=0.1) == math.inf and not TimeLimit().is_over


@pytest.mark.parametrize(("outside", "inside"), [(None, math.inf), (0, 0), (60, 60), (1.5, 1.5)])
def test_no_limit_is_written_as_none_and_passed_on_as_infinite(outside: float | None, inside: float) -> None:
    assert limit_or_inf(outside) == inside and limit_or_none(inside) == outside
