"""The libraries that TVM needs to compile for CUDA and to run the result: found, loaded, or named as missing."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

DRIVER = "libcuda.so.1"
"""The driver's library. It comes with the driver, never from a package."""

RUNTIME = "tvm_runtime_cuda"
"""TVM's name for its library that makes, loads and starts CUDA kernels."""

MEND = "Run: passsearch toolchain install relax --with cuda"

FAST_MATH = b"--use_fast_math"
"""Option with which TVM compiles CUDA code. It makes the power of a negative number NaN, and so every layer norm that
squares by ``Pow``; tanh becomes an instruction with a larger error than outputs may have.
"""

HEADERS = {
    b"cuda/std/cstdint": b"""#pragma once
namespace cuda { namespace std {
using int8_t = signed char; using int16_t = short; using int32_t = int; using int64_t = long long;
using uint8_t = unsigned char; using uint16_t = unsigned short; using uint32_t = unsigned;
using uint64_t = unsigned long long;
} }
""",
    b"cuda/std/limits": b"""#pragma once
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
""",
    # TVM names these in the namespace std of every program, for kernels that use them; others need the names alone.
    b"cuda/std/type_traits": b"""#pragma once
namespace cuda { namespace std {
struct is_same; struct is_same_v; struct is_integral; struct is_signed; struct is_unsigned; struct is_floating_point;
struct enable_if; struct conditional;
} }
""",
}
"""What usual kernels need of the headers that TVM includes in every program, by the headers' names.

NVRTC takes 0.7 s for a program of one kernel with the headers themselves and 0.06 s with these, and the device code has
50 KB of the headers' tables less. The instructions of the kernels are the same (benchmarks/cuda_headers.py and
benchmarks/cuda_builds.py).
"""

_OTHER_HEADERS = {b"cstdint", b"type_traits", b"math_constants.h"}
"""Headers for other compilers than NVRTC, and one of macros that takes no time."""
_INCLUDE = re.compile(rb"#\s*include\s*[<\"]([^>\"]+)")
_PREAMBLE = re.compile(rb"using cuda::std::\w+;|namespace std \{|#\s*(define INFINITY|include) .*|//.*")
"""What TVM writes before the kernels that names something of the headers."""
_OTHER_NAMES = re.compile(rb"\bstd\b|\b[A-Z]+\d*_M(AX|IN)\b|\bu?int(ptr|max|_fast|_least)|\b\w*half\w*\b")
"""Names that may be those of the headers themselves."""

_BINDINGS_MODE, _COMPILER_MODE = "nvrtc", "nvcc"
_MISSING = re.compile(r"(\S+): cannot open shared object file")
_STAND_IN = "int {0}(void) {{ return 100; }}\n"
"""A function of the driver that answers CUDA_ERROR_NO_DEVICE."""


def prepare(compiler: str) -> None:
    """Make this process able to compile CUDA code, on a machine without a device too, and without fast math.

    TVM hands the source of kernels to NVRTC or nvcc only where its CUDA runtime is loaded; elsewhere it stores the
    source, which is then compiled on every start. The runtime needs the driver's library. On a machine without one, a
    library that reports that there is no device takes its place in this process.

    Args:
        compiler: Path of the C compiler, which makes that library.

    Raises:
        OSError: A library is missing or does not fit; the message is one line with the next step.
    """
    _set_paths()
    os.environ.setdefault("TVM_CUDA_NVCC_NO_FAST_MATH", "1")
    mode = os.environ.setdefault("TVM_CUDA_COMPILE_MODE", _BINDINGS_MODE if _has_bindings() else _COMPILER_MODE)
    if mode == _BINDINGS_MODE:
        _load_nvrtc()
    elif shutil.which("nvcc") is None:
        raise OSError(f"CUDA code cannot be compiled: neither cuda-bindings nor nvcc is here. {MEND}")
    load_runtime(compiler)


def load_runtime(compiler: str) -> None:
    """Load TVM's CUDA runtime, which ``import tvm`` skips without a word if a library of it is missing.

    Raises:
        OSError: As ``prepare``.
    """
    import tvm
    from tvm.base import _LOADED_LIBS

    if tvm.get_global_func("ffi.Module.create.cuda", allow_missing=True) is not None:
        return
    library = Path(_LOADED_LIBS["tvm_runtime"]._name).resolve().with_name(f"lib{RUNTIME}.so")
    if not library.is_file():
        raise OSError("CUDA code cannot be compiled: this TVM was built without CUDA. Use one that has it.")
    # Its two CUDA libraries may be missing, one after the other.
    for _ in range(2):
        missing = _load(library)
        if not missing:
            return
        _provide(missing, library, compiler)
    missing = _load(library)
    if missing:
        raise OSError(f"TVM's CUDA runtime does not find `{missing}`. {MEND}")


def _load(library: Path) -> str:
    """Load TVM's CUDA runtime, or return the name of a library that it does not find."""
    from tvm.base import _LOADED_LIBS

    try:
        _LOADED_LIBS[RUNTIME] = ctypes.CDLL(str(library))
    except OSError as error:
        missing = _MISSING.match(str(error))
        if missing is None:
            raise OSError(f"TVM's CUDA runtime does not load: {error}. {MEND}") from error
        return missing.group(1)
    return ""


def driver_fault() -> str:
    """Return why the driver cannot run this CUDA runtime, or an empty text; no driver at all is no fault."""
    path = _find_library("libcudart.so.13")
    try:
        runtime = ctypes.CDLL(str(path or "libcudart.so.13"))
    except OSError:
        return ""
    return describe_driver(_version(runtime.cudaDriverGetVersion), _version(runtime.cudaRuntimeGetVersion))


