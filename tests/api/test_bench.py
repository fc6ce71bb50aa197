"""``passsearch.bench`` measures TVM beside other engines; mistakes are answered before anything is built."""

import sys
from dataclasses import fields
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest

import passsearch
from passsearch.api import bench_settings, engine_artifacts
from passsearch.api.bench_settings import BenchSettings
from passsearch.errors import EnvironmentFault, UserError
from passsearch.measure import Sensors
from passsearch.toolchain import Toolchain


def open_network(path: Path) -> Path:
    """Write a network whose batch size is open."""
    value = onnx.helper.make_tensor_value_info
    image, result = (value(name, onnx.TensorProto.FLOAT, ["N", 3, 8, 8]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "open", [image], [result])
    opset = onnx.helper.make_opsetid("", 13)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), str(path))
    return path


def test_adapters_take_the_options_of_the_references(tmp_path: Path) -> None:
    model = Mock(path=tmp_path / "network.onnx")
    specs = engine_artifacts.reference_engines(model, Path(sys.executable))
    assert len(specs) == 2
    for spec in specs:
        taken = signature(import_module(spec.adapter).open_engine).parameters
        assert set(spec.settings) <= set(taken), spec.name


def test_batch_sizes_of_an_open_file(onnxruntime_python: Path, tmp_path: Path) -> None:
    network = open_network(tmp_path / "open.onnx")
    quick = {"threads": 1, "rounds": 2, "processes": 1, "engines_python": onnxruntime_python}
    document = passsearch.bench(network, ["onnxruntime"], batches=[1, 64], **quick)  # type: ignore[arg-type]
    assert [row["batch"] for row in document["rows"]] == [1, 64]
    assert [types["x"]["shape"] for types in document["inputs"]] == [[1, 3, 8, 8], [64, 3, 8, 8]]
    assert {row["ratio"]["by fastest"]["ratio"] for row in document["rows"]} == {1.0}
    assert set(document["friction"]) == {"onnxruntime"}
    text = str(document)
    assert "batch 64" in text
    assert "friction" in text


