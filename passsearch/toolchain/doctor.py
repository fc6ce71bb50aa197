"""What works on this machine, what is missing, and the command that mends it."""

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from passsearch.core import Json
from passsearch.dialects import DIALECTS
from passsearch.errors import EnvironmentFault, PassSearchError
from passsearch.toolchain.folders import cache_folder, data_folder
from passsearch.toolchain.install import DISK_BYTES, held_frameworks, is_current
from passsearch.toolchain.probe import probe
from passsearch.toolchain.record import Toolchain
from passsearch.toolchain.registry import list_toolchains

PYTHONS = ((3, 10), (3, 14))
"""Half-open range of Python versions the library itself runs on."""

_COMPILERS = ("cc", "gcc", "clang", "c++", "g++")
_NO_COMPILER = "Install gcc or clang, or set CC."
_RAPL = "/sys/class/powercap"
_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


@dataclass(frozen=True)
class Finding:
    """One thing the doctor looked at.

    Attributes:
        name: What was looked at.
        ok: Whether it works; ``None`` for what is optional and absent, or only said for information.
        detail: What was found.
        remedy: What to do about it; empty if nothing.
    """

    name: str
    ok: bool | None
    detail: str
    remedy: str = ""

    def to_json(self) -> dict[str, Json]:
        """The form of ``doctor --json``."""
        return asdict(self)


def require_c_compiler() -> str:
    """Path of the C compiler that links what TVM builds.

    Raises:
        EnvironmentFault: There is none.
    """
    chosen = shlex.split(os.environ.get("CC", ""))[:1]
    found = next(filter(None, map(shutil.which, (*chosen, *_COMPILERS))), None)
    if found is None:
        raise EnvironmentFault(f"No C compiler found. {_NO_COMPILER} See: passsearch doctor")
    return found


def diagnose() -> tuple[Finding, ...]:
    """Look at everything a search needs; probes every toolchain, so it takes a second or two for each."""
    return (
        _python(),
        _c_compiler(),
        *_toolchains(),
        _room("data folder", data_folder(), needed_bytes=DISK_BYTES),
        _room("cache folder", cache_folder(), needed_bytes=DISK_BYTES // 10),
        _cores(),
        _governor(),
        _gpu(),
        _rapl(),
    )


def _python() -> Finding:
    low, high = PYTHONS
    ok = low <= sys.version_info[:2] < high
    wanted = f"Use Python {low[0]}.{low[1]} to {high[0]}.{high[1] - 1}."
    return Finding("python", ok, f"{platform.python_version()} at {sys.executable}", "" if ok else wanted)


def _c_compiler() -> Finding:
    try:
        return Finding("c compiler", True, require_c_compiler())
    except EnvironmentFault:
        return Finding("c compiler", False, "none found", _NO_COMPILER)


def _toolchains() -> Iterator[Finding]:
    try:
        registered = list_toolchains()
    except PassSearchError as error:
        yield Finding("toolchains", False, str(error), "See the line itself.")
        return
    yield from map(_toolchain, registered)
    for name in DIALECTS:
        if all(toolchain.dialect != name for toolchain in registered):
            command = f"passsearch toolchain install {name}"
            yield Finding(f"dialect {name}", False, "no toolchain", f"Run: {command}")


def _toolchain(toolchain: Toolchain) -> Finding:
    name = f"toolchain {toolchain.name}"
    remedy = f"Run: passsearch toolchain remove {toolchain.name}, and install or add it again."
    try:
        answer = probe(toolchain.python).named(toolchain.name, toolchain.python)
    except PassSearchError as error:
        return Finding(name, False, str(error), remedy)
    if not is_current(toolchain):
        update = f"Run: passsearch toolchain install {toolchain.dialect}"
        return Finding(name, False, "made by another version of passsearch", update)
    if not answer.llvm_version and not answer.targets:
        return Finding(name, False, f"TVM {answer.tvm_version} without LLVM", "Use one built with LLVM.")
    cuda = "CUDA device" if answer.cuda_device else "CUDA, no device" if answer.cuda else "no CUDA"
    versions = ", ".join(["TVM " + answer.tvm_version, "LLVM " + answer.llvm_version, *held_frameworks(toolchain)])
    return Finding(name, True, f"{answer.dialect}, {versions}, {cuda}, {answer.python}")


def _room(name: str, folder: Path, *, needed_bytes: int) -> Finding:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{folder}, {free / 1e9:.1f} GB free"
    if not os.access(existing, os.W_OK):
        return Finding(name, False, f"{detail}, not writable", f"Make `{existing}` writable.")
    if free < needed_bytes:
        return Finding(name, False, detail, f"Make room for {needed_bytes / 1e9:.1f} GB.")
    return Finding(name, True, detail)


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("cores", None, f"{usable} of {os.cpu_count()} usable")


def _governor() -> Finding:
    governor = _first_line(_GOVERNOR)
    if governor in ("", "performance"):
        return Finding("cpu governor", None, governor or "not shown by this system (virtual machine?)")
    advice = "Timing is steadier with: cpupower frequency-set -g performance"
    return Finding("cpu governor", None, governor, advice)


def _gpu() -> Finding:
    driver = _first_line("/proc/driver/nvidia/version")
    if driver or shutil.which("nvidia-smi"):
        return Finding("nvidia driver", True, driver or "nvidia-smi found")
    return Finding("nvidia driver", None, "none: no GPU targets, and no power or temperature of a GPU")


def _rapl() -> Finding:
    counters = sorted(map(str, Path(_RAPL).glob("*rapl:?/energy_uj")))
    if not counters:
        return Finding("cpu energy counter", None, "none (RAPL is not shown by this system)")
    if all(map(_first_line, counters)):
        return Finding("cpu energy counter", True, ", ".join(counters))
    remedy = f"As root: chmod a+r {_RAPL}/*/energy_uj"
    return Finding("cpu energy counter", None, f"{', '.join(counters)}: not readable", remedy)


def _first_line(path: str) -> str:
    try:
        return (Path(path).read_text(encoding="utf-8").splitlines() or [""])[0]
    except OSError:
        return ""
