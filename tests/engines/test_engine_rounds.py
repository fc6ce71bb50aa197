"""Engines run in interpreters of their own, and one that fails is a row with the reason."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest

from passsearch.core import TensorType, TimeLimit, strict_limit
from passsearch.engines import (
    EngineFailure,
    EnginePlan,
    EngineRecord,
    EngineSpec,
    EngineTiming,
    compare,
    engine_row,
    engine_spec,
    rows_by_engine,
)
from passsearch.frontends import resolve_onnx
from passsearch.measure import CpuTimes, SensorReading
from passsearch.toolchain import Toolchain

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
    assert row["artifact_bytes"] == tiny_network.stat().st_size
    assert row["energy_j"] is None


def test_an_engine_with_its_own_threads_is_disturbed_on_every_core(
    onnxruntime_python: Path, tiny_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, cores = CpuTimes.read, set()

    def note(each: Sequence[int]) -> CpuTimes:
        cores.add(tuple(each))
        return read(each)

    monkeypatch.setattr(CpuTimes, "read", note)
    spec = replace(engine_spec("onnxruntime", tiny_network, python=onnxruntime_python), own_threads=True)
    compare([spec], reference=spec, types=TYPES, plan=replace(PLAN, processes=1), folder=tmp_path / "rounds")
    assert [set(each) for each in cores] == [os.sched_getaffinity(0)]


def test_several_inferences_at_the_same_time(onnxruntime_python: Path, tiny_network: Path, tmp_path: Path) -> None:
    plan = replace(PLAN, requests=(1, 3))
    reference = engine_spec("onnxruntime", tiny_network, python=onnxruntime_python, label="plain", optimise=False)
    specs = [engine_spec("onnxruntime", tiny_network, python=onnxruntime_python, label=name) for name in "ab"]
    own = replace(specs[1], name="own", own_threads=True)
    timing = EngineTiming(
        [*specs, own], references=[reference], types=TYPES, plan=plan, folder=tmp_path / "rounds", meter=Counter()
    )
    for _ in range(plan.processes):
        timing.run_process()
    records = {record.spec.name: record for record in timing.comparison.records}
    rows = rows_by_engine(records, baseline="a", plan=plan)
    assert [record.failure for record in records.values()] == ["", "", ""]
    for row in rows.values():
        for rate in row["together"].values():
            assert len(rate["process_rates"]) == plan.processes
            assert rate["ratio"]["interval"][0] <= rate["ratio"]["ratio"] <= rate["ratio"]["interval"][1]
        # Each visit takes one joule, and has at least the first inference and one that is timed.
        assert 0 < row["energy_j"] <= 0.5
    assert rows["a"]["together"]["3"]["ratio"]["ratio"] == 1.0
    assert rows["own"]["threads"] >= 1


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("onnxruntime", "Conv"), ("openvino", "Convolution"), ("torch", "convolution"), ("inductor", "cpp_fused")],
)
def test_the_kernels_of_an_engine_add_up_to_its_inference(
    name: str, kernel: str, request: pytest.FixtureRequest, onnxruntime_python: Path, tmp_path: Path
) -> None:
    fixture = {"onnxruntime": "onnxruntime_python", "openvino": "openvino_python"}.get(name, "torch_python")
    resolved = resolve_onnx("zoo:resnet_tiny", folder=tmp_path)
    path, plan = resolved.file.path, replace(PLAN, processes=1, kernel_runs=5)
    reference = engine_spec("onnxruntime", path, python=onnxruntime_python, label="plain", optimise=False)
    spec = engine_spec(name, path, python=request.getfixturevalue(fixture))
    comparison = compare([spec], reference=reference, types=resolved.types, plan=plan, folder=tmp_path / "rounds")
    row = engine_row(comparison.records[0], plan=plan)
    assert any(kernel in each["name"] for each in row["kernels"]["by_name"])
    if name in ("onnxruntime", "openvino"):
        calls = comparison.records[0].kernels
        assert any(call.operator == kernel and call.shape.startswith("1x3x") for call in calls)
    assert 0 < row["kernels"]["sum_s"] < 10 * row["median_s"]


def test_xla_says_why_it_has_no_kernels(onnxruntime_python: Path, xla_python: Path, tmp_path: Path) -> None:
    resolved = resolve_onnx("zoo:resnet_tiny", folder=tmp_path)
    path, plan = resolved.file.path, replace(PLAN, processes=1, kernel_runs=5)
    reference = engine_spec("onnxruntime", path, python=onnxruntime_python, label="plain", optimise=False)
    spec = engine_spec("xla", path, python=xla_python)
    comparison = compare([spec], reference=reference, types=resolved.types, plan=plan, folder=tmp_path / "rounds")
    row = engine_row(comparison.records[0], plan=plan)
    assert row["kernels"] == {"unavailable": "JAX's profiler writes a trace for a viewer only"}


FRAGILE = """
import os
import sys
from passsearch.engines.adapters import onnxruntime

