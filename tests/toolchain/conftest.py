import sys
from pathlib import Path

import pytest

from passsearch.toolchain.record import Toolchain


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no TVM in the interpreter that runs the tests."""
    folder = tmp_path / "data"
    monkeypatch.setenv("PASSSEARCH_DATA_DIR", str(folder))
    monkeypatch.setitem(sys.modules, "tvm", None)
    return folder


@pytest.fixture
def programs() -> Path:
    """The folder of the programs that stand for interpreters."""
    return Path(__file__).with_name("programs")


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    """A toolchain as a probe describes it; its interpreter is an empty file."""
    python = tmp_path / "python"
    python.touch(mode=0o755)
    return Toolchain(
        name="mine",
        python=python,
        dialect="relay",
        tvm_version="0.16.dev0",
        tvm_commit="",
        llvm_version="17.0.6",
        targets=("aarch64", "riscv64", "x86_64"),
        cuda=False,
        cuda_device=False,
        default_triple="riscv64-unknown-linux-gnu",
        host_triple="x86_64-unknown-linux-gnu",
        python_version="3.11.7",
    )
