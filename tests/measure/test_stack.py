"""Calls at several depths of the stack, their results and their exceptions."""

import ctypes
from itertools import pairwise

import pytest

from passsearch.measure.stack import DEPTHS, call_at_depth

PAGE = 4096


def stack_pointer() -> int:
    """Return the address of the C stack, from the registers that ``getcontext`` saves."""
    context = (ctypes.c_char * 4096)()
    assert ctypes.CDLL(None).getcontext(context) == 0
    return int.from_bytes(context[160:168], "little")  # gregs[REG_RSP] of ucontext_t on x86-64


def test_every_level_has_another_offset_in_its_page() -> None:
    addresses = [call_at_depth(levels, stack_pointer) for levels in range(DEPTHS)]
    assert all(deeper < address for address, deeper in pairwise(addresses))
    assert len({address % PAGE for address in addresses}) > DEPTHS / 2


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, MemoryError])
def test_results_and_exceptions_come_back(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    assert call_at_depth(5, lambda: 7) == 7
    with pytest.raises(error):
        call_at_depth(3, fail)
