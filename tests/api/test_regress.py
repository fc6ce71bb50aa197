"""What got slower between two engines, versions or pipelines."""

import json
from pathlib import Path
from typing import Any

import pytest

import passsearch
from passsearch.api.regressed_side import read_side
from passsearch.cli.app import main
from passsearch.engines import engine_table
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import Toolchain, registry
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
        ("onnxruntime{threads}", r"A pipeline reads|Options read"),
        ("torch{threads=1}", r"`torch` takes no options of a session; leave out `{threads=1}`."),
        ("tensorrt==10.0", r"Versions are installed of engines for processors only; `tensorrt` runs on GPUs."),
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


@pytest.mark.parametrize(
    ("errors", "kind", "message"),
    [
        (
            "ERROR: Could not find a version that satisfies the requirement onnxruntime==9.9 (from versions: 1.23.0, "
            "1.24.1)\nERROR: No matching distribution found for onnxruntime==9.9\n",
            UserError,
            "There is no `onnxruntime==9.9` for this Python; the last versions are: 1.23.0, 1.24.1.",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement onnxruntime==9.9 (from versions: none)\n"
            "ERROR: No matching distribution found for onnxruntime==9.9\n",
            EnvironmentFault,
            "Could not fetch onnxruntime==9.9. Check the network",
        ),
    ],
)
def test_an_unknown_version_is_the_users_mistake_unless_the_index_is_away(
    tmp_path: Path, errors: str, kind: type[Exception], message: str
) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{errors}END\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(kind) as error:
        Pip(script, "onnxruntime").resolve("onnxruntime==9.9", locks=())
    assert str(error.value).startswith(message)


def test_a_version_has_an_environment_of_its_own() -> None:
    environment = engine_table.declarations()["torch"].environment.of_version("2.9.0")
    assert (environment.name, environment.requirement) == ("torch==2.9.0", "torch==2.9.0")
    assert engine_table.declarations()["xla"].environment.of_version("0.7.0").requirement == "jax==0.7.0"


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