def open_engine(model, **options):
    engine = onnxruntime.open_engine(model, **options)
    engine.requests = lambda count: os.abort()
    return engine
"""
"""An engine that ends its process when several inferences run at the same time."""


def test_an_engine_that_dies_of_several_inferences_keeps_its_single_ones(
    onnxruntime_python: Path, tiny_network: Path, tmp_path: Path
) -> None:
    (tmp_path / "fragile_engine.py").write_text(FRAGILE)
    reference = engine_spec("onnxruntime", tiny_network, python=onnxruntime_python)
    paths = {"PYTHONPATH": str(tmp_path)}
    fragile = EngineSpec("fragile", "fragile_engine", onnxruntime_python, tiny_network, environment=paths)
    plan = replace(PLAN, requests=(2,))
    comparison = compare([fragile], reference=reference, types=TYPES, plan=plan, folder=tmp_path / "rounds")
    record = comparison.records[0]
    assert record.failure == ""
    assert [len(visits) for visits in record.visits] == [2, 2]
    assert record.no_rates == {2: "the process was killed by SIGABRT at `together`"}


class Counter:
    """A meter whose readings are a joule apart."""

    unavailable: Mapping[str, str] = {}
    reports_disturbances = False
    energy_j = 0.0

    def begin(self) -> None:
        """Nothing to prepare."""

    def read(self) -> SensorReading:
        """Return one joule more than before."""
        self.energy_j += 1.0
        return SensorReading(time.monotonic(), energy_j=self.energy_j)


@pytest.mark.parametrize("network", ["resnet_tiny", "unet_tiny", "bert_tiny", "vit_tiny", "gpt2_tiny"])
def test_xla_computes_what_onnxruntime_computes(
    network: str, onnxruntime_python: Path, xla_python: Path, tmp_path: Path
) -> None:
    resolved = resolve_onnx(f"zoo:{network}", folder=tmp_path)
    path, plan = resolved.file.path, replace(PLAN, processes=1, requests=(2,))
    reference = engine_spec("onnxruntime", path, python=onnxruntime_python, label="plain", optimise=False)
    spec = engine_spec("xla", path, python=xla_python)
    comparison = compare([spec], reference=reference, types=resolved.types, plan=plan, folder=tmp_path / "rounds")
    assert comparison.records[0].failure == ""
    assert comparison.records[0].rates[2]


def test_a_release_of_tvm_is_an_engine_with_kernels(relax: Toolchain, tmp_path: Path) -> None:
    resolved = resolve_onnx("zoo:bert_tiny", folder=tmp_path)
    path, plan = resolved.file.path, replace(PLAN, processes=1, kernel_runs=2)
    reference = engine_spec("onnxruntime", path, label="plain", optimise=False)
    spec = engine_spec("apache-tvm", path, python=relax.python)
    comparison = compare([spec], reference=reference, types=resolved.types, plan=plan, folder=tmp_path / "rounds")
    row = engine_row(comparison.records[0], plan=plan)
    assert comparison.records[0].failure == "" and row["versions"]["tvm"].startswith("0.27")
    assert any("matmul" in each["name"] for each in row["kernels"]["by_name"])


def test_openvino_shows_its_own_precision_apart(
    onnxruntime_python: Path, openvino_python: Path, tiny_network: Path, tmp_path: Path
) -> None:
    reference = engine_spec("onnxruntime", tiny_network, python=onnxruntime_python)
    specs = [engine_spec(name, tiny_network, python=openvino_python) for name in ("openvino", "openvino:own")]
    plan = replace(PLAN, requests=(2,), limit=strict_limit(["float32"]))
    comparison = compare(specs, reference=reference, types=TYPES, plan=plan, folder=tmp_path / "rounds")
    single, own = (engine_row(record, plan=plan) for record in comparison.records)
    assert single["settings"]["INFERENCE_PRECISION_HINT"] == "f32"
    assert own["settings"]["INFERENCE_PRECISION_HINT"] in ("f32", "bf16", "f16")
    assert single["deviation"] <= plan.limit
    assert all(row["together"]["2"]["inferences_per_s"]["median"] > 0 for row in (single, own))


def test_openvino_runs_with_the_weights_that_nncf_compresses(
    onnxruntime_python: Path, nncf_python: Path, tmp_path: Path
) -> None:
    rng, helper, network = np.random.default_rng(0), onnx.helper, tmp_path / "network.onnx"
    # No group of 32 divides the second sum.
    shapes = {"v": (64, 40), "w": (40, 64)}
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal(each).astype("float32"), name) for name, each in shapes.items()
    ]
    products = [helper.make_node("MatMul", ["image", "v"], ["x"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    tensors = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 64]) for name in ("image", "y")]
    plan, types = replace(PLAN, processes=1, limit=0.5), {"image": TensorType((1, 64), "float32")}
    names = ("openvino:int8-weights", "openvino:int4-weights")

    def rows(nodes: list[onnx.NodeProto], initializers: list[onnx.TensorProto]) -> Sequence[EngineRecord]:
        graph = helper.make_graph(nodes, "one", tensors[:1], tensors[1:], initializers)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), network)
        reference = engine_spec("onnxruntime", network, python=onnxruntime_python)
        specs = [engine_spec(name, network, python=nncf_python) for name in names]
        return compare(specs, reference=reference, types=types, plan=plan, folder=tmp_path / "rounds").records

    found = [engine_row(record, plan=plan) for record in rows(products, weights)]
    assert [row["settings"]["weights"] for row in found] == [{"i8": 2}, {"i4": 1, "u8": 1}]
    assert all("nncf" in row["versions"] for row in found)
    assert 1e-4 < found[0]["deviation"] < found[1]["deviation"] < 0.5
    without = rows([helper.make_node("Relu", ["image"], ["y"])], [])
    assert all("NNCF compresses no weights of this network" in record.failure for record in without)


def test_onnxruntime_for_cuda_does_not_run_on_the_cpu(
    onnxruntime_python: Path, tiny_network: Path, tmp_path: Path
) -> None:
    reference = engine_spec("onnxruntime", tiny_network, python=onnxruntime_python)
    spec = engine_spec("onnxruntime-cuda", tiny_network, python=onnxruntime_python, device="cuda")
    plan = replace(PLAN, processes=1)
    comparison = compare([spec], reference=reference, types=TYPES, plan=plan, folder=tmp_path / "rounds")
    # The package for the CPU stands for the one for CUDA on a machine without a GPU.
    assert "ONNX Runtime cannot load CUDA or finds no GPU" in comparison.records[0].failure


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
        exact = engine_spec("torch", network, python=torch_python, label="exact", precision="float64")
        plain = engine_spec("onnxruntime", network, python=onnxruntime_python, label="plain", optimise=False)
        spec = engine_spec("onnxruntime", network, python=onnxruntime_python)
        plan = replace(PLAN, processes=1)
        timing = EngineTiming([spec], references=[exact, plain], types=TYPES, plan=plan, folder=tmp_path / operator)
        timing.run_process()
        assert timing.reference.name == reference
        assert timing.comparison.records[0].failure == ""


SAVE = """
import sys, torch
image = torch.zeros(1, 3, 16, 16)
module = torch.nn.ReLU() if sys.argv[1] == "one" else torch.nn.ModuleList([torch.nn.ReLU()])
if sys.argv[1] == "two":
    module.forward = lambda image: (module[0](image), -image)
