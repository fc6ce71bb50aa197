"""A network compiled by the recommended pipeline: checked, exported, and timed beside other engines."""

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import passsearch
from passsearch.api import rivals
from passsearch.api.compiling import RIVALS_S, _timed
from passsearch.core import Candidate, Failure, TimeLimit
from passsearch.dialects.case_inputs import case_inputs
from passsearch.engines import EngineSpec, engine_spec, rounds
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import Built, CandidateSamples, WorkerEvaluator
from passsearch.evaluate.compiler import Compiler
from passsearch.export import ARTIFACT_FOLDER, COMPILATION, PIPELINE
from passsearch.export.readme import README
from passsearch.toolchain import Toolchain

BROKEN = Path(__file__).parents[2] / "examples" / "broken_passes.yaml"


@pytest.fixture(scope="module")
def convolutions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of two convolutions with a ReLU between them."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((8, 3, 3, 3), "f4"), rng.standard_normal((8, 8, 3, 3), "f4")]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["y"], pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 32, 32])],
        [onnx.numpy_helper.from_array(array, f"w{place}") for place, array in enumerate(weights)],
    )
    file = tmp_path_factory.mktemp("compile") / "convolutions.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return file


@pytest.fixture(scope="module")
def compiled(convolutions: Path, relax: Toolchain) -> passsearch.CompiledNetwork:
    return passsearch.compile(
        convolutions, to=convolutions.with_name("deploy"), toolchain=relax.name, rivals=["onnxruntime"]
    )


def test_the_recommended_sequence_is_built_and_exported(compiled: passsearch.CompiledNetwork) -> None:
    folder = Path(compiled["folder"])
    assert compiled["pipeline"]["name"] == "winograd-schedule-cpu"
    assert [row["name"] for row in compiled["tried"]] == ["winograd-schedule-cpu"]
    assert json.loads((folder / PIPELINE).read_text())["passes"]
    assert any((folder / ARTIFACT_FOLDER).iterdir())
    readme = (folder / README).read_text()
    assert readme.startswith("# convolutions\n") and "were searched" not in readme
    assert "chosen by the network's features, without a search (sequence winograd-schedule-cpu)" in readme


def test_the_interpreter_that_runs_the_deployment_is_named(
    compiled: passsearch.CompiledNetwork, relax: Toolchain
) -> None:
    *_, last = repr(compiled).splitlines()
    assert last == f"run with: {relax.python} {compiled['folder']}/run_model.py"
    subprocess.run(last.removeprefix("run with: ").split(), check=True, capture_output=True)


def test_it_says_how_it_compares_with_what_the_user_has(compiled: passsearch.CompiledNetwork) -> None:
    row = compiled["rivals"]["onnxruntime"]
    intervals = [row[name]["interval"] for name in ("ratio", "ratio_of_medians")]
    assert intervals[0][0] < row["ratio"]["ratio"] < intervals[0][1]
    assert "times the throughput of ONNX Runtime" in repr(compiled).splitlines()[0]
    assert compiled["others_percent"] >= 0 and compiled["seconds"]["rivals"] > 0
    assert compiled.is_slower == repr(compiled).startswith("Take ONNX Runtime: ")
    assert " ".join(repr(compiled).split()).startswith(compiled.summary)
    assert compiled["reference"]["runtime"].startswith("ONNX Runtime")


@pytest.mark.slow
def test_sequences_that_may_be_faster_are_tried_in_the_time_given(
    convolutions: Path, relax: Toolchain, tmp_path: Path
) -> None:
    compiled = passsearch.compile(
        convolutions, to=tmp_path / "deploy", toolchain=relax.name, seconds=600, rivals=["onnxruntime"]
    )
    tried = {row["name"]: row["ratio"] for row in compiled["tried"]}
    assert {"winograd-schedule-cpu", "nhwc-schedule-cpu", "schedule-cpu"} <= set(tried)
    best = max(tried, key=lambda name: tried[name] or 1.0)
    assert compiled["pipeline"]["name"] == best


@pytest.mark.parametrize(
    ("second", "ahead"), [((1.2, 1.0), 1.2), ((1.0, 1.0), 1.0), ((0.9, 1.0), 0.9)], ids=["again", "level", "behind"]
)
def test_a_sequence_is_ahead_only_in_two_processes(second: tuple[float, float], ahead: float) -> None:
    first, built = (Mock(spec=Built) for _ in range(2))
    seconds = {(first, built): (1.3, 1.0), (built, first): second[::-1]}  # of the reference and of the other one

    def sample(*pair: Any) -> CandidateSamples:
        reference, candidate = ((each,) for each in seconds[pair])
        return CandidateSamples(reference, candidate, {})

    evaluator: Any = SimpleNamespace(sample=sample)
    ratio = _timed(evaluator, Candidate(), built, first).ratio
    assert ratio is not None and ratio.value == pytest.approx(ahead)


def test_wrong_outputs_are_not_exported(relax: Toolchain, tmp_path: Path) -> None:
    # It takes away the activation.
    with pytest.raises(UserError, match="`Forgets` cannot be compiled: wrong_result"):
        passsearch.compile(
            "zoo:resnet_tiny", to=tmp_path / "deploy", toolchain=relax.name, pipeline="Forgets", catalogs=[BROKEN]
        )
    assert not (tmp_path / "deploy").exists()


