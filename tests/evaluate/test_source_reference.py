"""What the network's own framework computes is the reference of every check, the import's own among them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
import short_plans

import passsearch
from passsearch.api.common import open_evaluator
from passsearch.core import Candidate, Pipeline
from passsearch.errors import UserError
from passsearch.evaluate import Built, WorkerEvaluator, model_import, source_reference
from passsearch.evaluate.session import AUDIT_CASES, RecordedReference
from passsearch.evaluate.verify import Agreement
from passsearch.frontends import ModelFile, simplify_onnx
from passsearch.toolchain import Toolchain

Misread = Callable[[onnx.GraphProto], None]


@pytest.fixture(params=["relax", pytest.param("relay", marks=pytest.mark.slow)])
def toolchain(request: pytest.FixtureRequest) -> Toolchain:
    compiler: Toolchain = request.getfixturevalue(request.param)
    return compiler


@contextmanager
def an_importer_that(misread: Misread, folder: Path) -> Iterator[None]:
    """Change the graph between the file, which ONNX Runtime runs, and the compiler's importer."""

    def change(file: ModelFile, into: Path) -> ModelFile:
        model = onnx.load(str(file.path))
        misread(model.graph)
        path = folder / f"misread-{len([*folder.iterdir()])}.onnx"
        onnx.save(model, str(path))
        return simplify_onnx(replace(file, path=path, sha256=path.name), into)

    with patch.object(model_import, "simplify_onnx", change):
        yield


def drop_epsilon(graph: onnx.GraphProto) -> None:
    graph.node[0].attribute.append(onnx.helper.make_attribute("epsilon", 0.5))


def round_the_scale(graph: onnx.GraphProto) -> None:
    scale = next(weight for weight in graph.initializer if weight.name == "scale")
    scale.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(scale) * np.float32(1.001), "scale"))


def take_relu_for_abs(graph: onnx.GraphProto) -> None:
    graph.node[1].op_type = "Abs"


def baseline(evaluator: WorkerEvaluator) -> Built:
    built = evaluator.build_candidate(evaluator.session.dialect.baseline)
    assert isinstance(built, Built)
    return built


@pytest.mark.parametrize(
    ("toolchain", "misread", "node"),
    [
        ("relay", drop_epsilon, "`n`"),
        ("relax", take_relu_for_abs, "`y`"),
        pytest.param("relax", drop_epsilon, "`n`", marks=pytest.mark.slow),
        pytest.param("relax", round_the_scale, "`n`", marks=pytest.mark.slow),
        pytest.param("relay", round_the_scale, "`n`", marks=pytest.mark.slow),
        pytest.param("relay", take_relu_for_abs, "`y`", marks=pytest.mark.slow),
    ],
    indirect=["toolchain"],
)
def test_an_import_of_another_network_is_refused_with_the_first_node_that_differs(
    toolchain: Toolchain, tiny_network: Path, tmp_path: Path, misread: Misread, node: str
) -> None:
    (tmp_path / "misread").mkdir()
    with (
        an_importer_that(misread, tmp_path / "misread"),
        passsearch.session(tiny_network, toolchain=toolchain.name, remember=False) as evaluator,
        pytest.raises(UserError, match=f"imported as another network.*ONNX Runtime.*{node}.*--reference import"),
    ):
        baseline(evaluator)


def test_a_tolerance_proves_no_import(relax: Toolchain, tiny_network: Path, tmp_path: Path) -> None:
    (tmp_path / "misread").mkdir()
    options: dict[str, Any] = {"toolchain": relax.name, "remember": False, "tolerance": 0.05}
    fast = Candidate(Pipeline.parse("FastMathTransform"))
    with passsearch.session(tiny_network, **options) as evaluator:
        assert isinstance(evaluator.build_candidate(fast), Built) and evaluator.builder.prove_import().runtime
    with (
        an_importer_that(round_the_scale, tmp_path / "misread"),
        passsearch.session(tiny_network, **options) as evaluator,
        pytest.raises(UserError, match="imported as another network"),
    ):
        evaluator.build_candidate(fast)


