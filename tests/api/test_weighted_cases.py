"""Functions other than main, and open sizes: refused where nobody has chosen, tuned as chosen."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import short_plans
from jobs import MOSTLY_RELAX, Job
from onnx import TensorProto, helper, numpy_helper

import passsearch
from passsearch.errors import UserError

PROGRAM = Path(__file__).parent / "programs" / "save_functions.py"


@pytest.fixture(scope="session")
def functions(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module of the dialect with the functions `prefill`, of an open length, and `decode`."""
    path = tmp_path_factory.mktemp("functions") / "functions.json"
    subprocess.run([str(job.toolchain.python), str(PROGRAM), job.toolchain.dialect, str(path)], check=True)
    return path


@pytest.fixture(scope="session")
def open_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose input has an open length."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["length", 8]) for name in ("x", "y")]
    nodes = [helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "open", value[:1], value[1:])
    path = tmp_path_factory.mktemp("network") / "open.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(path))
    return path


def tune(network: Path, job: Job, **options) -> passsearch.TuneResult:
    options = {"trials": 1, "confirm": 0, "passes": job.cheap, **options}
    return short_plans.tune(network, toolchain=job.toolchain.name, **options)


@MOSTLY_RELAX
def test_nothing_is_tuned_that_nobody_has_chosen(job: Job, functions: Path, open_network: Path) -> None:
    with pytest.raises(UserError, match='has `decode`, `prefill` but no `main`; choose one: function="decode"'):
        tune(functions, job)
    with pytest.raises(UserError, match="open dimensions; give its sizes"):
        tune(functions, job, function="prefill")
    with pytest.raises(UserError, match="open dimensions; give its sizes"):
        tune(open_network, job)
    with pytest.raises(UserError, match=r"is onnx, which has one function; leave `prefill` out"):
        tune(open_network, job, function="prefill", sizes="x=4x8")


@MOSTLY_RELAX
def test_a_chosen_function_is_tuned_alone(job: Job, functions: Path, tmp_path: Path) -> None:
    result = tune(functions, job, function="prefill", sizes="x=4x8", out=tmp_path / "run")
    model = result.document["model"]
    assert model["function"] == "prefill"
    assert model["other_functions"] == ["decode"]
    assert model["inputs"] == {"x": {"shape": [4, 8], "dtype": "float32"}}
    assert "function: prefill" in str(result)
    assert "not tuned: decode" in str(result)
    with pytest.raises(UserError, match="was started with function = `prefill`, now it is `decode`"):
        tune(functions, job, function="decode", out=tmp_path / "run")


@pytest.mark.slow
def test_an_open_network_is_tuned_at_the_chosen_size(job: Job, open_network: Path, tmp_path: Path) -> None:
    result = tune(open_network, job, sizes="x=4x8", out=tmp_path / "run")
    assert result.document["model"]["inputs"] == {"x": {"shape": [4, 8], "dtype": "float32"}}


@pytest.mark.parametrize("job", ["relay"], indirect=True)
def test_a_dialect_of_one_function_refuses_several_sizes(job: Job, open_network: Path) -> None:
    with pytest.raises(UserError, match="one function at one size, and 4x8, 2x8 are asked for; tune each in a run"):
        tune(open_network, job, sizes="x=4x8,2x8")