torch.export.save(torch.export.export(module, (image,), strict=False), sys.argv[2] + ".pt2")
torch.jit.save(torch.jit.trace(module, (image,)), sys.argv[2] + ".pt")
"""


@pytest.mark.parametrize("outputs", ["one", "two"])
def test_pytorch_runs_its_own_files(outputs: str, onnxruntime_python: Path, torch_python: Path, tmp_path: Path) -> None:
    names = ["y", "z"][: 1 if outputs == "one" else 2]
    nodes = [onnx.helper.make_node("Relu", ["image"], ["y"]), onnx.helper.make_node("Neg", ["image"], ["z"])]
    tensors = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3, 16, 16]) for name in ("image", *names)
    ]
    graph = onnx.helper.make_graph(nodes[: len(names)], "relu", tensors[:1], tensors[1:])
    opset = onnx.helper.make_opsetid("", 14)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), str(tmp_path / "network.onnx"))
    subprocess.run([torch_python, "-c", SAVE, outputs, tmp_path / "network"], check=True)
    reference = engine_spec("onnxruntime", tmp_path / "network.onnx", python=onnxruntime_python)
    specs = [
        engine_spec("torch", tmp_path / f"network.{ending}", python=torch_python, label=ending)
        for ending in ("pt2", "pt", "onnx")
    ]
    comparison = compare(
        specs, reference=reference, types=TYPES, plan=replace(PLAN, processes=1), folder=tmp_path / "rounds"
    )
    assert [record.failure for record in comparison.records] == [""] * 3


def test_rounds_end_with_their_time_but_there_are_two(
    onnxruntime_python: Path, tiny_network: Path, tmp_path: Path
) -> None:
    spec = engine_spec("onnxruntime", tiny_network, python=onnxruntime_python)
    plan = replace(PLAN, processes=1, rounds=8, race_s=0.0)
    comparison = compare([spec], reference=spec, types=TYPES, plan=plan, folder=tmp_path / "rounds")
    assert [len(visits) for visits in comparison.records[0].visits] == [2]


def test_an_engine_that_outlasts_the_time_limit_fails(
    onnxruntime_python: Path, tiny_network: Path, tmp_path: Path
) -> None:
    (tmp_path / "sleeping.py").write_text("import time\ndef open_engine(*_, **__):\n    time.sleep(600)\n")
    spec = engine_spec("onnxruntime", tiny_network, python=onnxruntime_python)
    paths = {"PYTHONPATH": str(tmp_path)}
    sleeping = EngineSpec("sleeping", "sleeping", onnxruntime_python, tiny_network, environment=paths)
    timing = EngineTiming(
        [sleeping],
        references=[spec],
        types=TYPES,
        plan=replace(PLAN, processes=1),
        folder=tmp_path / "rounds",
        time_limit=TimeLimit(10.0),
    )
    begin_s = time.monotonic()
    timing.run_process()
    assert time.monotonic() - begin_s < 60
    assert timing.comparison.records[0].failure.startswith("no answer to `open` within")


def test_a_signal_from_outside_is_an_accident_and_one_of_the_engine_is_none(tmp_path: Path) -> None:
    source = "import os\ndef open_engine(model, *, number, **_):\n    os.kill(os.getpid(), number)\n"
    (tmp_path / "dying.py").write_text(source)
    network = tmp_path / "network.onnx"
    network.touch()
    options: Any = {"environment": {"PYTHONPATH": str(tmp_path)}}
    for number, is_accident in ((signal.SIGKILL, True), (signal.SIGTERM, True), (signal.SIGSEGV, False)):
        spec = EngineSpec("dying", "dying", Path(sys.executable), network, settings={"number": number}, **options)
        timing = EngineTiming([], references=[spec], types=TYPES, plan=PLAN, folder=tmp_path / "rounds")
        with pytest.raises(EngineFailure, match=f"killed by {number.name} at `open`") as caught:
            timing.run_process()
        assert caught.value.is_accident == is_accident


SLOW = """
import time
from types import SimpleNamespace

