"""A fault that is reduced to the smallest network that shows it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import passsearch
from passsearch.cli.app import main
from passsearch.errors import UserError
from passsearch.toolchain import Toolchain

EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = b"confidential"


def weights() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {f"confidential_{number}": rng.standard_normal((4, 4, 3, 3)).astype("float32") / 6 for number in range(3)}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three convolutions, of which one is followed by the activation that a pass forgets."""
    value, names = "confidential_x", list(weights())
    nodes = []
    for name, activation in zip(names, ("Sigmoid", "Relu", "Tanh"), strict=True):
        nodes += [helper.make_node("Conv", [value, name], [f"{name}_c"], f"{name}_node", "confidential", pads=[1] * 4)]
        nodes += [helper.make_node(activation, [f"{name}_c"], [f"{name}_a"])]
        value = f"{name}_a"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 6, 6]) for name in ("confidential_x", value)]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights().items()]
    model = helper.make_model(
        helper.make_graph(nodes, "confidential", ends[:1], ends[1:], tensors),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="confidential",
    )
    path = tmp_path_factory.mktemp("network") / "confidential.onnx"
    onnx.save(model, path)
    return path


def test_a_wrong_pass_is_shown_by_one_node_and_nothing_of_the_network(
    network: Path, relax: Toolchain, tmp_path: Path
) -> None:
    catalog = shutil.copy(EXAMPLES / "broken_passes.yaml", tmp_path)
    shutil.copy(EXAMPLES / "broken_passes.py", tmp_path)
    report = passsearch.reproduce(
        network, out=tmp_path / "fault", pipeline="FoldConstant,Forgets", toolchain=relax.name, catalogs=[catalog]
    )
    assert (report["kind"], report["confirmed"]) == ("wrong result", True)
    assert report["before"] == {"nodes": 6, "parameters": 432, "passes": 2}
    assert report["after"] == {"nodes": 1, "parameters": 0, "passes": 1}
    assert json.loads((tmp_path / "fault" / "report.json").read_text())["after"] == report["after"]
    [node] = onnx.load(str(tmp_path / "fault" / "network.onnx")).graph.node
    assert node.op_type == "Relu"
    content = b"".join(file.read_bytes() for file in (tmp_path / "fault").iterdir())
    assert SECRET in network.read_bytes() and SECRET not in content
    assert not [name for name, array in weights().items() if array.tobytes()[:16] in content]
    assert "Wrong result" in repr(report)


def test_an_interruption_leaves_the_smallest_network_so_far(network: Path, relax: Toolchain, tmp_path: Path) -> None:
    def interrupt(text: str, runs: int, total: int) -> None:
        if runs > 3:
            raise KeyboardInterrupt

    report = passsearch.reproduce(
        network,
        out=tmp_path / "fault",
        pipeline="Forgets",
        toolchain=relax.name,
        catalogs=[EXAMPLES / "broken_passes.yaml"],
        progress=interrupt,
    )
    assert report["confirmed"] and report["time_is_over"]
    assert 1 <= report["after"]["nodes"] < 6


def test_another_device_is_refused(network: Path, relax: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run on CPUs"):
        passsearch.reproduce(network, out=tmp_path / "fault", toolchain=relax.name, target="nvidia/nvidia-a100")


def test_nothing_is_written_where_no_fault_is_seen(
    network: Path, relax: Toolchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(network), "--pipeline", "FoldConstant", "--toolchain", relax.name, "--out", str(tmp_path / "fault")]
    assert main(["reproduce", *words]) == 1
    assert capsys.readouterr().out.startswith("No fault is seen: outputs deviate by ")
    assert not (tmp_path / "fault").exists()


def test_what_cannot_be_reduced_is_refused_before_anything_runs(relax: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    with pytest.raises(UserError, match="name another folder by"):
        passsearch.reproduce("zoo:resnet_tiny", out=tmp_path, toolchain=relax.name)
    (tmp_path / "network.pt").write_bytes(b"no network")
    with pytest.raises(UserError):
        passsearch.reproduce(tmp_path / "network.pt", out=tmp_path / "fault", toolchain=relax.name)
