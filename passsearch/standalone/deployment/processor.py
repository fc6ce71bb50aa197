"""The processors that this process may use, and the features of processors that compiled code needs."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path, PurePosixPath
from typing import Any

FEATURES = {
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sse4a": "sse4a",
    "popcnt": "popcnt",
    "lzcnt": "abm",
    "movbe": "movbe",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512ifma": "avx512ifma",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bitalg": "avx512_bitalg",
    "avxvnni": "avx_vnni",
    "gfni": "gfni",
    "neon": "asimd",
    "rdm": "asimdrdm",
    "complxnum": "fcma",
    "sha3": "sha3",
    "cssc": "cssc",
    "dotprod": "asimddp",
    "fullfp16": "asimdhp",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
    "sve2p1": "sve2p1",
}
"""Linux's names (``/proc/cpuinfo``) by LLVM's, of what LLVM uses in ordinary code. Others, such as AMX, need calls."""

CPU_INFO = Path("/proc/cpuinfo")


def needs(features: Any) -> list[str]:
    """Return Linux's names of the features that code for a target may use, from all of LLVM's."""
    names = set(map(str, features))
    return [linux for llvm, linux in FEATURES.items() if llvm in names]


def missing(architecture: str, names: Any) -> list[str]:
    """Return what this processor lacks of an architecture and features; nothing where the system does not list them."""
    if architecture not in ("", platform.machine()):
        return [architecture]
    own = _own_features()
    return [name for name in names if own and name not in own]


def _own_features() -> set[str]:
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        return set()
    # x86 has `flags`, Arm has `Features`; the cores may differ, and code may run on each.
    found = [set(line.partition(":")[2].split()) for line in lines if line.startswith(("flags", "Features"))]
    return set.intersection(*found) if found else set()


SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
"""Linux's file with the processors of the same core, for the number of a processor."""

THREADS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables by which a user sets TVM's number of threads (its threading_backend.cc)."""


def use_all_cores() -> None:
    """Let TVM run a kernel on every core, unless the user has set the number of threads; before its first kernel.

    By itself TVM takes half of the processors on x86, because they could be two for each core.
    """
    if not any(name in os.environ for name in THREADS):
        os.environ[THREADS[0]] = str(physical_cores())


def usable_processors() -> list[int]:
    """Return the numbers of the processors: one of every core first, so that as many threads share no core."""
    processors, firsts = sorted(os.sched_getaffinity(0)), _first_of_each_core()
    return [*firsts, *(each for each in processors if each not in firsts)]


def physical_cores() -> int:
    """Return the number of cores that this process may use, as a limit of its time in control groups leaves it.

    A thread more than that would run for a part of each period, and the others would wait for it.
    """
    return max(1, int(min(len(_first_of_each_core()), processor_quota())))


def _first_of_each_core() -> list[int]:
    firsts: dict[str, int] = {}
    for processor in sorted(os.sched_getaffinity(0)):
        firsts.setdefault(_siblings(processor), processor)
    return list(firsts.values())


def _siblings(processor: int) -> str:
    """Return the processors of the same core as text; the processor itself where the system does not tell."""
    try:
        return Path(SIBLINGS.format(processor)).read_text(encoding="ascii").strip()
    except OSError:
        return str(processor)


GROUPS, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Where Linux mounts the file systems of control groups, and the list of the groups that this process is in."""


def group_folders(kind: str, folder: Path = GROUPS, membership: Path = MEMBERSHIP) -> list[Path]:
    """Return the folders of all groups of this process, up to the outermost that it can see; some may not exist.

    Source: ``cgroups(7)``; a limit of a group bounds all groups below it. A batch system or systemd sets it on a group
    of its own. A container sees its own group as the outermost one, whatever the list says.

    Args:
        kind: What is limited: ``memory`` or ``cpu``.
        folder: Folder of the file systems of control groups.
        membership: File with the groups of this process, in the form of ``/proc/self/cgroup``.
    """
    try:
        lines = membership.read_text(errors="surrogateescape").splitlines()
    except OSError:
        lines = []
    paths = {
        kinds: PurePosixPath(path) for _, kinds, path in (line.split(":", 2) for line in lines if line.count(":") > 1)
    }
    nothing = PurePosixPath("/")
    # The second version has one hierarchy, whose line names no kinds; the first has one for each kind.
    of_first = next((path for kinds, path in paths.items() if kind in kinds.split(",")), nothing)
    return [
        mount / group.relative_to("/")
        for mount, path in ((folder, paths.get("", nothing)), (folder / kind, of_first))
        for group in (path, *path.parents)
        # A group outside of the namespace of this process begins with "..", and is nowhere in its file system.
        if ".." not in group.parts
    ]


def processor_quota(folder: Path = GROUPS, membership: Path = MEMBERSHIP) -> float:
    """Return the number of processors whose time this process may use; infinite without a limit."""
    shares = [float("inf")]
    for group in group_folders("cpu", folder, membership):
        # No file: a group that is not mounted here. "max", or -1 in the first version, stands for no limit.
        with contextlib.suppress(OSError, ValueError):
            quota, period = map(int, (group / "cpu.max").read_text().split())
            shares.append(quota / period)
        with contextlib.suppress(OSError, ValueError):
            quota = int((group / "cpu.cfs_quota_us").read_text())
            if quota > 0:
                shares.append(quota / int((group / "cpu.cfs_period_us").read_text()))
    return min(shares)
