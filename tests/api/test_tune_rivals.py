"""The winner of a search beside the engines that the user has, by default and on request."""

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from short_plans import SHORT

import passsearch
from passsearch.api import rivals
from passsearch.api.common import model_file
from passsearch.core import Candidate, Case, NetworkOptions, TimeLimit
from passsearch.engines import EngineRecord, EngineSpec, EngineTiming, engine_table
from passsearch.engines.client import EngineProcess
from passsearch.errors import UserError
from passsearch.frontends import ModelFile
from passsearch.results import FailedRival
from passsearch.toolchain import Toolchain


@pytest.fixture
def tune(
    relax: Toolchain, tiny_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., passsearch.TuneResult]:
    """A search of one candidate with one process of ONNX Runtime, whatever engines the user has."""
    only_onnxruntime = lambda engine: Path(sys.executable) if engine.name == "onnxruntime" else None  # noqa: E731
    monkeypatch.setattr(engine_table, "_python", only_onnxruntime)
    monkeypatch.setattr(rivals, "PROCESSES", 1)
    monkeypatch.setattr(rivals, "ROUNDS", 2)
    options: dict[str, Any] = {"trials": 1, "confirm": 0, "passes": ["LegalizeOps"], "plans": SHORT}
    out = tmp_path / "run"
    return lambda **more: passsearch.tune(tiny_network, toolchain=relax.name, out=out, **options | more)


