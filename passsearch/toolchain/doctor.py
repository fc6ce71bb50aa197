"""Check what a search needs on this machine, and name the command that provides what is missing."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from passsearch.core import Json, folder_bytes
from passsearch.dialects import DIALECTS
from passsearch.errors import EnvironmentFault, PassSearchError
from passsearch.standalone.deployment.linker import find_linker
from passsearch.toolchain.folders import cache_limit_bytes, data_folder, user_cache_folder
from passsearch.toolchain.host import host_cpu
from passsearch.toolchain.install import DISK_BYTES, installed_frameworks, is_current
from passsearch.toolchain.probe import probe
from passsearch.toolchain.record import Toolchain
from passsearch.toolchain.registry import list_toolchains

_NO_COMPILER = "Install gcc or clang, or set CC."
SMALLER = "Delete old runs: passsearch runs clean --older-than DAYS. Or set another limit: PASSSEARCH_CACHE_GB"
_RAPL = "/sys/class/powercap"
_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


@dataclass(frozen=True)
class Requirements:
    """The minimum that a machine must have.

    Attributes:
        pythons: Half-open range of the Python versions that passsearch itself runs on.
        data_bytes: Free space for the data folder: one toolchain without frameworks.
        cache_bytes: Free space for the cache folder: networks and measured facts.
    """

    pythons: tuple[tuple[int, int], tuple[int, int]] = ((3, 10), (3, 14))
    data_bytes: int = DISK_BYTES
    cache_bytes: int = DISK_BYTES // 10


_REQUIREMENTS = Requirements()


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: The name of the check.
        ok: True if it works and false if it does not; ``None`` for information, or for something
            optional.
        detail: The state that was found.
        remedy: The next step for the user; empty if there is nothing to do.
    """

    name: str
    ok: bool | None
    detail: str
    remedy: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the entry of ``doctor --json``."""
        return asdict(self)


def require_c_compiler() -> str:
    """Return the path of the C compiler that links what TVM builds.

    Raises:
        EnvironmentFault: There is no C compiler.
    """
    try:
        return find_linker()
    except FileNotFoundError as error:
        raise EnvironmentFault(f"No C compiler found. {_NO_COMPILER} See: passsearch doctor") from error


def diagnose(requirements: Requirements = _REQUIREMENTS) -> tuple[Finding, ...]:
    """Check everything that a search needs; probing takes one or two seconds per toolchain."""
    return (
        _check_python(requirements),
        _check_c_compiler(),
        *_check_toolchains(),
        _check_folder("data folder", data_folder(), required_bytes=requirements.data_bytes),
        _check_cache_folder(requirements),
        _check_cores(),
        _check_governor(),
        _check_gpu(),
        _check_energy_counter(),
    )


def _check_python(requirements: Requirements) -> Finding:
    low, high = requirements.pythons
    ok = low <= sys.version_info[:2] < high
    remedy = f"Use Python {low[0]}.{low[1]} to {high[0]}.{high[1] - 1}."
    return Finding("python", ok, f"{platform.python_version()} at {sys.executable}", "" if ok else remedy)


def _check_c_compiler() -> Finding:
    try:
        return Finding("c compiler", True, require_c_compiler())
    except EnvironmentFault:
        return Finding("c compiler", False, "none found", _NO_COMPILER)


def _check_toolchains() -> Iterator[Finding]:
    try:
        toolchains = list_toolchains()
    except PassSearchError as error:
        yield Finding("toolchains", False, str(error), "Follow the advice in this message.")
        return
    for toolchain in toolchains:
        yield from _check_toolchain(toolchain)
    for name in DIALECTS:
        if all(toolchain.dialect != name for toolchain in toolchains):
            command = f"passsearch toolchain install {name}"
            # A search uses one toolchain, so a missing dialect is only a fault where there is no toolchain at all.
            yield Finding(f"dialect {name}", None if toolchains else False, "no toolchain", f"Run: {command}")


def _check_toolchain(toolchain: Toolchain) -> Iterator[Finding]:
    name = f"toolchain {toolchain.name}"
    remedy = f"Run: passsearch toolchain remove {toolchain.name}, and install or add it again."
    try:
        # The registry holds an older answer; a driver or a shared library may have changed since.
        result = probe(toolchain.python)
        current = result.to_toolchain(toolchain.name, toolchain.python)
    except PassSearchError as error:
        yield Finding(name, False, str(error), remedy)
        return
    if not is_current(toolchain):
        update = f"Run: passsearch toolchain install {toolchain.dialect}"
        yield Finding(name, False, "made by another version of passsearch", update)
    elif not current.llvm_version and not current.targets:
        yield Finding(name, False, f"TVM {current.tvm_version} without LLVM", "Use a TVM that was built with LLVM.")
    else:
        yield Finding(name, True, _describe_toolchain(current))
    if current.cuda:
        yield check_cuda(toolchain.name, result.cuda_fault, has_driver=bool(_nvidia_driver()))


def check_cuda(name: str, fault: str, *, has_driver: bool) -> Finding:
    """Return whether a toolchain compiles for CUDA; where no GPU is, it need not."""
    finding = f"cuda code of {name}"
    if not fault:
        return Finding(finding, True, "compiled here, with and without a device")
    detail, _, remedy = fault.rpartition(". ")
    return Finding(finding, False if has_driver else None, detail, remedy)


def _describe_toolchain(toolchain: Toolchain) -> str:
    cuda = "CUDA device" if toolchain.cuda_device else "CUDA, no device" if toolchain.cuda else "no CUDA"
    compilers = ["TVM " + toolchain.tvm_version, "LLVM " + toolchain.llvm_version]
    versions = ", ".join([*compilers, *installed_frameworks(toolchain)])
    return f"{toolchain.dialect}, {versions}, {cuda}, {toolchain.python}"


def _check_cache_folder(requirements: Requirements) -> Finding:
    folder = user_cache_folder()
    finding = _check_folder("cache folder", folder, required_bytes=requirements.cache_bytes)
    parts = {part.name: folder_bytes(part) for part in folder.iterdir() if part.is_dir()} if folder.is_dir() else {}
    largest = sorted(parts, key=lambda name: -parts[name])[:3]
    described = ", ".join(f"{name} {parts[name] / 1e9:.1f} GB" for name in largest) or "empty"
    try:
        limit, total = cache_limit_bytes(), sum(parts.values())
    except PassSearchError as error:
        return replace(finding, ok=False, remedy=str(error))
    detail = f"{finding.detail}; {total / 1e9:.1f} of {limit / 1e9:g} GB used: {described}"
    # What was used longest ago is removed as soon as a network is opened; below that, nothing needs to be done.
    return replace(finding, detail=detail, remedy=finding.remedy or (SMALLER if total > limit else ""))


def _check_folder(name: str, folder: Path, *, required_bytes: int) -> Finding:
    # The folder may not exist yet; the disk and the permissions are those of the nearest parent that does.
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{folder}, {free / 1e9:.1f} GB free"
    if not os.access(existing, os.W_OK):
        return Finding(name, False, f"{detail}, not writable", f"Make `{existing}` writable.")
    if free < required_bytes:
        return Finding(name, False, detail, f"Make room for {required_bytes / 1e9:.1f} GB.")
    return Finding(name, True, detail)


def _check_cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("cores", None, f"{usable} of {os.cpu_count()} usable; code is for `{host_cpu().name}`")


def _check_governor() -> Finding:
    governor = _first_line(_GOVERNOR)
    if governor in ("", "performance"):
        return Finding("cpu governor", None, governor or "not shown by this system (virtual machine?)")
    remedy = "Timing varies less with: cpupower frequency-set -g performance"
    return Finding("cpu governor", None, governor, remedy)


def _check_gpu() -> Finding:
    driver = _nvidia_driver()
    if driver:
        return Finding("nvidia driver", True, driver)
    return Finding("nvidia driver", None, "none: no GPU targets, and no power or temperature of a GPU")


def _nvidia_driver() -> str:
    """Return what is known of the NVIDIA driver; empty if there is none."""
    found = "nvidia-smi found" if shutil.which("nvidia-smi") else ""
    return _first_line("/proc/driver/nvidia/version") or found


def _check_energy_counter() -> Finding:
    counters = sorted(map(str, Path(_RAPL).glob("*rapl:?/energy_uj")))
    if not counters:
        return Finding("cpu energy counter", None, "none (RAPL is not shown by this system)")
    if all(map(_first_line, counters)):
        return Finding("cpu energy counter", True, ", ".join(counters))
    # Since Linux 5.10 only root reads the counters: they leak what other processes compute (CVE-2020-8694).
    remedy = f"As root: chmod a+r {_RAPL}/*/energy_uj"
    return Finding("cpu energy counter", None, f"{', '.join(counters)}: not readable", remedy)


def _first_line(path: str) -> str:
    """Return the first line of a file, or an empty text if the file cannot be read."""
    try:
        return (Path(path).read_text(encoding="utf-8").splitlines() or [""])[0]
    except OSError:
        return ""
