"""What got slower between two engines, versions or pipelines."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import passsearch
from passsearch.api.regressed_side import RecordedBuild, SideRequest, read_side
from passsearch.api.regressing import _check_runs
from passsearch.cli.app import main
from passsearch.engines import engine_table
from passsearch.engines.adapters.onnxruntime import _set_option
from passsearch.engines.contract import OptionError
from passsearch.errors import EnvironmentFault, UserError
from passsearch.frontends import resolve_onnx
from passsearch.toolchain import Toolchain, cache_folder, registry
from passsearch.toolchain.pip import Pip

SLOW = 'onnxruntime{enable_mem_pattern=true,graph_optimization_level="ORT_DISABLE_ALL"}'

LONG = ",".join(f"Pass{number}" for number in range(100))


@pytest.fixture
def chains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Toolchain, ...]:
    """Two versions of one compiler."""
    python = tmp_path / "python"
    python.touch()
    about: dict[str, Any] = dict.fromkeys(("tvm_commit", "llvm_version", "default_triple", "host_triple"), "")
    about |= {"dialect": "relax", "targets": (), "cuda": False, "cuda_device": False, "python_version": "3.11.7"}
    versions = {"new": "0.27.0.post1", "old": "0.25.0"}
    made = tuple(Toolchain(name=name, python=python, tvm_version=each, **about) for name, each in versions.items())
    monkeypatch.setattr(registry, "_read", lambda: made)
    return made


def test_a_side_is_an_engine_a_version_or_a_toolchain(chains: tuple[Toolchain, ...]) -> None:
    del chains
    engine = read_side("onnxruntime==1.24.1")
    assert (engine.engine, engine.version) == ("onnxruntime", "1.24.1")
    slow = read_side(SLOW)
    assert slow.options == {"enable_mem_pattern": True, "graph_optimization_level": "ORT_DISABLE_ALL"}
    assert read_side("openvino:own").engine == "openvino:own"
    names = {
        "old": ("old", None),
        "new:FoldConstant,FuseOps": ("new", "FoldConstant,FuseOps"),
        "0.25": ("old", None),
        f"new:{LONG}": ("new", LONG),
        "tvm==0.27.0.post1": ("new", None),
    }
    for text, expected in names.items():
        side = read_side(text)
        assert side.toolchain is not None
        assert (side.toolchain.name, side.pipeline) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("onnxruntine", r"`onnxruntine` is nothing to compare. Engines: .*onnxruntime.*; toolchains: new, old;"),
        ("onnxruntine==1.0", r"Unknown engine `onnxruntine`; did you mean `onnxruntime`\?"),
        ("0.26", r"No toolchain has TVM 0.26; there are: 0.27.0.post1 \(new\), 0.25.0 \(old\)."),
        ("onnxruntime{threads}", r"Options read `onnxruntime{name=value}`, .*; got `onnxruntime{threads}`."),
        ("onnxruntime{}", r"Options read `onnxruntime{name=value}`, with values as in JSON; got `onnxruntime{}`."),
        ("onnxruntime{a=1},X", r"Options read `onnxruntime{name=value}`, .*; got `onnxruntime{a=1},X`."),
        ("torch{threads=1}", r"`torch` takes no options of a session; leave out `{threads=1}`."),
        ("tensorrt==10.0", r"`regress` runs on processors, and `tensorrt` runs on GPUs only."),
        ("tensorrt", r"`regress` runs on processors, and `tensorrt` runs on GPUs only."),
    ],
)
def test_what_is_nothing_to_compare_is_refused_in_one_line(
    chains: tuple[Toolchain, ...], text: str, message: str
) -> None:
    del chains
    with pytest.raises(UserError, match=message) as error:
        read_side(text)
    assert "\n" not in str(error.value)


def test_without_a_network_both_sides_are_runs() -> None:
    with pytest.raises(UserError, match="Name the network: passsearch regress MODEL --from A --to B"):
        passsearch.regress(before="onnxruntime", after="onnxruntime")


def test_a_gpu_is_refused() -> None:
    with pytest.raises(UserError, match="`regress` runs on processors, and the target is `cuda`"):
        passsearch.regress("zoo:resnet_tiny", before="onnxruntime", after="onnxruntime", target="cuda")


OFFERED = "1.23.0, 1.24.1"


@pytest.mark.parametrize(
    ("package", "offered", "is_named", "find_links", "kind"),
    [
        ("onnxruntime==9.9", OFFERED, True, None, UserError),
        ("onnxruntime==9.9", "none", True, None, EnvironmentFault),
        ("onnxruntime==9.9", OFFERED, False, None, EnvironmentFault),
        ("onnxruntime==9.9", OFFERED, True, Path("wheels"), EnvironmentFault),
        ("numpy==0.9", OFFERED, True, None, EnvironmentFault),
    ],
)
def test_an_unknown_version_is_the_users_mistake_unless_the_index_is_away(
    tmp_path: Path, package: str, offered: str, is_named: bool, find_links: Path | None, kind: type[Exception]
) -> None:
    script = tmp_path / "python"
    script.write_text(
        "#!/bin/sh\ncat >&2 <<'END'\n"
        f"ERROR: Could not find a version that satisfies the requirement {package} (from versions: {offered})\n"
        f"ERROR: No matching distribution found for {package}\nEND\nexit 1\n"
    )
    script.chmod(0o755)
    messages = {
        UserError: f"There is no `{package}` for this Python; the last versions are: {offered}.",
        EnvironmentFault: f"Could not fetch {package}. Check the network",
    }
    with pytest.raises(kind) as error:
        Pip(script, "onnxruntime", find_links).resolve("onnxruntime==9.9", locks=(), is_named=is_named)
    assert str(error.value).startswith(messages[kind])


def test_a_version_has_an_environment_of_its_own() -> None:
    environment = engine_table.declarations()["torch"].environment.of_version("2.9.0")
    assert (environment.name, environment.requirement) == ("torch==2.9.0", "torch==2.9.0")
    assert engine_table.declarations()["xla"].environment.of_version("0.7.0").requirement == "jax==0.7.0"


def test_what_was_built_otherwise_is_said() -> None:
    side = SideRequest("runs/old", recorded=RecordedBuild("net", "0f", "0.25.0", "llvm -mcpu=a"))
    assert side.remark(tvm_version="0.25.0", target="llvm -mcpu=a") == ""
    assert side.remark(tvm_version="0.27.0", target="llvm -mcpu=a") == (
        "`runs/old` was made by TVM 0.25.0 for `llvm -mcpu=a`; here TVM 0.27.0 builds it for `llvm -mcpu=a`"
    )
    assert "builds it for `llvm`" in side.remark(tvm_version="0.25.0", target="llvm")
    assert SideRequest("relax").remark(tvm_version="0.27.0", target="llvm") == ""


def test_a_pipeline_file_of_another_network_is_refused() -> None:
    network = resolve_onnx("zoo:resnet_tiny", inputs=None, batch=None, folder=cache_folder() / "models", trust=False)
    build = RecordedBuild("other", "0f", "0.25.0", "llvm")
    with pytest.raises(UserError, match=r"`p.json` is of `other`, another file than `resnet_tiny`"):
        _check_runs([SideRequest("p.json", recorded=build)], network)
    _check_runs([SideRequest("p.json", recorded=replace(build, sha256=network.file.sha256))], network)


@pytest.mark.slow
def test_a_setting_of_an_engine_is_named_with_its_kernels(
    onnxruntime_python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del onnxruntime_python
    words = ["regress", "zoo:mobilenet_v2", "--from", "onnxruntime{enable_mem_pattern=false}", "--to", SLOW]
    assert main([*words, "--threads", "1", "--seconds", "150", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "slower"
    assert "graph_optimization_level" in document["named"]["exchange"]
    assert document["kernels"][0]["share"] > 0
    assert document["before"]["load_s"] and document["before"]["memory_bytes"] > 0


@pytest.mark.slow
def test_the_pass_that_makes_the_difference_is_named(relax: Toolchain) -> None:
    passes = 'LegalizeOps,AnnotateTIROpPattern,FoldConstant{evaluator="numpy"},FuseOps{fuse_opt_level=2},FuseTIR'
    found = passsearch.regress(
        "zoo:resnet_tiny",
        before=f"{relax.name}:{passes},ScheduleCPU",
        after=f"{relax.name}:{passes}",
        threads=1,
        seconds=200,
    )
    assert (found["verdict"], found["named"]["exchange"]) == ("slower", "with ScheduleCPU")
    assert "conv2d" in found["named"]["kernel"]
    assert "with ScheduleCPU" in str(found)


@pytest.mark.slow
def test_a_pipeline_beside_itself_is_no_slowdown(relax: Toolchain) -> None:
    side = f"{relax.name}:default-passes"
    found = passsearch.regress("zoo:resnet_tiny", before=side, after=side, threads=1, seconds=100)
    assert (found["verdict"], found["regressed"]) == ("no certain difference", False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph_optimisation_level": "ORT_DISABLE_ALL"}, r"unknown option `graph_optimisation_level`; there are .*"),
        ({"graph_optimization_level": "ALL"}, r"`graph_optimization_level` is one of ORT_DISABLE_ALL, .*; got `ALL`"),
        ({"enable_mem_pattern": "no"}, r"`enable_mem_pattern` is of type bool; got `no`"),
        ({"intra_op_num_threads": True}, r"`intra_op_num_threads` is of type int; got `True`"),
    ],
)
def test_a_wrong_option_of_a_session_is_named(options: dict[str, Any], message: str) -> None:
    [(name, value)] = options.items()
    session = pytest.importorskip("onnxruntime").SessionOptions()
    with pytest.raises(OptionError, match=message):
        _set_option(session, name, value)


def test_an_entry_of_a_session_that_is_true_is_one() -> None:
    options = pytest.importorskip("onnxruntime").SessionOptions()
    _set_option(options, "session.intra_op.allow_spinning", value=False)
    _set_option(options, "session.set_denormal_as_zero", value=True)
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"


def test_a_wrong_option_is_a_mistake_of_the_user(capsys: pytest.CaptureFixture[str], onnxruntime_python: Path) -> None:
    del onnxruntime_python
    words = ["regress", "zoo:resnet_tiny", "--from", "onnxruntime", "--to", "onnxruntime{typo=1}", "--threads", "1"]
    assert main(words) == 2
    assert "`onnxruntime{typo=1}`: unknown option `typo`; there are" in capsys.readouterr().err
