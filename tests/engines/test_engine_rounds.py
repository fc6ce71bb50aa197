"""Engines run in interpreters of their own, and one that fails is a row with the reason."""

from dataclasses import replace
from pathlib import Path

import onnx

from passsearch.core import TensorType
from passsearch.engines import Contest, EnginePlan, EngineSpec, compare, engine_row, engine_spec

PLAN = EnginePlan(threads=1, processes=2, rounds=2, visit_s=0.01, pause_s=0.0)
TYPES = {"image": TensorType((1, 3, 16, 16), "float32")}


def test_onnxruntime_is_measured_beside_one_that_cannot(
    onnxruntime_python: Path, tiny_network: Path, tmp_path: Path
) -> None:
    reference = engine_spec("onnxruntime", tiny_network, python=onnxruntime_python, label="plain", optimise=False)
    good = engine_spec("onnxruntime", tiny_network, python=onnxruntime_python)
    absent = EngineSpec("absent", "absent_engine", onnxruntime_python, tiny_network)
    comparison = compare([good, absent], reference=reference, types=TYPES, plan=PLAN, folder=tmp_path / "rounds")
    row, failed = (engine_row(record, plan=PLAN) for record in comparison.records)
    assert failed["failure"] == "ModuleNotFoundError: No module named 'absent_engine'"
    assert row["threads"] == 1
    assert set(row["versions"]) == {"onnxruntime"}
    assert row["deviation"] <= PLAN.limit
    assert [len(visits) for visits in row["visits"]] == [2, 2]
    assert row["latency_s"]["interval"][0] < row["latency_s"]["median"] < row["latency_s"]["interval"][1]
    assert 0 < row["memory_bytes"] < 10**9


def test_the_first_reference_that_takes_the_network_counts(
    onnxruntime_python: Path, torch_python: Path, tmp_path: Path
) -> None:
    network = tmp_path / "network.onnx"
    value = onnx.helper.make_tensor_value_info
    # PyTorch has no rule for the second operator.
    for operator, reference in (("Relu", "exact"), ("HardSwish", "plain")):
        tensors = [value(name, onnx.TensorProto.FLOAT, [1, 3, 16, 16]) for name in ("image", "y")]
        node = onnx.helper.make_node(operator, ["image"], ["y"])
        graph = onnx.helper.make_graph([node], "one", tensors[:1], tensors[1:])
        opset = onnx.helper.make_opsetid("", 14)
        onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), str(network))
        exact = engine_spec("torch", network, python=torch_python, label="exact", float64=True)
        plain = engine_spec("onnxruntime", network, python=onnxruntime_python, label="plain", optimise=False)
        spec = engine_spec("onnxruntime", network, python=onnxruntime_python)
        plan = replace(PLAN, processes=1)
        contest = Contest([spec], references=[exact, plain], types=TYPES, plan=plan, folder=tmp_path / operator)
        contest.run_turn()
        assert contest.reference.name == reference
        assert contest.comparison.records[0].failure == ""


def test_outputs_that_deviate_are_a_failure(onnxruntime_python: Path, small_network: Path, tmp_path: Path) -> None:
    reference = engine_spec("onnxruntime", small_network, python=onnxruntime_python, label="plain", optimise=False)
    spec = engine_spec("onnxruntime", small_network, python=onnxruntime_python)
    strict = EnginePlan(threads=1, processes=1, rounds=2, visit_s=0.01, pause_s=0.0, limit=-1.0)
    comparison = compare([spec], reference=reference, types=TYPES, plan=strict, folder=tmp_path / "rounds")
    assert comparison.records[0].failure.startswith("outputs deviate by ")
    assert not any(comparison.records[0].visits)
