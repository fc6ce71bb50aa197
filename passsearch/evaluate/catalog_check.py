"""The catalog checked against a real compiler, one request to a worker for every entry."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from passsearch.catalog import CatalogEntry
from passsearch.dialects import dialect
from passsearch.errors import WorkerDied
from passsearch.results import CheckedEntry
from passsearch.toolchain import Toolchain, host_target
from passsearch.worker import ScratchFolder, Worker

DEADLINE_S = 120.0
"""Longest time to check one entry."""

GPU = "cuda -arch=sm_80"
"""Target on which passes for GPUs are checked. Compiling for it needs no GPU."""

_log = logging.getLogger(__name__)


def check_entries(
    toolchain: Toolchain,
    entries: Sequence[CatalogEntry],
    *,
    paths: tuple[str, ...] = (),
    progress: Callable[[str, int, int], None],
) -> tuple[CheckedEntry, ...]:
    """Check entries one by one; an entry that crashes its process is a problem of that entry alone.

    Args:
        toolchain: Toolchain of the compiler.
        entries: Entries to check.
        paths: Import paths of the user's own passes.
        progress: Callback; gets the entry that is being checked.

    Raises:
        EnvironmentFault: The compiler does not start.
    """
    results = []
    with _restarting_worker(toolchain, paths) as ask:
        for number, entry in enumerate(entries):
            progress(f"checking {entry.name}", number, len(entries))
            _log.info("checking catalog entry %s", entry.name)
            results.append(_check(toolchain, entry, ask=ask))
    return tuple(results)


def _check(
    toolchain: Toolchain, entry: CatalogEntry, *, ask: Callable[[dict[str, Any]], dict[str, Any]]
) -> CheckedEntry:
    if not entry.supports(toolchain.tvm_version):
        return CheckedEntry(entry.name, skipped=f"needs TVM {entry.tvm}; this is {toolchain.tvm_version}")
    arguments = {
        "name": entry.name,
        "factory": entry.factory,
        "arguments": list(entry.argument_sets()),
        "opt_level": entry.opt_level,
        "target": GPU if entry.devices == ("gpu",) and toolchain.cuda else host_target(toolchain),
    }
    request = {"verb": "check", "checker": dialect(toolchain.dialect).checker, "arguments": arguments}
    try:
        answer = ask(request)
    except WorkerDied as error:
        return CheckedEntry(entry.name, (f"{error.kind}: {error}",))
    if "error" in answer:
        return CheckedEntry(entry.name, (str(answer["error"]["reason"]),))
    return CheckedEntry(entry.name, tuple(answer["problems"]))


@contextmanager
def _restarting_worker(
    toolchain: Toolchain, paths: tuple[str, ...]
) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """Yield a function that sends requests to a worker, which is started again after it has died."""
    workers: list[Worker] = []

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        if not workers or not workers[-1].alive:
            _log.debug("starting worker %d of the check", len(workers) + 1)
            workers.append(_start(toolchain, folder, paths=paths))
        return workers[-1].ask(request, deadline_s=DEADLINE_S)

    with ScratchFolder() as folder:
        try:
            yield ask
        finally:
            _close(workers)


def _start(toolchain: Toolchain, folder: Path, *, paths: tuple[str, ...]) -> Worker:
    bridge, target = dialect(toolchain.dialect).bridge, host_target(toolchain)
    return Worker(toolchain.python, bridge=bridge, target=target, threads=1, log=folder / "worker.log", paths=paths)


def _close(workers: Iterable[Worker]) -> None:
    for worker in workers:
        worker.close()