def open_engine(model, *, seconds, **_):
    outputs = lambda given: [*given.values()]
    infer = lambda: time.sleep(seconds)
    return SimpleNamespace(threads=1, versions={}, settings={}, outputs=outputs, infer=infer)
"""
COMPARE = """
import sys
from dataclasses import replace
from pathlib import Path
from passsearch.core import TensorType
from passsearch.engines import EnginePlan, EngineSpec, compare

folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
options = {"settings": {"seconds": seconds}, "environment": {"PYTHONPATH": str(folder)}}
spec = EngineSpec("slow", "slow_engine", Path(sys.executable), folder / "network.onnx", **options)
types = {"image": TensorType((1, 3, 16, 16), "float32")}
plan = EnginePlan(threads=1, processes=1, rounds=1, most=1)
compare([spec], reference=replace(spec, name="reference"), types=types, plan=plan, folder=folder / "rounds")
"""


def test_a_killed_comparison_leaves_no_process_and_its_files_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "slow_engine.py").write_text(SLOW)
    (tmp_path / "network.onnx").touch()
    (temporary := tmp_path / "temporary").mkdir()
    words, environment = [sys.executable, "-c", COMPARE, tmp_path], {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen([*words, "600"], env=environment) as comparison:
        while not list(temporary.glob("*/slow/0.npy")):  # its first inference; that of the rounds takes ten minutes
            time.sleep(0.01)
        engines = psutil.Process(comparison.pid).children()
        comparison.kill()
    _, alive = psutil.wait_procs(engines, timeout=10)
    assert engines and not alive
    assert list(temporary.iterdir())
    subprocess.run([*words, "0"], env=environment, check=True)
    assert not list(temporary.iterdir())


def test_outputs_that_deviate_are_a_failure(onnxruntime_python: Path, small_network: Path, tmp_path: Path) -> None:
    model = onnx.load(str(small_network))
    dense = model.graph.initializer[-1]
    dense.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(dense) * np.float32(1.01), dense.name))
    onnx.save(model, str(tmp_path / "other.onnx"))
    reference = engine_spec("onnxruntime", small_network, python=onnxruntime_python, label="plain", optimise=False)
    spec = engine_spec("onnxruntime", tmp_path / "other.onnx", python=onnxruntime_python)
    comparison = compare([spec], reference=reference, types=TYPES, plan=PLAN, folder=tmp_path / "rounds")
    assert comparison.records[0].failure.startswith("outputs deviate by ")
    assert not any(comparison.records[0].visits)
    comparison.records[0].deviations.append(math.inf)
    row = engine_row(comparison.records[0], plan=PLAN)
    assert row["deviation"] is None and json.dumps(row, allow_nan=False)


STEEP = """
from types import SimpleNamespace
import numpy as np