def describe_driver(driver: int, runtime: int) -> str:
    """Return why a driver of a CUDA version (12080 is 12.8) cannot run a runtime of another, or an empty text."""
    if driver == 0 or driver // 1000 >= runtime // 1000:
        return ""
    have, need = f"{driver // 1000}.{driver % 1000 // 10}", f"{runtime // 1000}.0"
    return f"The NVIDIA driver supports CUDA {have}, TVM's runtime needs {need}. Update the driver to 580 or later."


def _version(function: Any) -> int:
    number = ctypes.c_int(0)
    function(ctypes.byref(number))
    return number.value


def _roots() -> list[Path]:
    """Return the folders that may hold CUDA 13: of packages first, then those of the machine."""
    packages = [Path(entry or ".") / "nvidia" / "cu13" for entry in sys.path]
    machine = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    return [*packages, *(Path(folder) for folder in machine if folder)]


def _find(folder: str, name: str) -> Path | None:
    """Return the first of this file or folder; toolkits name the folder of libraries ``lib64``, packages ``lib``."""
    candidates = (root / each / name for root in _roots() for each in (folder, folder + "64"))
    return next((path for path in candidates if path.exists()), None)


def _find_library(name: str) -> Path | None:
    """Return a library of CUDA 13; PyTorch's packages have one folder for each, and conda has one for all."""
    found = _find("lib", name)
    if found is not None:
        return found
    packages = [folder for entry in sys.path for folder in sorted((Path(entry or ".") / "nvidia").glob("*/lib"))]
    candidates = (folder / name for folder in (*packages, Path(sys.prefix) / "lib"))
    return next((path for path in candidates if path.exists()), None)


def _set_paths() -> None:
    """Tell TVM where the headers are."""
    header, parts = _find("include", "cuda_runtime.h"), _find("include", "cccl")
    if header is not None:
        os.environ["CUDA_PATH"] = str(header.parents[1])
    options = os.environ.get("TVM_CUDA_NVRTC_EXTRA_OPTS", "")
    if parts is not None and str(parts) not in options:
        os.environ["TVM_CUDA_NVRTC_EXTRA_OPTS"] = f"{options} '-I{parts}'".strip()


def _has_bindings() -> bool:
    from importlib.util import find_spec

    return find_spec("cuda") is not None and find_spec("cuda.bindings") is not None


def _load_nvrtc() -> None:
    """Load NVRTC before the worker forks, so that no build pays for it."""
    library = _find_library("libnvrtc.so.13")
    if library is not None:
        # NVRTC opens its own second library by name only, and its folder is on no search path.
        for part in (*sorted(library.parent.glob("libnvrtc-builtins.so.13.*")), library):
            ctypes.CDLL(str(part), ctypes.RTLD_GLOBAL)
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
        if not isinstance(nvrtc.nvrtcCompileProgram, partial):
            # NVRTC has no option that undoes this one, and TVM has no variable that leaves it out.
            nvrtc.nvrtcCompileProgram = partial(_compile_precisely, nvrtc.nvrtcCompileProgram)
            nvrtc.nvrtcCreateProgram = partial(_create_with_small_headers, nvrtc.nvrtcCreateProgram)
    except (ImportError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise OSError(f"CUDA code cannot be compiled: NVRTC does not load ({reason}). {MEND}") from error
    if _find("include", "cccl") is None:
        raise OSError(f"CUDA code cannot be compiled: the headers of nvidia-cuda-cccl are missing. {MEND}")


def _compile_precisely(compile_program: Any, program: Any, number: int, options: list[bytes]) -> Any:
    """Compile a program of NVRTC without fast math."""
    del number
    kept = [option for option in options if option != FAST_MATH]
    return compile_program(program, len(kept), kept)


def _create_with_small_headers(
    create_program: Any, source: bytes, name: bytes, number: int, headers: Any, names: Any
) -> Any:
    """Create a program of NVRTC with ``HEADERS``, if its kernels need nothing else."""
    if not number and _is_usual(source):
        number, headers, names = len(HEADERS), [*HEADERS.values()], [*HEADERS]
    return create_program(source, name, number, headers, names)


def _is_usual(source: bytes) -> bool:
    """Return whether a program includes nothing else, and whether its kernels name nothing of the headers."""
    included = {*_INCLUDE.findall(source)}
    return included <= {*HEADERS, *_OTHER_HEADERS} and not _OTHER_NAMES.search(_PREAMBLE.sub(b"", source))


def _provide(name: str, runtime: Path, compiler: str) -> None:
    """Load a library that TVM's CUDA runtime did not find."""
    if name == DRIVER:
        _load_stand_in(runtime, compiler)
        return
    path = _find_library(name)
    if path is None:
        raise OSError(f"TVM's CUDA runtime needs `{name}`, which is not on this machine. {MEND}")
    ctypes.CDLL(str(path))


def _load_stand_in(runtime: Path, compiler: str) -> None:
    """Load a library under the driver's name, with the functions that TVM's runtime refers to."""
    # Names in the runtime's table of symbols; a function that nothing calls does no harm.
    names = sorted(set(re.findall(rb"\0(cu[A-Z]\w+)(?=\0)", runtime.read_bytes())))
    source = "".join(_STAND_IN.format(name.decode()) for name in names)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / DRIVER
        command = [compiler, "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{DRIVER}", "-o", str(library)]
        done = subprocess.run(command, input=source, text=True, capture_output=True)
        if done.returncode:
            # A compiler that is killed prints nothing.
            reason = done.stderr.strip().rpartition("\n")[2][:200] or f"it ended with {done.returncode}"
            raise OSError(f"`{compiler}` could not make a library: {reason}")
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
