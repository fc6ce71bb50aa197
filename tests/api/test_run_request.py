"""What ``bench RUN`` measures."""

import json
from pathlib import Path

import pytest
from run_folders import unpack

from passsearch.api.run_request import of_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return unpack("relax-finished", tmp_path)


def test_the_winner_of_a_run_is_beside_its_baseline_and_what_is_installed(run: Path) -> None:
    model, engines, _, batch = of_run(str(run), [], None, None)
    assert (model, batch) == ("residual.onnx", 1)
    assert [*engines[:2]] == [f"relax:{run}", "relax:default"] and "onnxruntime" in engines[2:]


def test_engines_that_the_user_names_stay(run: Path) -> None:
    assert of_run(run, ["openvino"], None, None)[1] == ["openvino"]


def test_a_network_is_no_run(tmp_path: Path) -> None:
    assert of_run("zoo:resnet_tiny", ["onnxruntime"], None, 4) == ("zoo:resnet_tiny", ["onnxruntime"], None, 4)
    assert of_run(tmp_path, [], None, None) == (tmp_path, [], None, None)


def test_a_run_is_measured_at_its_batch_size(run: Path) -> None:
    file = run / "result.json"
    result = json.loads(file.read_text())
    result["model"]["batch"] = 8
    file.write_text(json.dumps(result))
    assert of_run(run, [], None, None)[3] == 8 and of_run(run, [], None, 2)[3] == 2
