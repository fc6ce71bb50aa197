"""Engines are what adapters declare; each has lock files, and one that is absent says how to get it."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from passsearch.engines import (
    UNAVAILABLE,
    declarations,
    engine_environment,
    engine_findings,
    engine_spec,
    engine_table,
    installed_engines,
)
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import data_folder, remove_engine


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSSEARCH_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(engine_table, "find_spec", lambda module: None)


def test_every_engine_has_lock_files() -> None:
    cpu = {"apache-tvm", "inductor", "onnxruntime", "torch", "xla"}
    cpu |= {"openvino", "openvino:own", "openvino:int8-weights", "openvino:int4-weights"}
    assert {name for name, engine in declarations().items() if "cpu" in engine.devices} == cpu
    cuda = {"inductor", "inductor-graph", "onnxruntime-cuda", "tensorrt", "torch", "torch-graph"}
    assert {name for name, engine in declarations().items() if "cuda" in engine.devices} == cuda
    for engine in declarations().values():
        for tag in ("py311", "py312", "py313"):
            assert "--hash=sha256:" in engine.environment.lock(tag).read_text(), engine.name


@pytest.mark.usefixtures("nothing_installed")
def test_an_engine_that_is_not_installed_says_how_to_install_it() -> None:
    with pytest.raises(
        EnvironmentFault, match=r"`inductor` is not installed. Run: passsearch toolchain install torch$"
    ):
        engine_spec("inductor", Path("x.onnx"))


@pytest.mark.usefixtures("nothing_installed")
def test_an_interpreter_has_an_engine_if_it_has_all_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_table, "find_spec", lambda module: None if module == "onnx" else find_spec("sys"))
    found = installed_engines(["onnxruntime", "torch", "onnxruntime-cuda"], Path("x.onnx"))
    assert [(each.name, each.python) for each in found] == [("onnxruntime", Path(sys.executable))]


def test_a_dead_engine_says_why_it_is_not_available() -> None:
    with pytest.raises(UserError, match=r"Engine `plaidml` is not available: nobody maintains it"):
        engine_spec("plaidml", Path("x.onnx"))


def test_a_mistyped_engine_gets_the_name_most_like_it() -> None:
    with pytest.raises(UserError, match=r"Unknown engine `onnxruntim`; did you mean `onnxruntime`\?"):
        engine_spec("onnxruntim", Path("x.onnx"))


@pytest.mark.usefixtures("nothing_installed")
def test_the_doctor_lists_every_engine() -> None:
    findings = {finding.name: finding for finding in engine_findings()}
    assert set(findings) == {f"engine {name}" for name in [*declarations(), *UNAVAILABLE]}
    assert findings["engine openvino"].remedy == "Run: passsearch toolchain install openvino"
    # No engine is needed for a search, so none of them makes the doctor's answer negative.
    assert {finding.ok for finding in findings.values()} == {None}


@pytest.mark.usefixtures("nothing_installed")
def test_the_doctor_sees_the_engines_of_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_table, "find_spec", lambda module: find_spec("sys") if module != "torch" else None)
    findings = {finding.name: finding for finding in engine_findings()}
    assert findings["engine onnxruntime"].ok and sys.executable in findings["engine onnxruntime"].detail
    assert findings["engine torch"].ok is None


@pytest.mark.usefixtures("nothing_installed")
def test_the_doctor_lists_versions_that_were_installed_and_says_how_to_delete_them() -> None:
    environment = engine_environment("onnxruntime==1.24.1")
    assert environment is not None and environment.requirement == "onnxruntime==1.24.1"
    python = data_folder() / "engines" / "onnxruntime==1.24.1" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    findings = {finding.name: finding for finding in engine_findings()}
    found = findings["engine onnxruntime==1.24.1"]
    assert found.ok and found.remedy == "To delete it: passsearch toolchain remove onnxruntime==1.24.1"
    remove_engine(environment)
    assert "engine onnxruntime==1.24.1" not in {finding.name for finding in engine_findings()}


@pytest.mark.parametrize("name", ["onnxruntime==", "onnxruntime==../..", "plaidml==1.0"])
def test_what_is_no_version_of_an_engine_has_no_environment(name: str) -> None:
    assert engine_environment(name) is None
