"""The choice of precisions is the fastest within the budget, and its errors are measured as a whole."""

import itertools
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import short_plans
from onnx import TensorProto, helper, numpy_helper

import passsearch
from passsearch.api import compiling
from passsearch.core import Interval
from passsearch.dialects.rounding import RoundedLayer
from passsearch.errors import UserError
from passsearch.measure import Ratio
from passsearch.report import read_run, report_page
from passsearch.results import Ablation, Compilation, PrecisionDecision, RunResult
from passsearch.search.decision_choice import best_subset
from passsearch.search.layer_table import LEAST_FACTOR, LayerTable, Option, error_factor, saved_s_of
from passsearch.search.storage_times import TimedStorage
from passsearch.toolchain import Toolchain

SIZES = (256, 512, 512, 512, 256)


def test_the_best_subset_is_that_of_all_subsets_and_its_bound_holds() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        savings = random.random(8).tolist()
        groups = [[float(place // 2 == group) for place in range(8)] for group in range(4)]
        errors = (random.random(8) ** 2).tolist()
        marks, bound = best_subset(savings, [*groups, errors], [1.0] * 4 + [0.8])
        found = sum(saved for saved, is_in in zip(savings, marks, strict=True) if is_in)
        best = 0.0
        for subset in itertools.product((0, 1), repeat=8):
            taken = np.array(subset)
            if (np.array(groups) @ taken <= 1).all() and np.dot(errors, taken) <= 0.8:
                best = max(best, float(np.dot(savings, taken)))
        assert math.isclose(found, best, rel_tol=1e-6) and bound >= best - 1e-9


def test_no_choice_saves_more_than_its_bound_not_even_by_a_rounding() -> None:
    random, layers = np.random.default_rng(0), [RoundedLayer(f"layer{number}", 0, "") for number in range(4)]
    for _ in range(30):
        table = LayerTable(layers, TimedStorage({}, {}, 2e-4), [])
        table.options = [
            Option(layer, storage, random.uniform(1e-6, 5e-5), 10 ** random.uniform(-3, -1.3))
            for layer, storage in itertools.product(range(4), range(6))
        ]
        choice, most_s = table.fastest(0.03)
        assert choice and saved_s_of(choice) <= most_s


@pytest.mark.parametrize(
    ("error", "predicted", "factor"), [(0.02, 0.01, 2.0), (0.0, 0.01, LEAST_FACTOR), (0.0, 0.0, 1.0), (1e-7, 0.0, 1.0)]
)
def test_weights_that_lose_nothing_leave_a_factor_to_divide_by(error: float, predicted: float, factor: float) -> None:
    assert error_factor(error, predicted) == factor


def _network(path: Path) -> Path:
    """Write a network of products, the last of which decides the output: its error is not damped by a sum."""
    random, nodes, weights, value = np.random.default_rng(0), [], [], "x"
    for place, (rows, columns) in enumerate(itertools.pairwise(SIZES)):
        array = (random.standard_normal((rows, columns)) * math.sqrt(2 / rows)).astype("float32")
        weights.append(numpy_helper.from_array(array, f"w{place}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{place}"], [f"m{place}"]))
        nodes.append(helper.make_node("Relu", [f"m{place}"], [f"r{place}"]))
        value = f"r{place}"
    nodes[-1] = helper.make_node("Identity", [nodes[-1].input[0]], [value])
    kinds = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])
        for name, size in (("x", SIZES[0]), (value, SIZES[-1]))
    ]
    graph = helper.make_graph(nodes, "products", kinds[:1], kinds[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def _decide(
    network: Path, budget: float, toolchain: Toolchain, out: Path, *, precision: str = "weights"
) -> PrecisionDecision:
    """Return what a search decides, and check what holds for every decision."""
    result = passsearch.tune(
        network,
        precision=precision,
        budget=budget,
        trials=2,
        confirm=0,
        rivals=[],
        toolchain=toolchain.name,
        out=out,
    )
    decision = RunResult.from_json(result.document).precision
    assert isinstance(decision, PrecisionDecision)
    assert len(decision.layers) == len(SIZES) - 1 and decision.precision == precision
    assert decision.error <= budget and decision.bound_s <= decision.predicted_s
    assert "precision" in str(result) and decision.compared_with.startswith("the float32 outputs of ONNX Runtime")
    return decision


@pytest.mark.slow
@pytest.mark.toolchain
def test_layers_get_precisions_within_the_budget(relax: Toolchain, tmp_path: Path) -> None:
    decision = _decide(_network(tmp_path / "products.onnx"), 0.03, relax, tmp_path / "run", precision="mixed")
    assert {each.storage for each in decision.uniform} == {"bfloat16", "float16", "int8", "int4"}
    assert all(each.error is None or each.error > 0 for each in decision.uniform)
    errors = {(each.storage, each.group, each.activations): each.error for each in decision.uniform}
    assert {activations for storage, _, activations in errors if storage == "int8"} == {"float32", "int8"}
    weights, mixed = errors["int8", 0, "float32"], errors["int8", 0, "int8"]
    assert weights is not None and mixed is not None and mixed > weights  # both are rounded
    if decision.pipeline is not None:  # a machine may find nothing faster
        assert "NarrowWeights" in decision.pipeline and decision.error > 0
        assert math.isclose(sum(layer.error_share for layer in decision.layers), 1.0)
        ablation = Ablation.from_json(dict(passsearch.ablate(tmp_path / "run", timeout=90)))
        narrow = {(each.kernel, each.call) for each in decision.layers if each.storage != "float32"}
        worth = ablation.precision
        assert worth is not None and {(each.kernel, each.call) for each in worth.layers} == narrow
        assert all(each.predicted_error < worth.predicted_error for each in worth.layers)
        # The squares of several roundings add up only roughly.
        assert all(each.error is None or each.error < 2 * decision.error for each in worth.layers)


@pytest.mark.slow
@pytest.mark.toolchain
def test_a_budget_that_nothing_reaches_ends_with_the_nearest_point(relax: Toolchain, tmp_path: Path) -> None:
    decision = _decide(_network(tmp_path / "products.onnx"), 1e-5, relax, tmp_path / "run")
    assert decision.pipeline is None and decision.nearest is not None and decision.nearest > 1e-5
    assert {layer.storage for layer in decision.layers} == {"float32"}
    assert all(layer.reason for layer in decision.layers)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"precision": "weights"}, "Fewer bits need the error that they may cause"),
        ({"budget": 0.1}, "so `precision` has to be `weights` or `mixed`"),
        ({"precision": "int8", "budget": 0.1}, '"float32" or "weights" or "mixed" or "tf32"; got \'int8\''),
        ({"precision": "weights", "budget": 2.0}, "a number from 1e-06 to 1 (a share of the largest output)"),
        ({"precision": "weights", "budget": "much"}, "got 'much'"),
        ({"precision": "weights", "budget": "accuracy:0.1"}, "needs the labels of the samples; add: labels="),
        ({"precision": "weights", "budget": 0.1, "labels": "y.npy"}, "for a budget of accuracy; got the budget `0.1`"),
        ({"precision": "weights", "budget": "accuracy:0.1", "labels": "y.npy"}, "there are none; add: samples="),
        (
            {"precision": "weights", "budget": "accuracy:0.1", "labels": "y.npy", "samples": "x.npz"},
            "y.npy`; write it: numpy.save(FILE, labels)",
        ),
        ({"precision": "weights", "budget": 0.1, "objective": "memory"}, "decided by speed"),
    ],
)
def test_what_cannot_be_decided_is_refused_in_a_line(options: dict[str, object], text: str) -> None:
    with pytest.raises(UserError) as caught:
        passsearch.tune("zoo:resnet_tiny", **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert text in message and "\n" not in message, message


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"toolchain": "relay"}, "no pass of the dialect `relay` narrows weights"),
        ({"target": "cuda -arch=sm_80"}, "CPUs only"),
    ],
)
def test_weights_are_narrowed_by_relax_on_cpus_only(options: dict[str, str], text: str, toolchain_of: Any) -> None:
    options = {"toolchain": "relax", **options}
    toolchain_of(options["toolchain"])
    for function in (passsearch.tune, passsearch.compile):
        with pytest.raises(UserError, match=f"The precision of weights cannot be decided: .*{text}"):
            function("zoo:resnet_tiny", precision="weights", budget=0.1, **options)  # type: ignore[operator]


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "TF32 is of NVIDIA GPUs from sm_80 on"),
        ({"target": "cuda -arch=sm_75"}, "TF32 is of NVIDIA GPUs from sm_80 on"),
        ({"target": "cuda -arch=sm_80", "pipeline": "schedule-gpu"}, "`schedule-gpu` multiplies nothing in TF32"),
        ({"target": "cuda -arch=sm_80", "budget": 0.1}, "`precision` has to be `weights` or `mixed`"),
    ],
)
def test_tf32_is_refused_where_nothing_would_be_multiplied_so(
    options: dict[str, Any], text: str, relax: Toolchain
) -> None:
    with pytest.raises(UserError, match=text):
        passsearch.compile("zoo:resnet_tiny", precision="tf32", toolchain=relax.name, **options)


