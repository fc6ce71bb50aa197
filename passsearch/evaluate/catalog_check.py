"""The catalog held against a real compiler, one request to a worker for every entry."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from passsearch.catalog import CatalogEntry
from passsearch.core import Json
from passsearch.dialects import dialect
from passsearch.errors import WorkerDied
from passsearch.toolchain import Toolchain, host_target
from passsearch.worker import Worker

DEADLINE_S = 120.0


GPU = "cuda -arch=sm_80"
"""What passes for a GPU are tried for; that needs none."""


@dataclass(frozen=True)
class Checked:
    """What a compiler says of one entry.

    Attributes:
        name: The pass.
        problems: Each in a sentence; none if the entry holds.
        skipped: Why it was not checked, empty if it was.
    """

    name: str
    problems: tuple[str, ...] = ()
    skipped: str = ""

    def to_json(self) -> dict[str, Json]:
        """The form of ``catalog check --json``."""
        return {**asdict(self), "problems": list(self.problems)}


def check_entries(
    toolchain: Toolchain,
    entries: Sequence[CatalogEntry],
    *,
    paths: tuple[str, ...] = (),
    progress: Callable[[str, int, int], None],
) -> tuple[Checked, ...]:
    """Check entries one by one; one that takes its process with it is a problem of that entry alone.

    Args:
        toolchain: Whose compiler is asked.
        entries: What to check.
        paths: Import paths of the user's own passes.
        progress: Told which entry is under way.

    Raises:
        EnvironmentFault: The compiler does not start.
    """
    checked = []
    with _asking(toolchain, paths) as ask:
        for number, entry in enumerate(entries):
            progress(f"checking {entry.name}", number, len(entries))
            checked.append(_check(toolchain, entry, ask=ask))
    return tuple(checked)


def _check(toolchain: Toolchain, entry: CatalogEntry, *, ask: Callable[[dict[str, Any]], dict[str, Any]]) -> Checked:
    if not entry.supports(toolchain.tvm_version):
        return Checked(entry.name, skipped=f"needs TVM {entry.tvm}; this is {toolchain.tvm_version}")
    arguments = {
        "name": entry.name,
        "factory": entry.factory,
        "arguments": list(entry.samples()),
        "opt_level": entry.opt_level,
        "target": GPU if entry.devices == ("gpu",) and toolchain.cuda else host_target(toolchain),
    }
    request = {"verb": "check", "checker": dialect(toolchain.dialect).checker, "arguments": arguments}
    try:
        answer = ask(request)
    except WorkerDied as error:
        return Checked(entry.name, (f"{error.kind}: {error}",))
    if "error" in answer:
        return Checked(entry.name, (str(answer["error"]["reason"]),))
    return Checked(entry.name, tuple(answer["problems"]))


@contextmanager
def _asking(toolchain: Toolchain, paths: tuple[str, ...]) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """Ask a worker that is started when there is none (any more), and ended with the block."""
    workers: list[Worker] = []

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        if not workers or not workers[-1].alive:
            workers.append(_start(toolchain, Path(folder), paths=paths))
        return workers[-1].ask(request, deadline_s=DEADLINE_S)

    with TemporaryDirectory(prefix="passsearch-") as folder:
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