def open_engine(model, *, threads, inputs, shift, **_):
    def outputs(given):
        (value,) = given.values()
        return [np.sin(value.astype("float64") * (1 + shift) * 3000).astype("float32")]
    return SimpleNamespace(
        threads=1, versions={}, settings={}, outputs=outputs, infer=lambda: None, requests=None, kernels=None
    )
"""
"""An engine whose outputs move by thousands of roundings when its inputs move by one."""


@pytest.mark.parametrize(("shift", "is_right"), [(0.0, True), (2e-7, True), (1e-4, False)])
def test_engines_have_the_allowance_of_a_search_where_rounding_moves_the_reference(
    shift: float, is_right: bool, tiny_network: Path, tmp_path: Path
) -> None:
    (tmp_path / "steep_engine.py").write_text(STEEP)
    paths, python = {"PYTHONPATH": str(tmp_path)}, Path(sys.executable)
    reference, engine = (
        EngineSpec(name, "steep_engine", python, tiny_network, environment=paths, settings={"shift": value})
        for name, value in (("reference", 0.0), ("engine", shift))
    )
    plan = replace(PLAN, processes=1, limit=strict_limit(["float32"]))
    comparison = compare([engine], reference=reference, types=TYPES, plan=plan, folder=tmp_path / "rounds")
    assert ("is allowed" not in comparison.records[0].failure) == is_right, comparison.records[0].failure
    assert (comparison.records[0].deviations[0] > plan.limit) == (shift > 0)