def test_refusals_come_before_the_first_build(convolutions: Path, relax: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with patch.object(WorkerEvaluator, "build", side_effect=AssertionError("something was built")):
        with pytest.raises(UserError, match="onnxruntine"):
            passsearch.compile(convolutions, to=tmp_path / "deploy", toolchain=relax.name, rivals=["onnxruntine"])
        with pytest.raises(UserError, match="neither empty nor an earlier export"):
            passsearch.compile("no network", to=tmp_path, toolchain=relax.name)


def test_a_wrong_folder_or_pipeline_is_refused_before_the_import(
    convolutions: Path, compiled: passsearch.CompiledNetwork, relax: Toolchain
) -> None:
    def refusal(network: object, **options: Any) -> str:
        with (
            patch("passsearch.api.compiling.open_evaluator", side_effect=AssertionError("it was imported")),
            pytest.raises(UserError) as raised,
        ):
            passsearch.compile(network, toolchain=relax.name, **options)
        return str(raised.value)

    folder = compiled["folder"]
    assert "nothing can be written in `/proc`" in refusal(convolutions, to="/proc/foo")
    assert "Unknown pipeline `winograd`" in refusal(convolutions, to=folder, pipeline="winograd")
    assert "is of another network" in refusal("zoo:resnet_tiny", to=folder)


@pytest.mark.slow
def test_a_rival_that_fails_leaves_the_others_and_all_run_on_the_samples(
    convolutions: Path, relax: Toolchain, tmp_path: Path
) -> None:
    sample = np.full((1, 3, 32, 32), 0.25, "f4")
    np.savez(tmp_path / "samples.npz", x=sample)
    made: list[dict[str, Any]] = []

    def engine_or_none(name: str, network: Path, **_: Any) -> EngineSpec:
        spec = engine_spec("onnxruntime", network, python=Path(sys.executable), label=name)
        return replace(spec, adapter="absent_engine") if name == "openvino" else spec

    def note(*arguments: Any) -> dict[str, Any]:
        made.append(case_inputs(*arguments))
        return made[-1]

    with patch.object(rivals, "engine_spec", engine_or_none), patch.object(rounds, "case_inputs", note):
        compiled = passsearch.compile(
            convolutions,
            to=tmp_path / "deploy",
            toolchain=relax.name,
            rivals=["openvino", "onnxruntime"],
            samples=tmp_path / "samples.npz",
        )
    assert "absent_engine" in compiled["rivals"]["openvino"]["failure"]
    assert compiled["rivals"]["onnxruntime"]["ratio"]
    assert made and all(np.array_equal(inputs["x"], sample) for inputs in made)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(KeyboardInterrupt(), "it was interrupted", id="interrupted", marks=pytest.mark.slow),
        pytest.param(OSError(28, "No space left on device"), "No space left", id="full disk", marks=pytest.mark.slow),
        pytest.param(SystemExit(1), "the comparison did not finish", id="killed"),
    ],
)
def test_what_ends_the_comparison_leaves_a_network_that_loads(
    error: BaseException, reason: str, convolutions: Path, relax: Toolchain, tmp_path: Path
) -> None:
    limits_s: list[float] = []

    def fail(*_: Any, time_limit: TimeLimit) -> None:
        limits_s.append(time_limit.left_s())
        raise error

    folder = tmp_path / "deploy"
    expected: Any = pytest.raises(SystemExit) if isinstance(error, SystemExit) else nullcontext()
    with patch.object(rivals.Rivals, "compare", fail), expected:
        passsearch.compile(convolutions, to=folder, toolchain=relax.name, rivals=["onnxruntime"])
    document = json.loads((folder / COMPILATION).read_text())
    assert reason in document["rivals_reason"] and document["rivals"] == {}
    assert reason in passsearch.CompiledNetwork(document).report
    assert RIVALS_S - 10 < limits_s[0] <= RIVALS_S


def test_a_refused_export_says_why(convolutions: Path, relax: Toolchain, tmp_path: Path) -> None:
    full, ask = Failure("infra", "build", "", "No space left on device"), Compiler.ask

    def fail_to_save(compiler: Compiler, stage: str, verb: str, **request: Any) -> Any:
        return {"failure": full.to_json()} if verb == "save" else ask(compiler, stage, verb, **request)

    with (
        patch.object(Compiler, "ask", fail_to_save),
        pytest.raises(EnvironmentFault, match="cannot be exported: infra in build: No space left on device"),
    ):
        passsearch.compile(convolutions, to=tmp_path / "deploy", toolchain=relax.name, rivals=[])


def test_an_export_that_does_not_build_leaves_the_earlier_one(
    convolutions: Path, relax: Toolchain, tmp_path: Path
) -> None:
    def compile_to(folder: Path) -> None:
        passsearch.compile(convolutions, to=folder, toolchain=relax.name, rivals=[])

    compile_to(tmp_path / "deploy")
    before = {file: file.read_bytes() for file in (tmp_path / "deploy").rglob("*.*") if file.is_file()}
    with (
        patch("passsearch.api.compiling.run_script", side_effect=lambda *_, log: log.write_text("no compiler") or 1),
        pytest.raises(UserError, match="does not build again as it was built: no compiler"),
    ):
        compile_to(tmp_path / "deploy")
    assert {file: file.read_bytes() for file in (tmp_path / "deploy").rglob("*.*") if file.is_file()} == before
    built = [content for file, content in before.items() if file.parent.name == ARTIFACT_FOLDER]
    assert built and not any(b".partial" in content for content in built), "it tells where it was built"
