"""Tuning and comparing on a real GPU."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from short_plans import SHORT

import passsearch
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.measure import WindowPlan
from passsearch.toolchain import Toolchain

SENSOR_METRICS = ("power_w", "energy_j", "temperature_c", "utilisation")
WINDOWS = WindowPlan(windows=1, window_s=1.0)
PLANS = replace(SHORT, search_windows=WINDOWS, final_windows=WINDOWS)


@pytest.mark.gpu
def test_a_network_is_tuned_and_rebuilt_by_its_script(cuda: Toolchain, small_network: Path, tmp_path: Path) -> None:
    result = passsearch.tune(
        small_network, toolchain=cuda.name, target="cuda", trials=2, confirm=2, plans=PLANS, out=tmp_path / "run"
    )
    document, best = result.document, result.document["best"]
    assert document["target"].startswith("cuda -arch=sm_")
    assert str(document["device"]["uuid"]).startswith(("GPU-", "MIG-"))
    assert best["memory_bytes"]["device"] > 0
    assert best["latency_s"]["median"] > 0 and best["outputs"]["deviation"] <= best["outputs"]["tolerance"]
    assert all((best[metric] is None) == (metric in best["unavailable"]) for metric in SENSOR_METRICS)
    script = result.export(tmp_path / "deploy") / "build_model.py"
    done = subprocess.run([str(cuda.python), str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.gpu
def test_a_cuda_graph_computes_the_same_outputs_as_the_default(cuda: Toolchain, small_network: Path) -> None:
    if cuda.dialect != "relax":
        pytest.skip(f"toolchain `{cuda.name}` has {cuda.dialect}, which has no pass for CUDA graphs")
    comparison = passsearch.compare(
        small_network, ["default", "graph-gpu"], toolchain=cuda.name, target="cuda", processes=2, plans=PLANS
    )
    graph = comparison["rows"][1]
    assert "failure" not in graph and graph["latency_s"]["median"] > 0


@pytest.mark.gpu
def test_schedules_of_a_kernel_are_timed_on_the_gpu(cuda: Toolchain, small_network: Path, tmp_path: Path) -> None:
    if cuda.dialect != "relax":
        pytest.skip(f"toolchain `{cuda.name}` has {cuda.dialect}, whose kernels are not timed one by one")
    with passsearch.session(
        small_network, toolchain=cuda.name, target="cuda", folder=tmp_path / "own", remember=False
    ) as evaluator:
        state = evaluator.reach(Pipeline.parse("LegalizeOps,AnnotateTIROpPattern,FuseOps{fuse_opt_level=2},FuseTIR"))
        assert isinstance(state, str)
        network = evaluator.kernels(state)
        assert not isinstance(network, Failure)
        rules = ("Matmul", "Fallback", "8x8x2x2x32x1", "8x16x2x2x32x4", "8x16x4x4x16x4v")
        steps = [PassSpec.of("ScheduleGPU"), *(PassSpec.of("ScheduleGPU", rule=rule) for rule in rules)]
        for kernel in network.kernels:
            times = evaluator.variants(network, kernel, steps)
            assert all(seconds > 0 for seconds in times.values()), kernel.name
            assert set(times) == set(steps), kernel.name
