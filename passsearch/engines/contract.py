"""The contract of an adapter. Standard library and numpy only: adapters run in interpreters without passsearch.

An adapter is a module of ``passsearch/engines/adapters/`` with

* ``ENVIRONMENT``, the packages that it needs,
* ``ENGINES``, the engines that it has: the settings of each, by the name that users type,
* ``open_engine(model, *, threads, inputs, …)``, whose further keywords are the settings. It returns an ``Engine`` that
  is compiled and ready to run; ``threads=None`` leaves their number to the engine. Whatever it raises becomes the
  reason why this engine has no result.

``DEVICES``, if there is one, names the kinds of devices that its engines run on, ``cpu`` and ``cuda``, instead of the
CPU alone; ``open_engine`` gets the keyword ``device`` for another than the CPU. ``LOWERED``, if there is one, names
those of the engines that may compute in less than float32.

The engine's library is imported inside ``open_engine`` only, because the declarations are read where it is missing.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.generic]
Inputs: TypeAlias = Mapping[str, Array]
"""Inputs by name, in the order of the model file."""

Request: TypeAlias = Callable[[], object]
"""Runs one inference and waits for it."""

REQUIREMENTS = Path(__file__).parent / "requirements"
"""Folder of the lock files of all engines."""


class Engine(Protocol):
    """A network in one engine, with its inputs bound.

    Attributes:
        threads: Number of threads that the engine uses.
        versions: Versions of what runs, by package.
        settings: Settings that differ from the engine's defaults.
    """

    threads: int
    versions: Mapping[str, str]
    settings: Mapping[str, Any]

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Run one inference and return its outputs, in the order of the model file. Called before ``infer``."""

    def infer(self) -> None:
        """Run one inference of the bound inputs and wait for it; outputs stay where the engine puts them."""

    def requests(self, count: int) -> Sequence[Request]:
        """Return functions of which each runs one inference, all at the same time, each in a thread of its own.

        Together they use the threads of the engine. They are fewer than ``count`` where two would share a thread: the
        other requests wait, as in a queue.

        Raises:
            NotImplementedError: The engine runs one inference at a time.
        """

    def kernels(self, runs: int) -> Sequence[tuple[str, float]]:
        """Return the names and seconds of the kernel calls of one inference, a row for each call.

        The seconds are the fastest of so many runs. Where a profiler only adds up all calls of a name, they are the
        mean of these calls over the runs; the adapter says so.

        Raises:
            NotImplementedError: The engine has no profiler.
        """


def fastest_calls(runs: Sequence[Sequence[tuple[str, float]]]) -> list[tuple[str, float]]:
    """Return every call of an inference with its fastest time over several runs, which make the same calls."""
    return [(calls[0][0], min(seconds for _, seconds in calls)) for calls in zip(*runs, strict=True)]


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def started_threads(before: int) -> int:
    """Return the number of threads that this process started since it had ``before``, and the caller's."""
    return count_threads() - before + 1


def count_threads() -> int:
    """Return the number of threads of this process."""
    return len(list(Path("/proc/self/task").iterdir()))