@pytest.fixture(scope="module")
def weighed(job: Job, functions: Path, tmp_path_factory: pytest.TempPathFactory) -> passsearch.TuneResult:
    """A finished run on both functions."""
    run = tmp_path_factory.mktemp("weighed") / "run"
    inputs = {"prefill.x": "float32[64,8]"}
    return tune(functions, job, function="prefill:0.25,decode:0.75", inputs=inputs, confirm=2, out=run)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_cases_have_a_result_each(weighed: passsearch.TuneResult) -> None:
    document = weighed.document
    assert [(case["name"], case["weight"]) for case in document["cases"]] == [("prefill", 0.25), ("decode", 0.75)]
    assert all(case["throughput"]["ratio"] > 0 for case in document["cases"])
    # The table has the mean by weights, which lies between the cases.
    latencies = [case["baseline_latency_s"]["median"] for case in document["cases"]]
    assert min(latencies) < document["baseline"]["latency_s"]["median"] < max(latencies)
    assert document["best"]["outputs"]["deviation"] is not None
    assert "case decode: " in str(weighed)
    assert "cases: prefill (25 % of the calls), decode (75 % of the calls)" in str(weighed)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_a_run_on_cases_continues_only_with_the_same_weights(
    job: Job, weighed: passsearch.TuneResult, functions: Path
) -> None:
    facts = (weighed.run / "log.jsonl").read_text().count("\n")
    inputs = {"prefill.x": "float32[64,8]"}
    again = tune(functions, job, function="prefill:1,decode:3", inputs=inputs, confirm=2, out=weighed.run)
    assert (weighed.run / "log.jsonl").read_text().count("\n") == facts
    assert again.document["cases"] == weighed.document["cases"]
    with pytest.raises(UserError, match=r"was started with cases = `prefill prefill:0\.25"):
        tune(functions, job, function="prefill,decode", inputs=inputs, confirm=2, out=weighed.run)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_an_export_of_cases_builds_and_runs_every_function(
    job: Job, weighed: passsearch.TuneResult, tmp_path: Path
) -> None:
    folder = weighed.export(tmp_path / "deploy")
    for script in ("build_model.py", "run_model.py"):
        done = subprocess.run([str(job.toolchain.python), str(folder / script)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "main_prefill: 1 outputs deviate by 0 " in done.stdout
    assert "main_decode: 1 outputs deviate by 0 " in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_an_audit_rebuilds_every_function(weighed: passsearch.TuneResult) -> None:
    checks = {check["name"]: check["ok"] for check in short_plans.audit(weighed.run, confirm=2)["checks"]}
    assert checks["IR"] and checks["outputs"] and checks["recorded outputs"]


@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_sizes_of_a_network_are_weighed(job: Job, open_network: Path, tmp_path: Path) -> None:
    result = tune(open_network, job, sizes="x=4x8:0.75,32x8:0.25", out=tmp_path / "run")
    names = {name: kind["shape"] for name, kind in result.document["model"]["inputs"].items()}
    assert names == {"4x8.x": [4, 8], "32x8.x": [32, 8]}
    assert result.document["best"]["latency_s"]["median"] > 0


@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_caches_are_not_flushed_for_several_cases(job: Job, open_network: Path) -> None:
    sizes, name = "x=4x8:0.75,32x8:0.25", job.toolchain.name
    with pytest.raises(UserError, match="Caches are flushed for one case only"):
        short_plans.compare(open_network, [job.default_baseline], sizes=sizes, cache="flushed", toolchain=name)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_sizes_that_stay_open_are_measured_as_chosen(job: Job, open_network: Path, tmp_path: Path) -> None:
    sizes = "x=4x8:0.75,32x8:0.25"
    result = tune(open_network, job, sizes=sizes, keep_symbolic=True, confirm=2, out=tmp_path / "run")
    assert [case["name"] for case in result.document["cases"]] == ["4x8", "32x8"]
    assert all(case["throughput"]["ratio"] > 0 for case in result.document["cases"])
    checks = {check["name"]: check["ok"] for check in short_plans.audit(result.run, confirm=2)["checks"]}
    assert checks["IR"] and checks["outputs"] and checks["recorded outputs"]


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_a_profile_of_cases_shows_no_blocks(job: Job, tmp_path: Path) -> None:
    """Calls of a second case would be taken for further calls of the first one's blocks."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["length", 8]) for name in ("x0", "x6")]
    nodes, weights = [], []
    for place in range(6):
        weights.append(numpy_helper.from_array(np.full((8, 8), 0.1 + place, np.float32), f"w{place}"))
        nodes.append(helper.make_node("MatMul", [f"x{place}", f"w{place}"], [f"m{place}"]))
        nodes.append(helper.make_node("Relu", [f"m{place}"], [f"x{place + 1}"]))
    graph = helper.make_graph(nodes, "chain", value[:1], value[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(tmp_path / "chain.onnx"))
    blocks = {}
    for sizes in ("x0=4x8", "x0=4x8,32x8"):
        options = {"sizes": sizes, "toolchain": job.toolchain.name, "plans": short_plans.SHORT}
        (pipeline,) = passsearch.profile(tmp_path / "chain.onnx", [job.default_baseline], **options)["pipelines"]
        blocks[sizes] = pipeline["blocks"]
    assert blocks["x0=4x8"] and blocks["x0=4x8,32x8"] is None