def test_a_wrong_import_can_be_measured_and_says_that_it_is_unproven(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    (tmp_path / "misread").mkdir()
    with (
        an_importer_that(take_relu_for_abs, tmp_path / "misread"),
        passsearch.session(tiny_network, toolchain=relax.name, remember=False, reference="import") as evaluator,
    ):
        baseline(evaluator)
        reference = evaluator.builder.source.to_json()
    assert (reference["kind"], reference["runtime"]) == ("import", None)
    assert "--reference import" in str(reference["reason"])


def test_a_right_import_is_proven_by_its_source_and_names_its_outputs(toolchain: Toolchain, tiny_network: Path) -> None:
    with passsearch.session(tiny_network, toolchain=toolchain.name, remember=False) as evaluator:
        agreement = baseline(evaluator).agreement
        reference = evaluator.builder.source
    assert isinstance(agreement, Agreement) and agreement.deviation is not None and agreement.deviation < 1e-6
    assert reference.runtime.startswith("ONNX Runtime") and reference.outputs == ("y",)


def test_a_network_that_its_source_cannot_run_is_unproven_and_says_why(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    # An operator that only the compiler's importer knows.
    model = onnx.load(str(tiny_network))
    model.graph.node[1].op_type, model.graph.node[1].domain = "Relu", "ai.onnx.ml"
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 1))
    onnx.save(model, str(tmp_path / "foreign.onnx"))
    with passsearch.session(tmp_path / "foreign.onnx", toolchain=relax.name, remember=False) as evaluator:
        baseline(evaluator)
        reference = evaluator.builder.source
    assert not reference.runtime and "Relu" in reference.reason


def test_an_unknown_reference_is_refused_in_one_line(tiny_network: Path) -> None:
    with pytest.raises(UserError, match='`reference` is "source" or "import"; got \'torch\''):
        passsearch.tune(tiny_network, reference="torch")


def test_a_float16_network_that_overflows_on_large_inputs_is_not_refused(toolchain: Toolchain, tmp_path: Path) -> None:
    # ONNX Runtime computes it in float32 on a CPU, where the squares do not overflow.
    node, constant = onnx.helper.make_node, onnx.numpy_helper.from_array
    nodes = [
        node("Mul", ["x", "x"], ["square"]),
        node("ReduceMean", ["square"], ["mean"], axes=[1]),
        node("Add", ["mean", "epsilon"], ["sum"]),
        node("Sqrt", ["sum"], ["root"]),
        node("Div", ["x", "root"], ["y"]),
    ]
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, [4, 32]) for name in "xy")
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [constant(np.float16(1e-3), "epsilon")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(tmp_path / "half.onnx"))
    with passsearch.session(tmp_path / "half.onnx", toolchain=toolchain.name, remember=False) as evaluator:
        agreement = baseline(evaluator).agreement
    assert isinstance(agreement, Agreement) and agreement.deviation is not None and agreement.deviation < 0.01


