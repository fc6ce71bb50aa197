"""What ``bench RUN`` measures."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from run_folders import unpack

from passsearch.api.run_request import RunRequest, make_run_request
from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends import ModelFile


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return unpack("relax-finished", tmp_path)


def network(recorded: Any, **changes: Any) -> ModelFile:
    """Return a file of the network of a run, with changes."""
    inputs = {name: TensorType(tuple(each["shape"]), each["dtype"]) for name, each in recorded["inputs"].items()}
    same = {
        "sha256": recorded["sha256"],
        "batch": None,
        "function": "",
        "cases": (),
        "inputs": inputs,
        "original": None,
    }
    return cast(ModelFile, SimpleNamespace(**{**same, **changes}))


def test_the_winner_of_a_run_is_beside_its_baseline_and_what_is_installed(run: Path) -> None:
    request = make_run_request(str(run), [], None, None)
    assert (request.model, request.batch) == ("residual.onnx", 1)
    assert [*request.engines[:2]] == [f"relax:{run}", "relax:default"] and "onnxruntime" in request.engines[2:]


def test_engines_that_the_user_names_stay(run: Path) -> None:
    assert make_run_request(run, ["openvino"], None, None).engines == ["openvino"]


def test_a_network_is_no_run(tmp_path: Path) -> None:
    assert make_run_request("zoo:resnet_tiny", ["onnxruntime"], None, 4) == RunRequest(
        "zoo:resnet_tiny", ["onnxruntime"], 4
    )
    assert make_run_request(tmp_path, [], None, None) == RunRequest(tmp_path, [], None)


def test_a_run_is_measured_at_its_batch_size(run: Path) -> None:
    file = run / "result.json"
    result = json.loads(file.read_text())
    result["model"]["batch"] = 8
    file.write_text(json.dumps(result))
    assert make_run_request(run, [], None, None).batch == 8 and make_run_request(run, [], None, 2).batch == 2


def test_another_network_or_other_sizes_than_those_of_the_run_are_refused(run: Path) -> None:
    request = make_run_request(run, [], None, None)
    recorded = request.recorded
    assert recorded is not None
    request.check(network(recorded))
    others = {name: TensorType((7, 7), "float32") for name in recorded["inputs"]}
    for changes in ({"sha256": "0" * 64}, {"inputs": others}):
        with pytest.raises(UserError, match="is another network now than in the run, or has other sizes"):
            request.check(network(recorded, **changes))
