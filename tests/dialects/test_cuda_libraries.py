"""What is missing for CUDA is named with its next step; no device is needed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from passsearch.standalone.deployment.linker import find_linker
from passsearch.standalone.relax.deployment import cuda_libraries
from passsearch.toolchain import Toolchain
from passsearch.toolchain.doctor import check_cuda

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with no CUDA, whatever the machine has."""
    for name in ("TVM_CUDA_COMPILE_MODE", "TVM_CUDA_NVRTC_EXTRA_OPTS", "CUDA_PATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(cuda_libraries, "_roots", list)
    monkeypatch.setattr(cuda_libraries, "_has_bindings", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda _: None)


@pytest.mark.usefixtures("bare")
def test_without_a_compiler_for_kernels_the_command_is_named() -> None:
    with pytest.raises(OSError, match=r"neither cuda-bindings nor nvcc is here. Run: passsearch toolchain install"):
        cuda_libraries.prepare("cc")


@pytest.mark.usefixtures("bare")
def test_a_missing_runtime_is_named() -> None:
    with pytest.raises(OSError, match=r"needs `libcudart.so.13`, which is not on this machine. Run: "):
        cuda_libraries._provide("libcudart.so.13", Path("runtime"), "cc")


def test_files_are_found_in_packages_and_in_toolkits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, toolkit = tmp_path / "package", tmp_path / "toolkit"
    for folder in (package / "nvidia" / "cu13" / "include" / "cccl", toolkit / "lib64"):
        folder.mkdir(parents=True)
    (toolkit / "lib64" / "libcudart.so.13").touch()
    monkeypatch.setattr(sys, "path", [str(package)])
    monkeypatch.setenv("CUDA_PATH", str(toolkit))
    assert cuda_libraries._find("include", "cccl") == package / "nvidia" / "cu13" / "include" / "cccl"
    assert cuda_libraries._find("lib", "libcudart.so.13") == toolkit / "lib64" / "libcudart.so.13"


def test_libraries_are_found_in_the_folders_of_pytorchs_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, nvrtc = (tmp_path / "nvidia" / name / "lib" for name in ("cuda_runtime", "cuda_nvrtc"))
    for folder, name in ((runtime, "libcudart.so.13"), (nvrtc, "libnvrtc.so.13"), (runtime, "libcudart.so.12")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "nothing"), str(tmp_path)])
    monkeypatch.setattr(cuda_libraries, "_roots", list)
    assert cuda_libraries._find_library("libcudart.so.13") == runtime / "libcudart.so.13"
    assert cuda_libraries._find_library("libnvrtc.so.13") == nvrtc / "libnvrtc.so.13"
    assert cuda_libraries._find_library("libcublas.so.13") is None


def test_the_stand_in_reports_no_device(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime.so"
    runtime.write_bytes(b"x\0cuModuleLoadData\0cudaMalloc\0cuLaunchKernelEx\0")
    # A process of its own: a library of this name, once loaded, stays.
    code = (
        "import ctypes, sys; from pathlib import Path;"
        "from passsearch.standalone.relax.deployment import cuda_libraries as c;"
        f"c._load_stand_in(Path({str(runtime)!r}), {find_linker()!r});"
        f"print(ctypes.CDLL({cuda_libraries.DRIVER!r}).cuModuleLoadData())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "100", done.stderr


@pytest.mark.toolchain
def test_powers_of_negative_numbers_are_numbers(cuda_relax: Toolchain) -> None:
    """Fast math computes a power by the logarithm of its base, which is NaN for a negative one."""
    kernel = 'extern "C" __global__ void square(float* x) { x[0] = powf(x[0], 2.0f); }'
    code = (
        "from passsearch.standalone.relax.deployment import cuda_libraries; from tvm.support.nvcc import compile_cuda;"
        f"compile = lambda: compile_cuda({kernel!r}, target_format='ptx', arch='compute_90').decode();"
        "cuda_libraries._load_nvrtc, load = lambda: None, cuda_libraries._load_nvrtc;"
        f"cuda_libraries.prepare({find_linker()!r}); fast = compile(); load(); load();"
        "print('lg2.approx' in fast, 'lg2.approx' in compile())"
    )
    done = subprocess.run([str(cuda_relax.python), "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["True", "False"], done.stderr


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("line", "has_small_headers"),
    [
        ("x[0] = fmaxf(x[0], -INFINITY) + (float)(int64_t)n + expf(x[1]);", True),
        ("x[0] = __half2float(__float2half(x[1]));", False),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ("x[0] = fmaxf(x[0], -CUDART_INF_F);", True),
                ("constexpr float most = INFINITY; x[0] = fminf(x[0], most);", True),
                ("x[0] = std::is_same<int, int>::value ? n : 0;", False),
                ("x[0] = std ::is_same<int, int>::value ? n : 0;", False),
                ("x[0] = INT64_MAX; x[n] = (float)(intptr_t)x;", False),
            )
        ),
    ],
)
def test_a_kernel_is_the_same_with_headers_that_hold_what_kernels_use(
    cuda_relax: Toolchain, line: str, has_small_headers: bool
) -> None:
    include = (
        "#include <cuda_fp16.h>\n" if "half" in line else "#include <math_constants.h>\n" if "CUDART" in line else ""
    )
    traits = "#include <cuda/std/type_traits>\nnamespace std { using cuda::std::is_same; }\n"
    kernel = f'{include}{traits}extern "C" __global__ void change(float* x, int n) {{ {line} }}'
    code = (
        "from passsearch.standalone.relax.deployment import cuda_libraries; from tvm.support.nvcc import compile_cuda;"
        f"compile = lambda: compile_cuda({kernel!r}, target_format='ptx', arch='compute_90').decode();"
        f"cuda_libraries.prepare({find_linker()!r}); small = compile();"
        "from cuda.bindings import nvrtc; nvrtc.nvrtcCreateProgram = nvrtc.nvrtcCreateProgram.args[0];"
        "large = compile(); "
        "begin = '.entry'; print(small[small.index(begin):] == large[large.index(begin):], len(small) < len(large))"
    )
    done = subprocess.run([str(cuda_relax.python), "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["True", str(has_small_headers)], done.stderr


@pytest.mark.parametrize(
    ("driver", "fault"),
    [(0, ""), (13000, ""), (13020, ""), (14000, ""), (12080, "supports CUDA 12.8, TVM's runtime needs 13.0")],
)
def test_a_driver_for_an_older_cuda_is_named(driver: int, fault: str) -> None:
    text = cuda_libraries.describe_driver(driver, 13000)
    assert fault in text and bool(text) == bool(fault)


def test_a_fault_is_an_error_only_where_a_driver_is() -> None:
    fault = "TVM's CUDA runtime needs `libcudart.so.13`, which is not on this machine. Run: x"
    with_driver, without = (check_cuda("relax", fault, has_driver=each) for each in (True, False))
    assert (with_driver.ok, without.ok) == (False, None)
    assert with_driver.remedy == "Run: x" and with_driver.detail.endswith("on this machine")
    assert check_cuda("relax", "", has_driver=True).ok is True
