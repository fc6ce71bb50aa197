import sys
from pathlib import Path

import pytest

from passsearch.errors import UserError
from passsearch.toolchain import get_toolchain, list_toolchains, probe


def test_python_without_tvm(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_UNDER_TEST", sys.executable)
    with pytest.raises(UserError, match="has no TVM"):
        probe(programs / "has_no_tvm.sh")


def test_a_tvm_that_only_pythonpath_finds_is_no_tvm_because_workers_do_not_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UserError, match=r"has no TVM; install one there \(PYTHONPATH is not used"):
        probe(Path(sys.executable))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not an executable file"):
        probe(tmp_path / "python")


def test_program_that_is_no_python(programs: Path) -> None:
    with pytest.raises(UserError, match="exited 3"):
        probe(programs / "exits_with_3.sh")


def test_file_that_does_not_start(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    with pytest.raises(UserError, match="does not start"):
        probe(broken)


def test_compiler_that_crashes(programs: Path) -> None:
    with pytest.raises(UserError, match="killed by signal 11"):
        probe(programs / "crashes.sh")


def test_compiler_that_hangs(programs: Path) -> None:
    with pytest.raises(UserError, match="did not answer"):
        probe(programs / "hangs.sh", timeout_s=0.2)


def test_compiler_that_does_not_import(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_UNDER_TEST", sys.executable)
    with pytest.raises(UserError, match=r"does not import .*libtvm\.so: undefined symbol"):
        probe(programs / "has_broken_tvm.sh")


def test_old_or_unrelated_tvm_is_refused(programs: Path) -> None:
    python = programs / "has_old_tvm.sh"
    result = probe(python)
    with pytest.raises(UserError, match=r"TVM 0\.6 is not supported"):
        result.to_toolchain("old", python)


@pytest.mark.toolchain
def test_installed_toolchain_answers() -> None:
    if not list_toolchains():
        pytest.skip("no toolchain is installed")
    toolchain = get_toolchain()
    result = probe(toolchain.python)
    assert result.to_toolchain(toolchain.name, toolchain.python) == toolchain
    assert toolchain.host_triple.split("-")[0] in result.targets
