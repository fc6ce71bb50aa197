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
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.generic]
Inputs: TypeAlias = Mapping[str, Array]
"""Inputs by name, in the order of the model file."""

Request: TypeAlias = Callable[[], object]
"""Runs one inference and waits for it."""

REQUIREMENTS = Path(__file__).parent / "requirements"
"""Folder of the lock files of all engines."""


class OptionError(ValueError):
    """An option of an engine that the user named is unknown, or has an impossible value."""


class KernelCall(NamedTuple):
    """A call of a kernel in one inference.

    Attributes:
        name: Name of the kernel.
        seconds: Its seconds.
        operator: What it computes, by a name that other versions of the engine have too; empty if that is ``name``.
        shape: Shapes of what it computes on; empty if the profiler does not say them.
    """

    name: str
    seconds: float
    operator: str = ""
    shape: str = ""


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

    def kernels(self, runs: int) -> Sequence[KernelCall]:
        """Return the kernel calls of one inference.

        The seconds are the fastest of so many runs. Where a profiler only adds up all calls of a name, they are the
        mean of these calls over the runs; the adapter says so.

        Raises:
            NotImplementedError: The engine has no profiler.
        """


def fastest_calls(runs: Sequence[Sequence[KernelCall]]) -> list[KernelCall]:
    """Return every call of an inference with its fastest time over several runs, which make the same calls."""
    return [min(calls, key=lambda call: call.seconds) for calls in zip(*runs, strict=True)]


def shape_text(shapes: Iterable[Iterable[int]]) -> str:
    """Return the shapes of a kernel's arguments as one text, such as ``1x3x8x8 16x3x3x3``."""
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def started_threads(before: int) -> int:
    """Return the number of threads that this process started since it had ``before``, and the caller's."""
    return count_threads() - before + 1


def count_threads() -> int:
    """Return the number of threads of this process."""
    return len(list(Path("/proc/self/task").iterdir()))
