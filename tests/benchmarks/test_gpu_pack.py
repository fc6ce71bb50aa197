"""The pack of a GPU session: it is smaller than its wheels, and pip installs it."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
RECORD = "thing/__init__.py,,\nthing/tests/test_it.py,,\nthing/fast.pyx,,\nthing-1.0.dist-info/RECORD,,\n"
METADATA = "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def module(load_benchmark: Callable[[str], Any]) -> Any:
    """The module ``benchmarks/gpu/pack.py``."""
    return load_benchmark("gpu.pack")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with a test and a source of an extension."""
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    with ZipFile(path, "w") as file:
        file.writestr("thing/__init__.py", "ANSWER = 42\n")
        file.writestr("thing/tests/test_it.py", "assert False\n")
        file.writestr("thing/fast.pyx", "cdef int x\n")
        file.writestr("thing-1.0.dist-info/METADATA", METADATA)
        file.writestr("thing-1.0.dist-info/WHEEL", WHEEL)
        file.writestr("thing-1.0.dist-info/RECORD", RECORD)
    return path


def test_a_pack_has_the_wheels_without_what_nothing_loads(module: Any, wheel: Path, tmp_path: Path) -> None:
    pack = tmp_path / "pack.tar.xz"
    assert [name for name, _ in module.compress([wheel], pack)] == ["thing"]
    [unpacked] = module.unpack(pack, tmp_path / "unpacked")
    with ZipFile(unpacked) as file:
        record = file.read("thing-1.0.dist-info/RECORD").decode().splitlines()
        assert file.read("thing/__init__.py") == b"ANSWER = 42\n"
        assert {line.partition(",")[0] for line in record} == {"thing/__init__.py", "thing-1.0.dist-info/RECORD"}
        assert not {"thing/tests/test_it.py", "thing/fast.pyx"} & set(file.namelist())


@pytest.mark.slow
def test_a_pack_is_installed_without_an_index(module: Any, wheel: Path, tmp_path: Path) -> None:
    pack = tmp_path / "pack.tar.xz"
    list(module.compress([wheel], pack))
    python = module.install(pack, tmp_path / "environment")
    module.add_to_path(python, str(ROOT))
    code = "import thing, benchmarks.gpu.cubins; print(thing.ANSWER)"
    assert subprocess.check_output([str(python), "-c", code], text=True).strip() == "42"


@pytest.mark.parametrize(
    ("name", "is_dropped"),
    [
        ("onnx/backend/test/data/model.onnx", True),
        ("numpy/testing/__init__.py", False),
        ("tvm/lib/libtvm_compiler.so", False),
        ("tvm/relax/testing/nn.py", False),
        ("nvidia/cu13/include/cccl/thrust/sort.h", True),
        ("nvidia/cu13/include/cccl/cuda/std/limits", False),
        ("nvidia/cu13/lib/libcudart.so.13", False),
        ("nvidia/cu13/lib/libnvrtc.alt.so.13", True),
        ("cuda/bindings/nvrtc.cpython-311-x86_64-linux-gnu.so", False),
    ],
)
def test_files_that_builds_load_are_packed(module: Any, name: str, is_dropped: bool) -> None:
    assert module.is_dropped(name) is is_dropped


def test_the_limit_is_told(module: Any) -> None:
    assert module.verdict(61 << 20) == "1.0 MiB over the limit"
    assert module.verdict(50 << 20) == "10.0 MiB below the limit"