def test_accuracy_on_labels(onnxruntime_python: Path, tmp_path: Path) -> None:
    network, file = tmp_path / "rows.onnx", tmp_path / "samples.npz"
    value = onnx.helper.make_tensor_value_info
    tensors = [value(name, onnx.TensorProto.FLOAT, ["N", 4]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "rows", tensors[:1], tensors[1:])
    opset = onnx.helper.make_opsetid("", 13)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), str(network))
    # The largest of each row is at its label, but for two of eight rows; the ninth fills no batch of two.
    labels = np.arange(9) % 4
    np.savez(file, x=np.eye(4, dtype="float32")[labels], labels=np.where(labels == 3, 0, labels))
    options = {"rounds": 2, "processes": 1, "batch": 2, "engines_python": onnxruntime_python}
    document = passsearch.bench(network, ["onnxruntime"], labels=file, **options)  # type: ignore[arg-type]
    assert document["rows"][0]["accuracy"] == {"value": 0.75, "correct": 6, "count": 8}
    assert "75.00 %" in str(document)
    for content, message in ((b"", "Cannot read"), (b"PK no zip", "Cannot read"), (None, "needs an array `labels`")):
        if content is None:
            np.savez(file, x=np.zeros((9, 4), "float32"))
        else:
            file.write_bytes(content)
        with pytest.raises(UserError, match=message):
            passsearch.bench(network, ["onnxruntime"], labels=file, **options)  # type: ignore[arg-type]
    np.savez(file, x=np.zeros((9, 5), "float32"), labels=labels)
    with pytest.raises(UserError, match=r"`x` of `.*samples.npz` has the shape \(9, 5\); the network takes \(2, 4\)"):
        passsearch.bench(network, ["onnxruntime"], labels=file, **options)  # type: ignore[arg-type]
    np.savez(file, x=np.zeros((9, 4)), labels=labels)
    with pytest.raises(UserError, match=r"is float64; the network takes float32. Write it with .astype\('float32'\)"):
        passsearch.bench(network, ["onnxruntime"], labels=file, **options)  # type: ignore[arg-type]
    np.savez(file, x=np.zeros((9, 4), "float32"), labels=labels.reshape(-1, 1))
    with pytest.raises(UserError, match=r"`labels` of `.*` has the shape \(9, 1\); .*Write it with .reshape\(-1\)"):
        passsearch.bench(network, ["onnxruntime"], labels=file, **options)  # type: ignore[arg-type]
    other = tmp_path / "words.onnx"
    words = [value(name, onnx.TensorProto.FLOAT, ["N", 3, 4]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "words", words[:1], words[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), str(other))
    np.savez(file, x=np.zeros((9, 3, 4), "float32"), labels=labels)
    document = passsearch.bench(other, ["onnxruntime"], labels=file, **options)  # type: ignore[arg-type]
    text = " ".join(str(document).split())
    assert "no accuracy: ValueError: the first output has the shape 2x3x4, one row of classes" in text
    np.savez(file, x=np.zeros((1, 4), "float32"), labels=labels[:1])
    with pytest.raises(UserError, match="has 1 samples, and the batch size is 2"):
        passsearch.bench(network, ["onnxruntime"], labels=file, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_tvm_beside_onnxruntime(onnxruntime_python: Path, relax: Toolchain, tmp_path: Path, tiny_network: Path) -> None:
    engines = [f"{relax.name}:default", "onnxruntime", f"{relax.name}:FoldConstant,NoSuchPass"]
    with pytest.raises(UserError, match="NoSuchPass"):
        passsearch.bench(tiny_network, engines, engines_python=onnxruntime_python)
    document = passsearch.bench(
        tiny_network,
        engines[:2],
        baseline="onnxruntime",
        rounds=2,
        processes=2,
        requests=[2],
        own_threads=True,
        engines_python=onnxruntime_python,
    )
    first, second = document["rows"]
    assert "failure" not in first and "failure" not in second
    assert second["ratio"]["by fastest"]["ratio"] == 1.0
    low, high = first["ratio"]["by fastest"]["interval"]
    assert low < first["ratio"]["by fastest"]["ratio"] < high
    assert first["versions"] == {"tvm": relax.tvm_version}
    assert first["build"]["opt_level"] >= 0
    assert first["artifact_bytes"] > 0
    for row in (first, second):
        assert row["together"]["2"]["inferences_per_s"]["median"] > 0
        assert row["own_threads"]["threads"] >= 1 and row["own_threads"]["latency_s"]["median"] > 0


@pytest.mark.parametrize(
    ("engines", "options", "message"),
    [
        ([], {}, "Nothing to measure; give for example: engines=.relay:O3,onnxruntime"),
        (["onnxrt"], {}, "Unknown engine `onnxrt`"),
        (["migraphx"], {}, "Engine `migraphx` is not available: it needs a GPU of AMD and ROCm"),
        (["torch", "torch"], {}, "Engine `torch` is named twice"),
        (["torch"], {"baseline": "openvino"}, "The baseline is one of the engines; got `openvino`"),
        (["torch"], {"batches": [1, 1]}, "`batches` is a list of different numbers"),
        (["torch"], {"batches": [0]}, "`each of batches` is a whole number from 1 on; got 0"),
        (["torch"], {"batch": 1, "batches": [1]}, "Give `batch` or `batches`, not both."),
        (["tensorrt"], {}, "`tensorrt` runs on cuda, and the target is `cpu`; leave it out, or give target=.cuda."),
        (["xla"], {"target": "cuda"}, "Engine `xla` runs on cpu, and the target is `cuda`; leave it out."),
        (["torch"], {"requests": [0]}, "`each of requests` is a whole number from 1 on; got 0"),
        (["no-such:O3"], {}, "Unknown toolchain `no-such`|No toolchain"),
    ],
)
def test_mistakes(engines: list[str], options: dict[str, object], message: str) -> None:
    with pytest.raises((UserError, EnvironmentFault), match=message):
        passsearch.bench("zoo:resnet_tiny", engines, **options)  # type: ignore[arg-type]


def test_a_fixed_file_takes_no_other_batch_size(onnxruntime_python: Path, tiny_network: Path) -> None:
    with pytest.raises(UserError, match="Batch 2 does not fit inputs of fixed size"):
        passsearch.bench(tiny_network, ["onnxruntime"], batches=[1, 2], engines_python=onnxruntime_python)


def test_an_engine_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSSEARCH_DATA_DIR", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"Run: passsearch toolchain install openvino$"):
        passsearch.bench("zoo:resnet_tiny", ["openvino"])


@pytest.mark.parametrize("target", ["cuda", "nvidia/nvidia-a100", '{"kind": "cuda", "arch": "sm_80"}'])
def test_all_engines_run_on_the_card_of_the_target(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = {"cuda": Sensors({"uuid": "GPU-1"}, {}), "cpu": Sensors({}, {})}
    monkeypatch.setattr(bench_settings, "probe", cards.__getitem__)
    others: dict[str, Any] = dict.fromkeys(each.name for each in fields(BenchSettings) if each.name != "target")
    settings = BenchSettings(target=target, **others)
    assert (settings.device, settings.gpu) == ("cuda", "GPU-1")
    assert BenchSettings(target=None, **others).gpu is None
