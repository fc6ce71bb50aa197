"""Runs inferences at the same time, each function always in one thread. Standard library only."""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from threading import Barrier, Lock
from typing import TypeVar

from passsearch.engines.contract import Request

Result = TypeVar("Result")


class RequestThreads:
    """A thread for each function. The threads stay, because engines keep pools of their own for each of them."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._threads = [(ThreadPoolExecutor(1), request) for request in requests]

    def warm_up(self) -> None:
        """Run every function once, all at the same time."""
        self._run([request for _, request in self._threads])

    def rate(self, longest_s: float) -> float:
        """Return inferences per second, all threads together; each begins no further one after ``longest_s``.

        The time is that from the first begin to the last end. A thread that waits for a core begins late, and rates of
        threads that ran one after another would add up to more than the cores can do.
        """
        start = _Start(Barrier(len(self._threads)))
        counted = self._run([partial(_count, request, longest_s, start) for _, request in self._threads])
        return sum(count for count, _ in counted) / (max(end_s for _, end_s in counted) - start.begin_s)

    def _run(self, functions: Sequence[Callable[[], Result]]) -> list[Result]:
        futures = [thread.submit(function) for (thread, _), function in zip(self._threads, functions, strict=True)]
        wait(futures)
        return [future.result() for future in futures]


class _Start:
    """The time at which the first thread begins, once all are there."""

    def __init__(self, barrier: Barrier) -> None:
        self.barrier, self.begin_s = barrier, math.inf
        self._lock = Lock()

    def wait(self) -> None:
        """Wait for all threads."""
        self.barrier.wait()
        with self._lock:
            self.begin_s = min(self.begin_s, time.perf_counter())


def _count(request: Request, longest_s: float, start: _Start) -> tuple[int, float]:
    """Return the number of inferences, and the time at which the last one ended."""
    start.wait()
    count = 0
    while not count or time.perf_counter() - start.begin_s < longest_s:
        request()
        count += 1
    return count, time.perf_counter()