@pytest.mark.slow
def test_a_source_without_time_for_all_inputs_still_proves_and_deploys(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    with (
        patch.object(source_reference, "SOURCE_S", 0.0),
        passsearch.session(tiny_network, toolchain=relax.name, remember=False) as evaluator,
    ):
        agreement = baseline(evaluator).agreement
        deployment = evaluator.deployment(evaluator.session.dialect.baseline, tmp_path)
        record = evaluator.builder.source.to_json()
        recorded = RecordedReference(record, Path(shutil.copy(evaluator.builder.reference, tmp_path)))
        session = replace(evaluator.session, recorded=recorded, output_cases=AUDIT_CASES)
    with open_evaluator(session, remember=False) as auditor:
        assert isinstance(auditor.build_candidate(session.dialect.baseline), Built)
        audited = auditor.builder.source
    assert isinstance(agreement, Agreement) and agreement.cases == 1
    assert isinstance(deployment, dict) and deployment["expected"]
    assert not audited.runtime and "too slow to run on further inputs" in audited.reason


def test_the_way_round_a_refusal_goes_with_the_same_run_folder(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    (tmp_path / "misread").mkdir()
    options: dict[str, Any] = {"toolchain": relax.name, "trials": 0, "confirm": 0, "out": tmp_path / "run"}
    with an_importer_that(take_relu_for_abs, tmp_path / "misread"):
        with pytest.raises(UserError, match="imported as another network"):
            short_plans.tune(tiny_network, **options)
        result = short_plans.tune(tiny_network, reference="import", **options).document
    assert result["reference"]["kind"] == "import" and "--reference import" in result["reference"]["reason"]


def test_a_network_of_several_sizes_is_refused_with_the_first_node_that_differs(
    relax: Toolchain, tmp_path: Path
) -> None:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["length", 8]) for name in "xy")
    nodes = [onnx.helper.make_node("Neg", ["x"], ["n"]), onnx.helper.make_node("Relu", ["n"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "open", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(tmp_path / "open.onnx"))
    (tmp_path / "misread").mkdir()
    options: dict[str, Any] = {"toolchain": relax.name, "sizes": "x=4x8,2x8", "remember": False}
    with (
        an_importer_that(take_relu_for_abs, tmp_path / "misread"),
        passsearch.session(tmp_path / "open.onnx", **options) as evaluator,
        pytest.raises(UserError, match=r"imported as another network.*the first node that differs is `y`"),
    ):
        baseline(evaluator)


@pytest.mark.slow
def test_an_exploration_proves_the_import_once_and_refuses_a_wrong_one(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"toolchain": relax.name, "passes": ["FoldConstant"]}
    space = passsearch.explore(tiny_network, **options)
    assert space["reference"]["runtime"].startswith("ONNX Runtime") and "proven by ONNX Runtime" in str(space)
    with patch.object(source_reference, "ask_source", side_effect=AssertionError("asked again")):
        assert passsearch.explore(tiny_network, **options)["reference"] == space["reference"]
    (tmp_path / "misread").mkdir()
    with an_importer_that(take_relu_for_abs, tmp_path / "misread"):
        with pytest.raises(UserError, match="imported as another network"):
            passsearch.explore(tiny_network, remember=False, **options)
        unproven = passsearch.explore(tiny_network, remember=False, reference="import", **options)
    assert unproven["reference"]["kind"] == "import"


@pytest.mark.slow
def test_a_benchmark_proves_the_import_by_what_it_compiles(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    quick: dict[str, Any] = {"threads": 1, "rounds": 2, "processes": 1}
    right = passsearch.bench(tiny_network, [f"{relax.name}:default"], **quick)
    assert right["imports"][0][relax.name]["runtime"].startswith("ONNX Runtime")
    assert "failure" not in right["rows"][0] and "proven by ONNX Runtime" in str(right)
    (tmp_path / "misread").mkdir()
    with an_importer_that(take_relu_for_abs, tmp_path / "misread"):
        with pytest.raises(UserError, match=r"imported as another network.*reference="):
            passsearch.bench(tiny_network, [f"{relax.name}:default"], **quick)
        as_it_is = passsearch.bench(tiny_network, [f"{relax.name}:default"], reference="import", tolerance=1e9, **quick)
    assert as_it_is["imports"][0][relax.name]["kind"] == "import" and "failure" not in as_it_is["rows"][0]


@pytest.mark.slow
def test_a_profile_of_the_import_as_it_is(relax: Toolchain, tiny_network: Path, tmp_path: Path) -> None:
    (tmp_path / "misread").mkdir()
    with an_importer_that(take_relu_for_abs, tmp_path / "misread"):
        with pytest.raises(UserError, match=r"imported as another network.*reference="):
            passsearch.profile(tiny_network, toolchain=relax.name)
        assert passsearch.profile(tiny_network, toolchain=relax.name, reference="import")["pipelines"]


def test_a_benchmark_leaves_out_a_toolchain_that_imports_another_network(
    relax: Toolchain, tiny_network: Path, tmp_path: Path, onnxruntime_python: Path
) -> None:
    quick: dict[str, Any] = {"threads": 1, "rounds": 2, "processes": 1, "engines_python": onnxruntime_python}
    engines = ["onnxruntime", f"{relax.name}:default"]
    (tmp_path / "misread").mkdir()
    with an_importer_that(take_relu_for_abs, tmp_path / "misread"):
        wrong = passsearch.bench(tiny_network, engines, **quick)
    failures = {row["engine"]: row.get("failure", "") for row in wrong["rows"]}
    assert "imported as another network" in failures[f"{relax.name}:default"] and not failures["onnxruntime"]
