"""The machine code of kernels, as the linked library of a network has it."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from passsearch.standalone.relax.cpu_schedules import PACKED

NAMES = "nm"
"""Program that lists the names in a library; it comes with the linker."""

# The name that TVM gives to the entry of a kernel, in a section of code.
_ENTRY = re.compile(r"T __tvm_ffi_(\w+)$")
_CODE = re.compile(r" [tTwW] ")


def code_bytes(library: Path) -> Mapping[str, int]:
    """Return the size of the code of each kernel, by its name; empty if the names cannot be listed.

    A kernel's code begins at its entry and ends where that of the next kernel begins: the functions between them are
    the loops that its threads share. Small functions that several kernels call count for one of them.

    Args:
        library: The network for a CPU. The code of a GPU's kernels has no names in it.
    """
    try:
        command = [NAMES, "--defined-only", "--numeric-sort", str(library)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return {}
    names = [line for line in lines if _CODE.search(line)]
    begins = {match[1]: _address(line) for line in names if (match := _ENTRY.search(line))}
    # The last function of a library is the linker's.
    ends = [*list(begins.values())[1:], *map(_address, names[-1:])]
    return {name.removesuffix(PACKED): end - begin for (name, begin), end in zip(begins.items(), ends, strict=False)}


def _address(line: str) -> int:
    return int(line.split()[0], 16)
