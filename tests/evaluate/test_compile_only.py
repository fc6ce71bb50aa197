"""A target that nothing here runs: compile times are searched, everything else is unavailable with a reason."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import short_plans
from onnx import TensorProto, helper

import passsearch
from passsearch.errors import UserError
from passsearch.evaluate import Built, Session, open_session
from passsearch.frontends import resolve
from passsearch.measure import Sensors
from passsearch.search import named_candidate
from passsearch.toolchain import Toolchain

A100 = "cuda -arch=sm_80"


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, whatever the machine has."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.slow
@pytest.mark.usefixtures("blind")
def test_compile_time_is_searched_without_the_device(
    cuda_relax: Toolchain, small_network: Path, tmp_path: Path
) -> None:
    result = short_plans.tune(
        small_network,
        toolchain=cuda_relax.name,
        target=A100,
        objective="compile_time",
        trials=3,
        confirm=2,
        passes=["DecomposeOpsForInference", "LegalizeOps"],
        out=tmp_path / "run",
    )
    best, verdict = result.document["best"], result.document["verdict"]
    assert verdict["confirmed"] and verdict["ratio"] > 0 and result.document["ratios"]["throughput"] is None
    assert best["compile_s"] > 0 and best["latency_s"] is None and "no GPU here" in best["unavailable"]["latency_s"]
    assert best["outputs"]["deviation"] is None and "not compared: no GPU here" in str(result)
    folder = result.export(tmp_path / "deploy")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [str(cuda_relax.python), str(folder / "build_model.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "outputs not checked" in done.stdout
    assert "device cuda\n" in (folder / "built" / "conditions.txt").read_text()
    audited = short_plans.audit(tmp_path / "run", confirm=2)
    details = {each["name"]: each["detail"] for each in audited["checks"]}
    assert all(each["ok"] for each in audited["checks"] if each["name"] != "measurement")
    assert "not compared" in details["outputs"] and "none were" in details["recorded outputs"]


def test_a_cpu_target_without_a_triple_runs_here(relay: Toolchain, tiny_network: Path) -> None:
    # The default triple of this TVM is RISC-V's: its code ends the process that loads it.
    assert not relay.default_triple.startswith(relay.host_triple.partition("-")[0])
    with passsearch.session(tiny_network, target="llvm", toolchain=relay.name, remember=False) as evaluator:
        candidate = evaluator.session.dialect.baseline
        built = evaluator.build(evaluator.graph.root, candidate)
    assert isinstance(built, Built), built


@pytest.mark.usefixtures("blind")
def test_cuda_without_an_architecture_and_without_a_gpu_is_refused(relax: Toolchain, small_network: Path) -> None:
    with pytest.raises(UserError, match=r"names no architecture.*cuda -arch=sm_80"):
        short_plans.tune(small_network, toolchain=relax.name, target="cuda", objective="compile_time")


def test_cuda_is_the_architecture_of_the_gpu_that_will_run_it(relax: Toolchain, small_network: Path) -> None:
    gpu = Sensors({"uuid": "GPU-1", "arch": "sm_90"}, {})

    def probe(device: str) -> Sensors:
        return gpu if device == "cuda:0" else Sensors({}, {})

    network = resolve(small_network, folder=small_network.parent)
    targets = ("cuda", "cuda -max_num_threads=512", '{"kind": "cuda"}', A100, "llvm")
    sessions = [open_session(network, toolchain=relax.name, target=each, probe_sensors=probe) for each in targets]
    assert [each.target for each in sessions] == [
        "cuda -arch=sm_90",
        "cuda -max_num_threads=512 -arch=sm_90",
        '{"kind": "cuda", "arch": "sm_90"}',
        A100,
        f"llvm -mtriple={relax.host_triple}",
    ]
    assert [each.gpu for each in sessions] == ["GPU-1"] * 4 + [None]


@pytest.mark.parametrize(("visible", "runs"), [(None, True), ("0", True), ("", False), ("-1", False)])
def test_a_variable_that_hides_all_gpus_hides_the_one_that_the_toolchain_saw(
    relax: Toolchain, small_network: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, runs: bool
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr("passsearch.evaluate.session.has_driver", lambda: True)
    network = resolve(small_network, folder=small_network.parent)
    unseen = Sensors({}, {"power_w": "NVML lists none"})
    session = open_session(network, toolchain=relax.name, target=A100, probe_sensors=lambda _: unseen)
    with_device = replace(session, toolchain=replace(session.toolchain, cuda_device=True))
    assert (with_device.cannot_run_reason == "") is runs
    monkeypatch.setattr("passsearch.evaluate.session.has_driver", lambda: False)
    assert with_device.cannot_run_reason


def test_a_json_target_of_another_processor_runs_nothing(relax: Toolchain, small_network: Path) -> None:
    network = resolve(small_network, folder=small_network.parent)

    def reason(target: str) -> str:
        return open_session(network, toolchain=relax.name, target=target).cannot_run_reason

    assert "the target is aarch64" in reason('{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}')
    assert not reason('{"kind": "llvm"}')


@pytest.mark.usefixtures("blind")
def test_what_only_the_device_tells_is_refused_before_the_search(
    relax: Toolchain, small_network: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="cannot be read for `cuda -arch=sm_80`: no GPU here"):
        short_plans.tune(small_network, toolchain=relax.name, target=A100, out=tmp_path / "run")
    with pytest.raises(UserError, match="Nothing can be timed"):
        short_plans.compare(small_network, ["default"], toolchain=relax.name, target=A100)


def test_attention_builds_for_vectors_of_which_a_whole_one_has_no_keys(
    relax: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "cannot_run_reason", "not every processor has such vectors")
    # Two vectors of 16 keys at once make 14 of 197, and the last has none.
    values = {"q": [1, 2, 50, 8], "k": [1, 2, 8, 197], "v": [1, 2, 197, 8], "y": [1, 2, 50, 8]}
    *inputs, output = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values.items())
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "attention", inputs, [output]),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "attention.onnx")
    target = "llvm -mcpu=x86-64-v4"
    options: Any = {"toolchain": relax.name, "target": target, "remember": False}
    with passsearch.session(tmp_path / "attention.onnx", **options) as evaluator:
        built = evaluator.build_candidate(named_candidate(evaluator.session, "schedule-cpu"))
    assert isinstance(built, Built), built
