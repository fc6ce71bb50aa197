"""Several inferences at the same time are counted by one clock."""

import sys
import time
from threading import Lock

import pytest

from passsearch.engines.request_threads import RequestThreads


def test_threads_that_take_turns_have_the_rate_of_one() -> None:
    core = Lock()

    def inference() -> None:
        with core:
            time.sleep(0.02)

    alone, together = (RequestThreads([inference] * count).rate(0.2) for count in (1, 2))
    assert alone == pytest.approx(together, rel=0.4)


def test_a_thread_that_gets_its_core_late_does_not_add_a_rate_of_its_own() -> None:
    def inference() -> None:
        end = time.perf_counter() + 0.02
        while time.perf_counter() < end:
            pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(10.0)  # the thread that runs first runs to its end, and the other one begins after that
    try:
        assert RequestThreads([inference, inference]).rate(0.2) == pytest.approx(1 / 0.02, rel=0.2)
    finally:
        sys.setswitchinterval(interval)


def test_threads_that_do_not_disturb_each_other_add_up() -> None:
    one = RequestThreads([lambda: time.sleep(0.02)]).rate(0.3)
    both = RequestThreads([lambda: time.sleep(0.02)] * 2).rate(0.3)
    assert both == pytest.approx(2 * one, rel=0.25)
