"""The processors that this process may use. Two of them may be hyper-threads of one core."""

import os
from pathlib import Path

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def usable_processors() -> list[int]:
    """Return the numbers of the processors: one of every core first, so that as many threads share no core."""
    processors, firsts = sorted(os.sched_getaffinity(0)), _first_of_each_core()
    return [*firsts, *(each for each in processors if each not in firsts)]


def physical_cores() -> int:
    """Return the number of cores. TVM counts the same on x86 (``MaxConcurrency`` in its threading_backend.cc)."""
    return len(_first_of_each_core())


def _first_of_each_core() -> list[int]:
    firsts: dict[str, int] = {}
    for processor in sorted(os.sched_getaffinity(0)):
        firsts.setdefault(_siblings(processor), processor)
    return list(firsts.values())


def _siblings(processor: int) -> str:
    """Return the processors of the same core as text; the processor itself where the system does not tell."""
    try:
        return Path(_SIBLINGS.format(processor)).read_text(encoding="ascii").strip()
    except OSError:
        return str(processor)
