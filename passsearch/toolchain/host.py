"""TVM's target string for the CPU of this machine."""

import json
import re

import archspec.cpu
from archspec.cpu import Microarchitecture, UnsupportedMicroarchitecture
from archspec.cpu.detect import compatible_microarchitectures, detected_info

from passsearch.core import Json, parse_json, physical_cores
from passsearch.errors import UserError
from passsearch.toolchain.record import Toolchain

_OLDEST_LLVM = "11.0.0"
"""The version assumed for a TVM that does not report its LLVM version."""
_NEWEST_LLVM = "99.0.0"
"""A version that has all names."""

GENERIC = "generic"
"""The vendor of levels of an architecture in archspec, and LLVM's name for a processor of which nothing is known."""

SYSTEM_FEATURES = frozenset(
    {
        *("clflushopt", "clwb", "clzero", "cldemote", "flush_l1d", "fsgsbase", "movdir64b", "movdiri", "pku", "rdpid"),
        *("rdrand", "rdseed", "serialize", "tsc_adjust", "waitpkg", "wbnoinvd", "xsavec", "xsaveopt"),
    }
)
"""Features that LLVM does not use in ordinary code. Virtual machines hide some, and Linux hides `rdseed` of Zen 5."""

FEW_THREADS = 4
"""Number of threads up to which a target does not name it: the tilings are the same (``cpu_schedules/sizes.py``)."""

TARGET_KINDS = (
    *("llvm", "cuda", "c", "nvptx", "rocm", "opencl", "vulkan", "metal", "webgpu", "hexagon"),
    *("composite", "stackvm", "ext_dev", "hybrid", "aocl", "aocl_sw_emu", "sdaccel"),
)
"""Kinds of targets of the versions of TVM that passsearch uses."""


def host_target(toolchain: Toolchain, *, tiles_for_threads: bool = False) -> str:
    """Return ``llvm -mtriple=… -mcpu=…`` for this machine, in names that the toolchain's LLVM knows.

    With many threads ``-num-cores=…`` follows for a dialect whose schedules take account of their number.
    """
    cpu = llvm_cpu(host_cpu(), toolchain.llvm_version)
    # The triple is always explicit: the default triple of a TVM build can be another machine (hhb-tvm's is riscv64).
    target, threads = f"llvm -mtriple={toolchain.host_triple} -mcpu={cpu}", physical_cores()
    return f"{target} -num-cores={threads}" if tiles_for_threads and threads > FEW_THREADS else target


def host_cpu() -> Microarchitecture:
    """Return the processor of this machine.

    Where archspec knows only its level, it is the newest of its vendor that has, but for ``SYSTEM_FEATURES``, no
    feature that this one lacks.
    """
    host = archspec.cpu.host()
    if host.vendor != GENERIC:
        return host
    own = detected_info()
    own.features |= SYSTEM_FEATURES
    near = [cpu for cpu in compatible_microarchitectures(own) if cpu > host and cpu.vendor == own.vendor]
    return max(near, key=lambda cpu: len(cpu.ancestors), default=host)


def target_options(target: str) -> dict[str, Json]:
    """Return the options of a target that is written as JSON; empty for one that is not. TVM refuses what is wrong."""
    try:
        return dict(parse_json(target)) if target.lstrip().startswith("{") else {}
    except ValueError:
        return {}


def target_kind(target: str) -> str:
    """Return the kind that a target begins with, such as ``llvm``, or the tag that stands for a whole target."""
    options = target_options(target)
    return str(options.get("kind") or options.get("tag") or (target.split() or [""])[0])


def target_triple(target: str) -> str:
    """Return the triple of a target; empty where it names none."""
    found = re.search(r"\s-+mtriple[=\s]\s*(\S+)", target)
    return found[1] if found else str(target_options(target).get("mtriple", ""))


def with_triple(target: str, toolchain: Toolchain) -> str:
    """Return a target; one of LLVM that names no triple gets that of this machine."""
    # LLVM would take the default triple of the TVM build, and code for another machine ends the process that loads it.
    kind, *options = target.split() or [""]
    if not kind:
        raise UserError("The target is empty; give one that TVM knows, for example: --target llvm")
    written = target_options(target)
    if written.get("kind", kind) != "llvm" or target_triple(target):
        return target
    if written:
        return json.dumps({**written, "mtriple": toolchain.host_triple})
    return " ".join((kind, f"-mtriple={toolchain.host_triple}", *options))


def target_cpu(target: str) -> str:
    """Return LLVM's name of the processor in a target; empty where it names none."""
    found = re.search(r"\s-+mcpu[=\s]\s*(\S+)", target)
    return found[1] if found else str(target_options(target).get("mcpu", ""))


def vector_bits(cpu: str) -> int:
    """Return the width of the vectors of a processor with this name in LLVM; 0 where the name is unknown."""
    known = (each for each in archspec.cpu.TARGETS.values() if llvm_cpu(each, _NEWEST_LLVM) == cpu)
    widths = ((512, "avx512f"), (256, "avx2"), (256, "avx"), (128, "sse2"), (128, "neon"), (128, "asimd"))
    return max((bits for each in known for bits, feature in widths if feature in each), default=0)


def llvm_cpu(cpu: Microarchitecture, llvm_version: str) -> str:
    """Return LLVM's name of a CPU.

    A CPU that is newer than LLVM gets the name of its nearest ancestor that LLVM knows.

    Args:
        cpu: The CPU as archspec describes it.
        llvm_version: The version of LLVM, for example ``17.0.6``; empty if unknown.

    Returns:
        The value for ``-mcpu``; ``generic`` if LLVM knows neither the CPU nor an ancestor.
    """
    version = re.match(r"\d+(\.\d+)*", llvm_version)
    for candidate in (cpu, *cpu.ancestors):
        name = _clang_name(candidate, version[0] if version else _OLDEST_LLVM)
        if name:
            return name
    return GENERIC


def _clang_name(cpu: Microarchitecture, version: str) -> str:
    """Return clang's name of a CPU, or an empty text if this version of clang has none."""
    try:
        flags = cpu.optimization_flags("clang", version)
    except UnsupportedMicroarchitecture:
        return ""
    match = re.search(r"-mcpu=(\S+)", flags) or re.search(r"-march=(\S+)", flags)
    # For some Arm cores archspec knows only the architecture level (`-march=armv8.2-a`), which is no CPU name.
    # LLVM calls those cores by archspec's own names, with hyphens.
    if match is None or match[1].startswith("armv"):
        return cpu.name.replace("_", "-") if cpu.vendor == "ARM" else ""
    return match[1]
