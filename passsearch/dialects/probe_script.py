"""Says as JSON what the TVM of the interpreter that runs this file can do.

Run by path, in any interpreter that may hold a TVM: standard library only, Python 3.7 on.
"""

import json
import os
import platform
import sys
from typing import Any

MARK = "passsearch-probe:"


def main() -> None:
    """Import TVM with its chatter sent to stderr, then print one line."""
    sys.path.pop(0)
    answer = os.dup(1)
    os.dup2(2, 1)
    found = describe()
    os.write(answer, (MARK + json.dumps(found) + "\n").encode())


def describe() -> "dict[str, object]":
    """Versions, code generators, devices and triples."""
    import tvm
    from tvm.target import codegen

    info = {key: str(value) for key, value in dict(tvm.support.libinfo()).items()}
    # TVM 0.2x loads the runtime of CUDA only where there is a driver, and generates its code without.
    cuda = bool(tvm.runtime.enabled("cuda")) or info.get("USE_CUDA", "OFF").upper() not in ("OFF", "0", "FALSE", "")
    llvm = info.get("LLVM_VERSION") or str(ask(codegen, "llvm_version_major", ""))
    return {
        "python_version": platform.python_version(),
        "tvm_version": tvm.__version__,
        "tvm_commit": info.get("GIT_COMMIT_HASH", ""),
        "llvm_version": llvm if llvm[:1].isdigit() else "",
        "targets": [str(name) for name in ask(codegen, "llvm_get_targets", [])],
        "cuda": cuda,
        "cuda_device": bool(cuda and tvm.cuda(0).exist),
        "default_triple": str(ask(codegen, "llvm_get_system_triple", "")),
        "host_triple": host_triple(),
    }


def ask(module: Any, name: str, default: Any) -> Any:
    """Call a function that older TVMs lack."""
    return getattr(module, name, lambda: default)()


def host_triple() -> str:
    """LLVM's name for the platform of this interpreter."""
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if sys.platform == "darwin":
        return machine.replace("aarch64", "arm64") + "-apple-darwin"
    if sys.platform == "win32":
        return machine + "-pc-windows-msvc"
    return machine.replace("arm64", "aarch64") + "-unknown-linux-gnu"


if __name__ == "__main__":
    main()
