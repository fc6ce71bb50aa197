"""Runs inferences at the same time, each function always in one thread. Standard library only."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from threading import Barrier

from passsearch.engines.contract import Request


class Lanes:
    """A thread for each function. The threads stay, because engines keep pools of their own for each of them."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._lanes = [(ThreadPoolExecutor(1), request) for request in requests]

    def warm_up(self) -> None:
        """Run every function once, all at the same time."""
        self._run([request for _, request in self._lanes])

    def rate(self, longest_s: float) -> float:
        """Return inferences per second, all threads together; each begins no further one after ``longest_s``."""
        barrier = Barrier(len(self._lanes))
        return sum(self._run([partial(_rate, request, longest_s, barrier) for _, request in self._lanes]))

    def _run(self, functions: Sequence[Callable[[], object]]) -> list[float]:
        futures = [lane.submit(function) for (lane, _), function in zip(self._lanes, functions, strict=True)]
        wait(futures)
        return [future.result() for future in futures]  # type: ignore[misc]


def _rate(request: Request, longest_s: float, barrier: Barrier) -> float:
    try:
        barrier.wait()
        begin_s, count = time.perf_counter(), 0
        while not count or time.perf_counter() - begin_s < longest_s:
            request()
            count += 1
        return count / (time.perf_counter() - begin_s)
    except BaseException:
        barrier.abort()
        raise
