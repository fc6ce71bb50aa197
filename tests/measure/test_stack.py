"""Deeper on the stack, and what comes back from there."""

import ctypes
from itertools import pairwise

import pytest

from passsearch.measure.stack import DEPTHS, at_depth

PAGE = 4096


def stack_pointer() -> int:
    """Where the C stack is: what ``getcontext`` saves of the registers has an address there."""
    context = (ctypes.c_char * 4096)()
    assert ctypes.CDLL(None).getcontext(context) == 0
    return int.from_bytes(context[160:168], "little")  # gregs[REG_RSP] of ucontext_t on x86-64


def test_each_level_lies_at_another_place_of_the_page() -> None:
    places = [at_depth(levels, stack_pointer) for levels in range(DEPTHS)]
    assert all(deeper < place for place, deeper in pairwise(places))
    assert len({place % PAGE for place in places}) > DEPTHS / 2


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, MemoryError])
def test_answers_and_exceptions_come_back(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    assert at_depth(5, lambda: 7) == 7
    with pytest.raises(error):
        at_depth(3, fail)
