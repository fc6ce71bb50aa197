"""What ``bench RUN`` measures."""

from pathlib import Path

import pytest
from run_folders import unpack

from passsearch.api.run_request import of_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return unpack("relax-finished", tmp_path)


def test_the_winner_of_a_run_is_beside_its_baseline_and_what_is_installed(run: Path) -> None:
    model, engines, _ = of_run(str(run), [], None)
    assert model == "residual.onnx"
    assert [*engines[:2]] == [f"relax:{run}", "relax:default"] and "onnxruntime" in engines[2:]


def test_engines_that_the_user_names_stay(run: Path) -> None:
    assert of_run(run, ["openvino"], None)[1] == ["openvino"]


def test_a_network_is_no_run(tmp_path: Path) -> None:
    assert of_run("zoo:resnet_tiny", ["onnxruntime"], None) == ("zoo:resnet_tiny", ["onnxruntime"], None)
    assert of_run(tmp_path, [], None) == (tmp_path, [], None)
