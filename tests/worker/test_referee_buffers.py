"""Arrays between pages that must not be touched."""

import ctypes
import multiprocessing
import signal
from collections.abc import Callable

import pytest

from passsearch.worker.referee_buffers import BEFORE, BEHIND, Guard, GuardedArray

SHAPE = (3, 32)  # 384 bytes, a multiple of the alignment


def ends_by(touch: Callable[[GuardedArray], None], guard: Guard) -> int:
    """Return the status of a process that touches memory near an array."""
    process = multiprocessing.get_context("fork").Process(target=lambda: touch(GuardedArray(SHAPE, "float32", guard)))
    process.start()
    process.join()
    return process.exitcode or 0


def byte_at(array: GuardedArray, offset: int) -> "ctypes.Array[ctypes.c_char]":
    return (ctypes.c_char * 1).from_address(array.array.ctypes.data + offset)


@pytest.mark.parametrize(("side", "offset"), [(BEHIND, 384), (BEFORE, -1), (BEHIND, 1 << 20), (BEFORE, -(1 << 20))])
def test_a_read_outside_ends_the_process(side: str, offset: int) -> None:
    assert ends_by(lambda array: byte_at(array, offset).raw and None, Guard(side)) == -signal.SIGSEGV
    assert ends_by(lambda array: byte_at(array, offset).raw and None, Guard(side, may_read=True)) == 0
    if abs(offset) < 4096:
        assert ends_by(lambda array: byte_at(array, offset).raw and None, Guard()) == 0


def test_a_write_outside_ends_the_process_even_if_reads_are_allowed() -> None:
    def write(array: GuardedArray) -> None:
        byte_at(array, 384)[0] = b"x"

    assert ends_by(write, Guard(BEHIND, may_read=True)) == -signal.SIGSEGV


def test_a_write_to_a_forbidden_array_ends_the_process() -> None:
    def write(array: GuardedArray) -> None:
        array.forbid_writing()
        byte_at(array, 0)[0] = b"x"

    assert ends_by(write, Guard()) == -signal.SIGSEGV


def test_a_write_to_the_margin_is_seen() -> None:
    array = GuardedArray((3,), "float32", Guard(BEHIND))
    array.array[...] = 1
    assert array.margins_are_kept()
    byte_at(array, 12)[0] = b"x"
    assert not array.margins_are_kept()


@pytest.mark.parametrize("side", [BEHIND, BEFORE, ""])
def test_arrays_are_aligned_as_tensors_are(side: str) -> None:
    assert GuardedArray((5, 7), "float32", Guard(side)).array.ctypes.data % 64 == 0
