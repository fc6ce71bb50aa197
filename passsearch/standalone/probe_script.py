"""Print as JSON the features of the TVM in the interpreter that runs this file.

The toolchain room runs this file by its path in any interpreter that may have a TVM. Standard library only, Python 3.7
on.
"""

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

# Python puts this file's folder first on the path; its module names would hide others.
sys.path[:1] = [str(Path(__file__).parent / folder) for folder in ("deployment", "relax/deployment")]
import cuda_libraries  # noqa: E402
import linker  # noqa: E402

del sys.path[:2]

MARK = "passsearch-probe:"


def main() -> None:
    """Import TVM with its own output sent to stderr, then print one line."""
    # TVM prints to stdout while it is imported, so the answer goes to a copy of the original stdout.
    answer = os.dup(1)
    os.dup2(2, 1)
    features = describe()
    os.write(answer, (MARK + json.dumps(features) + "\n").encode())


def describe() -> "dict[str, object]":
    """Return versions, code generators, devices and target triples."""
    import tvm
    from tvm.target import codegen

    info = {key: str(value) for key, value in dict(tvm.support.libinfo()).items()}
    # TVM 0.2x loads the runtime of CUDA only where there is a driver, and generates its code without.
    cuda = bool(tvm.runtime.enabled("cuda")) or info.get("USE_CUDA", "OFF").upper() not in ("OFF", "0", "FALSE", "")
    fault = cuda_fault() if cuda else ""
    llvm = info.get("LLVM_VERSION") or str(call(codegen, "llvm_version_major", ""))
    return {
        "python_version": platform.python_version(),
        "tvm_version": tvm.__version__,
        "tvm_commit": info.get("GIT_COMMIT_HASH", ""),
        "llvm_version": llvm if llvm[:1].isdigit() else "",
        "targets": [str(name) for name in call(codegen, "llvm_get_targets", [])],
        "cuda": cuda,
        "cuda_device": bool(cuda and tvm.cuda(0).exist),
        "cuda_fault": fault,
        "default_triple": str(call(codegen, "llvm_get_system_triple", "")),
        "host_triple": host_triple(),
    }


def cuda_fault() -> str:
    """Return why this interpreter cannot compile or run CUDA code, or an empty text."""
    from tvm import base

    # Older versions have one library, which links what it needs of CUDA.
    if not hasattr(base, "_LOADED_LIBS"):
        return ""
    try:
        cuda_libraries.prepare(linker.find_linker())
    except OSError as error:
        return str(error)
    return str(cuda_libraries.driver_fault())


def call(module: Any, name: str, default: Any) -> Any:
    """Return the result of a function, or the default if this TVM does not have the function."""
    return getattr(module, name, lambda: default)()


def host_triple() -> str:
    """Return LLVM's name for the platform of this interpreter."""
    # A vendor build of TVM defaults to the vendor's processor (riscv64), so its own default triple cannot be trusted.
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if sys.platform == "darwin":
        return machine.replace("aarch64", "arm64") + "-apple-darwin"
    if sys.platform == "win32":
        return machine + "-pc-windows-msvc"
    return machine.replace("arm64", "aarch64") + "-unknown-linux-gnu"


if __name__ == "__main__":
    main()