def test_the_engines_that_are_installed_stand_beside_the_winner(
    tune: Callable[..., passsearch.TuneResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tune()
    row = result.document["rivals"]["engines"]["onnxruntime"]
    assert row["latency_s"]["median"] > 0 and row["rival_latency_s"]["median"] > 0
    assert row["ratio"]["ratio"] > 0 and row["version"]
    assert result.document["seconds"]["rivals"] == pytest.approx(result.document["rivals"]["seconds"], abs=0.001)
    assert "times the throughput of ONNX Runtime" in str(result).splitlines()[0]
    assert passsearch.TuneResult.read(result.run).document == result.document

    # The same call continues the run, and nothing is measured again.
    monkeypatch.setattr(EngineTiming, "run_process", lambda _: pytest.fail("an engine was started"))
    assert tune().document["rivals"] == result.document["rivals"]
    without = tune(rivals=[])
    assert without.document["rivals"]["reason"] == "none was asked for" and not without.document["rivals"]["engines"]
    assert "No other engine was measured: none was asked for." in str(without)


@pytest.mark.slow
def test_a_search_without_time_for_other_engines_has_its_result(
    tune: Callable[..., passsearch.TuneResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(rivals.Rivals, "process_s", lambda *_: 1e6)
        result = tune(timeout=600)
    assert result.document["rivals"]["reason"] == "no time was left to measure ONNX Runtime beside it"
    assert result.document["deployment"] is not None
    assert tune(timeout=600).document["rivals"]["engines"]["onnxruntime"]["ratio"]["ratio"] > 0


def test_an_interrupted_comparison_keeps_its_complete_processes(
    tune: Callable[..., passsearch.TuneResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_process = rivals._run_process
    reasons: list[str] = []

    def run_one_process(*arguments: Any) -> Any:
        if reasons:
            raise KeyboardInterrupt
        reasons.append(json.loads((tmp_path / "run" / "result.json").read_text())["rivals"]["reason"])
        return run_process(*arguments)

    monkeypatch.setattr(rivals, "PROCESSES", 3)
    monkeypatch.setattr(rivals, "_run_process", run_one_process)
    compared = tune().document["rivals"]
    assert compared["processes"] == 1 and compared["engines"]["onnxruntime"]["ratio"]["ratio"] > 0
    assert reasons == ["it did not finish; the same command continues"], "what a killed run would say"


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Kills processes of ONNX Runtime once they have loaded the network, by their numbers."""

    def kill(*numbers: int) -> None:
        load, count = EngineProcess.open, itertools.count()

        def load_and_die(self: EngineProcess, inputs: Path) -> dict[str, Any]:
            answer = load(self, inputs)
            if self._spec.name == "onnxruntime" and next(count) in numbers:
                os.kill(self._process.pid, signal.SIGKILL)
            return answer

        monkeypatch.setattr(EngineProcess, "open", load_and_die)

    return kill


# In each turn of processes, the first one of ONNX Runtime computes the expected outputs and the second one is timed.
@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1], ids=["reference", "timed"])
def test_an_engine_that_is_killed_starts_once_more(
    number: int, tune: Callable[..., passsearch.TuneResult], kill_at: Callable[..., None]
) -> None:
    kill_at(number)
    assert tune().document["rivals"]["engines"]["onnxruntime"]["ratio"]["ratio"] > 0


@pytest.mark.slow
def test_an_engine_that_is_killed_again_is_the_reason_and_is_not_remembered(
    tune: Callable[..., passsearch.TuneResult], kill_at: Callable[..., None]
) -> None:
    kill_at(0, 1)
    result = tune()
    said = "onnxruntime: the process was killed by SIGKILL at `outputs`; the same command measures it again"
    assert result.document["rivals"]["engines"]["onnxruntime"]["failure"] == said
    assert f"No other engine was measured: {said}" in " ".join(str(result).split())
    assert tune().document["rivals"]["engines"]["onnxruntime"]["ratio"]["ratio"] > 0


@pytest.mark.slow
def test_an_engine_that_is_killed_later_leaves_the_complete_processes(
    tune: Callable[..., passsearch.TuneResult], kill_at: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "PROCESSES", 2)
    kill_at(3)
    compared = tune().document["rivals"]
    assert compared["processes"] == 1 and compared["engines"]["onnxruntime"]["ratio"]["ratio"] > 0
    assert tune().document["rivals"]["processes"] == 2


def test_a_wrong_name_is_refused_before_anything_is_written(
    tune: Callable[..., passsearch.TuneResult], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="Unknown engine `onnxruntine`; did you mean `onnxruntime`"):
        tune(rivals=["onnxruntine"])
    assert not (tmp_path / "run").exists()


def session_of(kind: str = "onnx", *, source: str = "network", **session: Any) -> Any:
    """Return what decides on the engines beside a network."""
    model = ModelFile(Path("network"), kind, "network", source, "0", cases=session.pop("cases", ()))  # type: ignore[arg-type]
    return SimpleNamespace(model=model, cannot_run_reason="", device="cpu", **session)


@pytest.mark.parametrize("names", [[], ["none"]])
def test_no_engine_on_request(names: list[str]) -> None:
    found = rivals.Rivals.find(session_of(), names)
    assert (found.names, found.processes, found.reason) == ((), 0, "none was asked for")


@pytest.mark.parametrize(
    ("session", "reason"),
    [
        (session_of("tensorflow"), "other engines run ONNX files and networks of PyTorch, and this is `tensorflow`"),
        (session_of(cases=(Case("a", 1.0, "main", "main"),)), "several cases"),
    ],
)
def test_where_nothing_can_be_compared_the_reason_is_known(session: Any, reason: str) -> None:
    assert reason in rivals.Rivals.find(session, None).reason
    with pytest.raises(UserError, match="There is no comparison with onnxruntime"):
        rivals.Rivals.find(session, ["onnxruntime"])


@pytest.mark.parametrize("kind", ["exported", "torchscript"])
def test_a_network_that_only_pytorch_can_run_stands_beside_pytorch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_table, "_python", lambda engine: Path(sys.executable))
    found = rivals.Rivals.find(session_of(kind), None)
    assert found.names == ("torch",) and set(found.unfit) == {"onnxruntime", "openvino"}
    with pytest.raises(UserError, match="runs ONNX files, and this network is none"):
        rivals.Rivals.find(session_of(kind), ["onnxruntime", "torch"])


def test_pytorch_stands_beside_built_in_networks_and_not_beside_a_users_onnx_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_table, "_python", lambda engine: Path(sys.executable))
    assert rivals.Rivals.find(session_of(), None).names == ("onnxruntime", "openvino")
    assert rivals.Rivals.find(session_of(source="zoo:resnet18"), None).names == ("onnxruntime", "openvino", "torch")
    assert rivals.Rivals.find(session_of(), ["torch"]).names == ("torch",)


def test_a_reason_names_the_engines_that_could_run_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    # As where PyTorch is the only engine.
    has_torch = lambda engine: Path(sys.executable) if engine.name == "torch" else None  # noqa: E731
    monkeypatch.setattr(engine_table, "_python", has_torch)
    reason = "ONNX Runtime and OpenVINO are not installed; see: passsearch toolchain install onnxruntime"
    assert rivals.Rivals.find(session_of(), None).reason == reason
    monkeypatch.setattr(engine_table, "_python", lambda engine: None)
    reason = "PyTorch (eager) is not installed; see: passsearch toolchain install torch"
    assert rivals.Rivals.find(session_of("exported"), None).reason == reason


@pytest.mark.parametrize(("export_s", "exports"), [(0.0, 1), (1000.0, 0)], ids=["longer than before", "too long"])
def test_an_export_for_an_engine_is_within_the_time_limit(
    export_s: float, exports: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_table, "_python", lambda engine: Path(sys.executable))
    session, clock_s, made = session_of(), 0.0, []

    def export() -> ModelFile:
        nonlocal clock_s
        clock_s += 1000.0
        made.append("file")
        return session_of("torchscript").model  # type: ignore[no-any-return]

    session.model = replace(session.model, otherwise=export, export_s=export_s)
    found, built = rivals.Rivals.find(session, ["torch"]), SimpleNamespace(run_s=0.001)
    limit = TimeLimit(500.0, lambda: clock_s)
    evaluator: Any = None  # no process may start
    compared = found.compare(evaluator, Candidate(), built, time_limit=limit)  # type: ignore[arg-type]
    assert compared.reason == "no time was left to measure PyTorch (eager) beside it" and len(made) == exports


def test_engines_run_the_sizes_that_the_network_is_compiled_for(tmp_path: Path) -> None:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "open", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "a.onnx")
    session = session_of()
    session.model = model_file(tmp_path / "a.onnx", None, NetworkOptions(batch=2))
    specs, failed = rivals.Rivals.find(session, ["onnxruntime"])._open_files()
    sizes = onnx.load(specs[0].model).graph.input[0].type.tensor_type.shape.dim
    assert [size.dim_value for size in sizes] == [2, 3] and not failed


def test_a_failure_of_the_compiled_network_is_not_called_the_engines() -> None:
    spec = EngineSpec("a", "adapter", Path("python"), Path("network"))
    fit, unfit = EngineRecord(spec), EngineRecord(spec, failure="outputs deviate")
    assert rivals._row(unfit, fit) == FailedRival("the compiled network: outputs deviate")
    assert rivals._row(fit, unfit) == FailedRival("outputs deviate")


def test_more_engines_and_slower_networks_take_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_table, "_python", lambda engine: Path(sys.executable))
    one, two = (rivals.Rivals.find(session_of(), names) for names in (["openvino"], ["openvino", "onnxruntime"]))
    assert 5 < one.process_s(1e-4) < one.process_s(0.1) < one.process_s(0.5) < 25
    assert one.process_s(0.1) < two.process_s(0.1)
    # Two processes check the outputs, and two rounds are run, however long they take.
    assert one.process_s(10.0) > 2 * 2 * 10.0 + 10 * 10.0
