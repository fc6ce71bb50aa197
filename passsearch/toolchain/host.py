"""TVM's target for the CPU this process runs on."""

import re

import archspec.cpu
from archspec.cpu import Microarchitecture, UnsupportedMicroarchitecture

from passsearch.toolchain.record import Toolchain

_OLDEST_LLVM = "11.0.0"
"""Assumed of a TVM that does not say which LLVM it was built with."""


def host_target(toolchain: Toolchain) -> str:
    """``llvm -mtriple=… -mcpu=…`` for the host, in names the toolchain's LLVM knows.

    The triple is always given: a TVM's default may be another machine. The CPU is the newest one that
    archspec finds the host to be and the toolchain's LLVM can name.
    """
    return f"llvm -mtriple={toolchain.host_triple} -mcpu={llvm_cpu(toolchain.llvm_version)}"


def llvm_cpu(llvm_version: str) -> str:
    """LLVM's name of the host CPU, or of its nearest ancestor this LLVM knows; ``generic`` if none."""
    version = re.match(r"\d+(\.\d+)*", llvm_version)
    host = archspec.cpu.host()
    for cpu in (host, *host.ancestors):
        name = _named_by_clang(cpu, version[0] if version else _OLDEST_LLVM)
        if name:
            return name
    return "generic"


def _named_by_clang(cpu: Microarchitecture, version: str) -> str:
    try:
        flags = cpu.optimization_flags("clang", version)
    except UnsupportedMicroarchitecture:
        return ""
    named = re.search(r"-mcpu=(\S+)", flags) or re.search(r"-march=(\S+)", flags)
    if named is None or named[1].startswith("armv"):
        return cpu.name.replace("_", "-") if cpu.vendor == "ARM" else ""
    return named[1]
