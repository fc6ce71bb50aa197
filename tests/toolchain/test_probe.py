import sys
from pathlib import Path

import pytest

from passsearch.errors import UserError
from passsearch.toolchain import Toolchain, get_toolchain, list_toolchains, probe


def _interpreter(folder: Path, body: str) -> Path:
    script = folder / "python"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return script


def _without_tvm(folder: Path) -> Path:
    return _interpreter(folder, f'exec {sys.executable} -S -E "$@"')


def test_python_without_tvm(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no TVM"):
        probe(_without_tvm(tmp_path))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not an executable file"):
        probe(tmp_path / "python")


def test_program_that_is_no_python(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="exited 3"):
        probe(_interpreter(tmp_path, "exit 3"))


def test_file_that_does_not_start(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    with pytest.raises(UserError, match="does not start"):
        probe(broken)


def test_compiler_that_crashes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="killed by signal 11"):
        probe(_interpreter(tmp_path, "kill -SEGV $$"))


def test_compiler_that_hangs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did not answer"):
        probe(_interpreter(tmp_path, "exec sleep 60"), timeout_s=0.2)


def test_compiler_that_does_not_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tvm.py").write_text("raise ImportError('libtvm.so: undefined symbol')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UserError, match=r"does not import .*libtvm\.so: undefined symbol"):
        probe(Path(sys.executable))


def test_old_or_unrelated_tvm_is_refused(toolchain: Toolchain, tmp_path: Path) -> None:
    answer = (
        '{"python_version":"3.8","tvm_version":"0.6","tvm_commit":"","llvm_version":"","targets":[],'
        '"cuda":false,"cuda_device":false,"default_triple":"","host_triple":""}'
    )
    result = probe(_interpreter(tmp_path, f"echo chatter; echo 'passsearch-probe:{answer}'"))
    with pytest.raises(UserError, match=r"TVM 0\.6 is not supported"):
        result.named("old", tmp_path / "python")


@pytest.mark.toolchain
def test_installed_toolchain_answers() -> None:
    if not list_toolchains():
        pytest.skip("no toolchain is installed")
    toolchain = get_toolchain()
    answer = probe(toolchain.python)
    assert answer.named(toolchain.name, toolchain.python) == toolchain
    assert toolchain.host_triple.split("-")[0] in answer.targets
