"""The limit of memory reaches the compiler processes of every function that starts some."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest
from run_folders import unpack

import passsearch
from passsearch.toolchain import Toolchain

LIMIT_GB = 3.25
CALLS: dict[str, Callable[..., Any]] = {
    "explore": lambda network, _, **options: passsearch.explore(network, passes=["FoldConstant"], **options),
    "compare": lambda network, _, **options: passsearch.compare(network, [], **options),
    "profile": lambda network, _, **options: passsearch.profile(network, **options),
    "profile of a run": lambda _, run, **options: passsearch.profile(run, **options),
    "audit": lambda _, run, **options: passsearch.audit(run, **options),
    "ablate": lambda _, run, **options: passsearch.ablate(run, **options),
    "tune": lambda network, _, **options: passsearch.tune(network, trials=1, **options),
    "bench": lambda network, _, **options: passsearch.bench(network, [f"{options.pop('toolchain')}:zero"], **options),
}


class Seen(Exception):
    """Ends a call whose workers were looked at."""


@contextmanager
def limits_of_workers() -> Iterator[tuple[set[int], Event]]:
    """Yield the limits of memory of this process's children, collected in the background, and the first's event."""
    limits, seen, ends = set[int](), Event(), Event()

    def watch() -> None:
        while not ends.wait(0.05):
            for child in psutil.Process().children():
                try:
                    limit, _ = child.rlimit(resource.RLIMIT_DATA)
                except psutil.Error:
                    continue
                if limit != resource.RLIM_INFINITY:
                    limits.add(limit)
                    seen.set()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield limits, seen
    finally:
        ends.set()
        thread.join()


OF_ONE_KIND = {"bench", "profile of a run"}
"""Calls that start their workers as another one does, of compare and of profile."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.slow) if each in OF_ONE_KIND else each for each in CALLS]
)
def test_the_limit_of_memory_reaches_the_compilers(
    relax: Toolchain, small_network: Path, tmp_path: Path, name: str
) -> None:
    run = unpack("relax-finished", tmp_path)

    with limits_of_workers() as (limits, seen):

        def stop(*_: object) -> None:
            if seen.is_set():
                raise Seen

        with suppress(Seen):
            CALLS[name](small_network, run, toolchain=relax.name, memory=LIMIT_GB, progress=stop)
    assert limits == {int(LIMIT_GB * 1e9)}
