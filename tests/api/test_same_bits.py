"""Searches that keep every bit of a reference, and what refuses other bits afterwards."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import short_plans
from onnx import TensorProto, helper

import passsearch
from passsearch.errors import UserError
from passsearch.report import result_text
from passsearch.results import RunResult
from passsearch.toolchain import Toolchain

SEQUENCE = "LegalizeOps,ScheduleCPU"
"""Sums a row in the lanes of a vector, where the compiler's default sums one number after the other."""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that sums rows of 512 numbers."""
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 512])]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])]
    axes = [onnx.numpy_helper.from_array(np.array([1]), "axes")]
    graph = helper.make_graph([node], "sums", values, result, axes)
    path = tmp_path_factory.mktemp("network") / "sums.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


@pytest.fixture(scope="module")
def kept(network: Path, relax: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> passsearch.TuneResult:
    """A run that keeps the bits of the compiler's default."""
    return short_plans.tune(
        network,
        toolchain=relax.name,
        same_bits="default",
        trials=4,
        confirm=0,
        passes=["LegalizeOps", "ScheduleCPU"],
        out=tmp_path_factory.mktemp("kept") / "run",
    )


def test_only_candidates_with_the_bits_of_the_reference_are_measured(kept: passsearch.TuneResult) -> None:
    document = kept.document
    bits = document["same_bits"]["bits"]
    assert "magnitudes" in bits and document["deployment"]["bits"] == document["best"]["outputs"]["bits"]
    assert [each["outputs"]["bits"] for each in document["trials"]] == [bits] * len(document["trials"])
    refused = [each for each in document["failed"] if each["kind"] == "other_bits"]
    assert refused and all("ScheduleCPU" in each["pipeline"] for each in refused)
    assert "other bits on" in refused[0]["reason"] and document["failures"]["other_bits"] == len(refused)
    assert document["reproducers"] == [], "right outputs are no fault of a pass"


def test_the_result_says_what_the_condition_costs(kept: passsearch.TuneResult) -> None:
    cost = kept.document["same_bits"]
    assert cost["refused"] == 1 and "ScheduleCPU" in cost["fastest"] and cost["check_ratio"] > 0
    assert cost["ratio"] is None and cost["unavailable"]["ratio"].startswith("not measured")
    text = result_text(RunResult.from_json(kept.document), width=1000)
    assert "those of default; candidates refused for their bits alone: 1" in text


def _audit(run: Path, **changed: Any) -> Mapping[str, Any]:
    document = json.loads((run / "result.json").read_text())
    document["deployment"] |= changed
    (run / "result.json").write_text(json.dumps(document))
    return {each["name"]: each for each in short_plans.audit(run, confirm=2)["checks"]}


def test_an_audit_refuses_other_bits_and_names_the_first_kernel(kept: passsearch.TuneResult, tmp_path: Path) -> None:
    run = shutil.copytree(kept.run, tmp_path / "run")
    recorded = kept.document["deployment"]
    assert [kernel for kernel, _ in recorded["kernel_bits"]] == ["sum"]
    other = {**recorded["bits"], "magnitudes": "0" * 16}
    check = _audit(run, bits=other, kernel_bits=[["sum", "0" * 16]])["bits"]
    assert not check["ok"] and "on inputs magnitudes; they hold for one TVM" in check["detail"]
    assert check["detail"].endswith("the first kernel is sum, call 1 of 1")
    unseen = _audit(run, bits={"1": recorded["bits"]["1"]})["bits"]
    assert unseen["ok"] and unseen["detail"].startswith("not compared"), "as of a slow network, which ran on few inputs"


def test_a_run_is_a_reference_while_network_and_target_are_its_own(
    kept: passsearch.TuneResult, network: Path, tiny_network: Path, relax: Toolchain, tmp_path: Path
) -> None:
    def tune(model: Path, **options: Any) -> passsearch.TuneResult:
        return short_plans.tune(model, toolchain=relax.name, same_bits=kept.run, out=tmp_path / "run", **options)

    with pytest.raises(UserError, match="has another network"):
        tune(tiny_network)
    with pytest.raises(UserError, match="has another target"):
        tune(network, target="llvm -mcpu=x86-64-v2")
    with pytest.raises(UserError, match="neither `default` nor `recommended`"):
        short_plans.tune(network, toolchain=relax.name, same_bits=tmp_path, out=tmp_path / "run")
    again = tune(network, trials=1, confirm=0, passes=["LegalizeOps"])
    assert again.document["same_bits"]["bits"] == kept.document["same_bits"]["bits"]


def test_a_run_of_an_earlier_version_is_no_reference(
    kept: passsearch.TuneResult, network: Path, relax: Toolchain, tmp_path: Path
) -> None:
    run = shutil.copytree(kept.run, tmp_path / "run")
    document = json.loads((run / "result.json").read_text())
    del document["deployment"]["bits"]
    (run / "result.json").write_text(json.dumps(document))
    with pytest.raises(UserError, match="has no record of its bits"):
        short_plans.tune(network, toolchain=relax.name, same_bits=run, out=tmp_path / "other")


def test_an_export_says_which_bits_it_keeps(kept: passsearch.TuneResult, tmp_path: Path) -> None:
    record = json.loads((kept.export(tmp_path / "deploy") / "pipeline.json").read_text())
    assert record["same_bits"] == "default" and record["bits"] == kept.document["deployment"]["bits"]