def test_a_pipeline_in_fewer_bits_is_not_decided_on(relax: Toolchain) -> None:
    with pytest.raises(UserError, match="has the pass NarrowWeights, so there is no precision to decide on"):
        passsearch.compile(
            *("zoo:llama_tiny_decode",),
            pipeline="narrow-int8-schedule-cpu",
            precision="mixed",
            budget=0.1,
            toolchain=relax.name,
        )


@pytest.mark.parametrize(("lead", "is_narrow"), [(1.5, True), (0.9, False)])
@pytest.mark.toolchain
def test_fewer_bits_are_exported_only_if_they_are_faster(
    lead: float, is_narrow: bool, relax: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_lead", lambda *_, **__: Ratio(lead, Interval(lead, lead)))
    compiled = passsearch.compile(
        _network(tmp_path / "products.onnx"),
        to=tmp_path / "deploy",
        precision="weights",
        budget=0.05,
        rivals=[],
        toolchain=relax.name,
    )
    decision = Compilation.from_json(compiled).precision
    assert isinstance(decision, PrecisionDecision)
    assert ("NarrowWeights" in compiled.pipeline) == is_narrow, compiled.report
    assert ("float32: what was decided has 0.90 times" in compiled.report) == (lead == 0.9)


@pytest.mark.slow
@pytest.mark.toolchain
def test_compile_takes_the_precision_that_a_budget_allows(relax: Toolchain, tmp_path: Path) -> None:
    compiled = passsearch.compile(
        _network(tmp_path / "products.onnx"),
        to=tmp_path / "deploy",
        precision="mixed",
        budget=0.05,
        rivals=["onnxruntime"],
        toolchain=relax.name,
    )
    document = Compilation.from_json(compiled)
    assert isinstance(document.precision, PrecisionDecision) and document.precision.error <= 0.05
    is_narrow = "NarrowWeights" in compiled.pipeline
    assert (document.narrow is not None) == is_narrow == ("in fewer bits (0.0" in compiled.summary)
    assert document.precision.pipeline is None or is_narrow or "float32: what was decided has 0." in compiled.report
    assert compiled.expected["tolerance"] == pytest.approx(0.05 if is_narrow else 1.2e-4, rel=0.5)
    command = [str(relax.python), str(tmp_path / "deploy" / "build_model.py")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.parametrize("unit", ["top1", "accuracy"])
def test_a_budget_of_classes_is_kept_on_the_samples(unit: str, relax: Toolchain, tmp_path: Path) -> None:
    network, random = _network(tmp_path / "products.onnx"), np.random.default_rng(1)
    x = random.standard_normal((64, 1, SIZES[0])).astype("float32")
    np.savez(tmp_path / "samples.npz", x=x)
    session = onnxruntime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    labels = np.array([session.run(None, {"x": each})[0].argmax() for each in x])
    np.save(tmp_path / "labels.npy", np.where(np.arange(64) % 4, labels, 0))
    options = {"labels": tmp_path / "labels.npy"} if unit == "accuracy" else {}
    result = passsearch.tune(
        network,
        precision="weights",
        budget=f"{unit}:0.05",
        samples=tmp_path / "samples.npz",
        trials=2,
        confirm=0,
        rivals=[],
        toolchain=relax.name,
        out=tmp_path / "run",
        **options,
    )
    decision = RunResult.from_json(result.document).precision
    assert isinstance(decision, PrecisionDecision) and decision.unit == unit
    if decision.pipeline is not None:
        assert decision.loss is not None and decision.loss <= 0.05 and decision.rows == 64
        assert decision.predicted_loss is not None and "of 64 rows" in str(result)
        # By the bound of the run: a comparison has no samples.
        compared = short_plans.compare(network, ["default", str(tmp_path / "run")], toolchain=relax.name, rounds=2)
        assert not any("failure" in row for row in compared["rows"]), compared["rows"]


@pytest.mark.slow
@pytest.mark.toolchain
def test_a_run_with_precisions_is_audited_exported_and_compared(relax: Toolchain, tmp_path: Path) -> None:
    network, out = _network(tmp_path / "products.onnx"), tmp_path / "run"
    result = short_plans.tune(
        network, precision="weights", budget=0.05, trials=2, confirm=0, toolchain=relax.name, out=out
    )
    decision = RunResult.from_json(result.document).precision
    assert isinstance(decision, PrecisionDecision)
    is_narrow = "NarrowWeights" in result.best.pipeline
    assert result.document["deployment"]["tolerance"] == pytest.approx(0.05 if is_narrow else 1.2e-4, rel=0.5)
    audit = short_plans.audit(out)
    checks = {check["name"]: check for check in audit["checks"]}
    assert audit["signed_off"], checks
    assert ("the budget is 0.05, and random inputs may deviate by 2 times" in checks["outputs"]["detail"]) == is_narrow
    assert (result.export(tmp_path / "deploy") / "build_model.py").is_file()
    compared = short_plans.compare(network, ["default", str(out)], toolchain=relax.name, rounds=2)
    assert len(compared["rows"]) == 2 and not any("failure" in row for row in compared["rows"]), compared["rows"]
    assert "--precision weights --budget 0.05" in report_page([read_run(out)])
