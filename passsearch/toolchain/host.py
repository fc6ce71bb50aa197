"""TVM's target string for the CPU of this machine."""

import json
import re

import archspec.cpu
from archspec.cpu import Microarchitecture, UnsupportedMicroarchitecture

from passsearch.toolchain.record import Toolchain

_OLDEST_LLVM = "11.0.0"
"""The version assumed for a TVM that does not report its LLVM version."""


def host_target(toolchain: Toolchain) -> str:
    """Return ``llvm -mtriple=… -mcpu=…`` for this machine, in names that the toolchain's LLVM knows."""
    cpu = llvm_cpu(archspec.cpu.host(), toolchain.llvm_version)
    # The triple is always explicit: the default triple of a TVM build can be another machine (hhb-tvm's is riscv64).
    return f"llvm -mtriple={toolchain.host_triple} -mcpu={cpu}"


def with_triple(target: str, toolchain: Toolchain) -> str:
    """Return a target; one of LLVM that names no triple gets that of this machine."""
    # LLVM would take the default triple of the TVM build, and code for another machine ends the process that loads it.
    if target.lstrip().startswith("{"):
        return _json_with_triple(target, toolchain)
    if target.split()[:1] != ["llvm"] or re.search(r"\s-+mtriple[=\s]", target):
        return target
    kind, options = target.split()[0], target.split()[1:]
    return " ".join((kind, f"-mtriple={toolchain.host_triple}", *options))


def _json_with_triple(target: str, toolchain: Toolchain) -> str:
    try:
        options = dict(json.loads(target))
    except ValueError:  # TVM says what is wrong
        return target
    if options.get("kind") != "llvm" or "mtriple" in options:
        return target
    return json.dumps({**options, "mtriple": toolchain.host_triple})


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
    return "generic"


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
