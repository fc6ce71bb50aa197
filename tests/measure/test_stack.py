"""Deeper on the stack, and what comes back from there."""

import pytest

from passsearch.measure.stack import at_depth


def test_answers_and_exceptions_come_back() -> None:
    assert at_depth(5, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        at_depth(3, lambda: 1 // 0)
