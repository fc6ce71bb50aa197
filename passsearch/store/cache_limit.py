"""The limit of the cache folder: what was used longest ago is removed first, and nothing that a process is using."""

import contextlib
import fcntl
import logging
import os
import re
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from passsearch.core import NOTICE_LOG, PARTIAL, folder_bytes
from passsearch.store.deletion import delete_leftovers
from passsearch.store.runs import delete_run, run_folders

LONGEST_IMPORT_S = 24 * 3600.0
"""An age at which no import writes to its folder any more."""

RECENT_S = 3600.0
"""An entry used within this many seconds is not removed: a process holds no lock between writing an entry and opening
it."""

STAMP = "limited"
"""File in the cache folder that says when, and to how many bytes, the cache was last limited."""

FILES = {("memory", ".jsonl"): "fact cache", ("kernels", ".jsonl"): "fact cache", ("graphs", ".json"): "graph"}
"""Kind of the entries that are one file each, by folder and ending."""

# The files of one network have a digest in their names, and only the ends of the names differ.
_NETWORK = re.compile(r".*?-[0-9a-f]{16}(?![0-9a-f])")

_notices = logging.getLogger(NOTICE_LOG)


@dataclass(frozen=True)
class CacheEntry:
    """What is removed from the cache as a whole: a run, an imported network, the facts on a network, or its graph.

    Attributes:
        kind: ``run``, ``network``, ``fact cache`` or ``graph``.
        paths: Its files or folders.
        bytes: Their size.
        age_s: Seconds since the last use.
    """

    kind: str
    paths: tuple[Path, ...]
    bytes: int
    age_s: float


def cache_entries(cache: Path) -> list[CacheEntry]:
    """Return what the cache folder holds, the least recently used first."""
    files = [(kind, [path]) for (name, end), kind in FILES.items() for path in (cache / name).glob(f"*{end}")]
    networks: defaultdict[str, list[Path]] = defaultdict(list)
    for path in (cache / "models").glob("*-*"):
        if match := _NETWORK.match(path.name):
            networks[match[0]].append(path)
    # The age of a run is that of its last measurement.
    runs = [("run", [folder]) for folder in run_folders(cache / "runs")]
    entries: list[CacheEntry] = []
    for kind, paths in [*runs, *files, *(("network", paths) for paths in networks.values())]:
        with contextlib.suppress(FileNotFoundError):  # another process has removed it meanwhile
            entries.append(_entry(kind, paths))
    return sorted(entries, key=lambda entry: -entry.age_s)


def limit_cache(cache: Path, *, limit_bytes: float, recent_s: float = RECENT_S) -> list[CacheEntry]:
    """Remove what was used longest ago until the cache is within its limit; tell the user in one line.

    Args:
        cache: The cache folder.
        limit_bytes: Largest size of all entries together.
        recent_s: Seconds for which a used entry stays in any case.

    Returns:
        The removed entries.
    """
    delete_leftovers(cache / "runs")
    for folder in ("models", "graphs"):
        _delete_old_partial(cache / folder)
    entries = cache_entries(cache)
    excess, removed = sum(entry.bytes for entry in entries) - limit_bytes, list[CacheEntry]()
    for entry in entries:
        if excess <= 0 or entry.age_s < recent_s:
            break
        if _remove(entry):
            removed.append(entry)
            excess -= entry.bytes
    if removed:
        _notices.warning("%s", _removal(removed, cache=cache, limit_bytes=limit_bytes))
    return removed


def _delete_old_partial(parent: Path) -> None:
    """Delete folders that killed imports have left; no import takes a day."""
    for folder in parent.glob(f"{PARTIAL}*"):
        with contextlib.suppress(OSError):  # another process has removed it meanwhile
            if time.time() - folder.stat().st_mtime > LONGEST_IMPORT_S:
                shutil.rmtree(folder)


def limit_cache_hourly(cache: Path, *, limit_bytes: float) -> list[CacheEntry]:
    """Limit the cache as ``limit_cache`` does, but only if that was not done in the last hour with the same limit.

    What was made or used meanwhile stays for an hour in any case, so looking at all runs more often finds little.
    """
    stamp, text = cache / STAMP, f"{limit_bytes:.0f}\n"
    with contextlib.suppress(OSError, ValueError):
        # A clock that was set back makes the stamp one of the future.
        if stamp.read_text() == text and 0 <= time.time() - stamp.stat().st_mtime < RECENT_S:
            return []
    # Before the look at the cache, which several commands that start together need not all have. A shared cache may be
    # read-only.
    with contextlib.suppress(OSError):
        stamp.write_text(text)
    return limit_cache(cache, limit_bytes=limit_bytes)


@contextmanager
def in_use(cache: Path, paths: Iterable[Path]) -> Iterator[None]:
    """Keep those networks that are in the cache folder, or in a run there, from being removed.

    Networks are marked as used now; the age of a run stays that of its last measurement.
    """
    networks, runs = cache / "models", cache / "runs"
    with ExitStack() as stack:
        for path in paths:
            # A shared cache may be read-only or on a file system without locks, and the run may be this process's own,
            # which holds its lock already. Nobody removes networks elsewhere, and their times are their owner's.
            with contextlib.suppress(OSError):
                if path.is_relative_to(networks):
                    entry = networks / path.relative_to(networks).parts[0]
                    stack.enter_context(_locked(entry, fcntl.LOCK_SH))
                    os.utime(entry)
                elif path.is_relative_to(runs):
                    entry = runs / path.relative_to(runs).parts[0]
                    stack.enter_context(_locked(entry / ".lock", fcntl.LOCK_SH))
        yield


def _entry(kind: str, paths: list[Path]) -> CacheEntry:
    size = sum(folder_bytes(path) if path.is_dir() else path.stat().st_size for path in paths)
    used = max((path / "log.jsonl" if kind == "run" else path).stat().st_mtime for path in paths)
    return CacheEntry(kind, tuple(sorted(paths)), size, max(0.0, time.time() - used))


def _remove(entry: CacheEntry) -> bool:
    """Return whether an entry was removed: one in use is not."""
    if entry.kind == "run":
        return delete_run(entry.paths[0])
    try:
        with ExitStack() as stack:
            if entry.kind == "fact cache":
                stack.enter_context(FileLock(entry.paths[0].with_suffix(".lock"), timeout=0))
            else:
                for path in entry.paths:
                    stack.enter_context(_locked(path, fcntl.LOCK_EX))
            for path in entry.paths:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    except (Timeout, OSError):  # in use, or another process removed it
        return False
    return True


@contextmanager
def _locked(path: Path, operation: int) -> Iterator[None]:
    """Lock a file or folder without waiting; the lock ends with the process at the latest."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _removal(removed: list[CacheEntry], *, cache: Path, limit_bytes: float) -> str:
    numbers = Counter(entry.kind for entry in removed)
    what = ", ".join(f"{number} {kind}{'s' * (number > 1)}" for kind, number in numbers.items())
    megabytes = sum(entry.bytes for entry in removed) / 1e6
    return (
        f"removed from the cache {cache}: {what}, {megabytes:.0f} MB, used longest ago, to stay within "
        f"{limit_bytes / 1e9:g} GB (PASSSEARCH_CACHE_GB)"
    )
