"""Passes that make a network wrong in ways that a few ordinary inputs do not show: each is refused for its reason."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from passsearch.api.common import open_evaluator
from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate import AUDIT_CASES, Built, open_session
from passsearch.export import Deployment, write_deployment
from passsearch.frontends import resolve
from passsearch.search import named_candidate
from passsearch.store import NETWORK
from passsearch.toolchain import Toolchain

CATALOG = Path(__file__).parent.parent / "data" / "wrong_relax_passes.yaml"

MakeNetwork = Callable[[], onnx.ModelProto]

node = helper.make_node


def network(
    nodes: list[onnx.NodeProto], x: tuple[int, list[int]], y: tuple[int, list[int]], **weights: np.ndarray
) -> onnx.ModelProto:
    """Return a network with one input and one output."""
    inputs, outputs = ([helper.make_tensor_value_info(name, *kind)] for name, kind in (("x", x), ("y", y)))
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "network", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def normal(*shape: int, scale: float = 0.05, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(0, scale, shape).astype(dtype)


def detector() -> onnx.ModelProto:
    """Boxes up to 640 beside scores near 0.01."""
    nodes = [
        node("MatMul", ["boxes", "x"], ["o"]),
        node("Add", ["o", "anchors"], ["b"]),
        node("MatMul", ["scores", "x"], ["r"]),
        node("Add", ["r", "bias"], ["s"]),
        node("Sigmoid", ["s"], ["p"]),
        node("Concat", ["b", "p"], ["y"], axis=1),
    ]
    weights = {"boxes": normal(1, 4, 64), "scores": normal(1, 20, 64), "bias": np.float32([-5]).reshape(1)}
    weights["anchors"] = np.linspace(0, 640, 128, dtype="float32").reshape(1, 4, 32)
    return network(nodes, (TensorProto.FLOAT, [1, 64, 32]), (TensorProto.FLOAT, [1, 24, 32]), **weights)


def image() -> onnx.ModelProto:
    nodes = [node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), node("MatMul", ["f", "w"], ["y"])]
    return network(nodes, (TensorProto.UINT8, [4, 256]), (TensorProto.FLOAT, [4, 64]), w=normal(256, 64))


def table() -> onnx.ModelProto:
    nodes = [node("Gather", ["w", "x"], ["e"]), node("MatMul", ["e", "v"], ["y"])]
    return network(
        nodes, (TensorProto.INT64, [1, 8]), (TensorProto.FLOAT, [1, 8, 16]), w=normal(100, 32), v=normal(32, 16)
    )


def quantised() -> onnx.ModelProto:
    """A product of 8-bit numbers, whose rounding hides a small factor from the largest deviation."""
    zero = np.array(0, "int8")
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "sw", "z"], ["v"]),
        node("MatMul", ["d", "v"], ["a"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    w = np.random.default_rng(0).integers(-127, 128, (128, 64)).astype("int8")
    scales = {"s": np.array(0.03, "float32"), "sw": np.array(0.001, "float32")}
    x, y = (TensorProto.FLOAT, [16, 128]), (TensorProto.FLOAT, [16, 64])
    return network(nodes, x, y, w=w, z=zero, b=normal(64), **scales)


def quantised_layers() -> onnx.ModelProto:
    """Three products in 8 bits, each with a scale and a zero point of its own."""
    random, nodes, value = np.random.default_rng(0), [], "x"
    weights: dict[str, np.ndarray] = {"z8": np.array(0, "int8")}
    for place, (rows, columns) in enumerate(((128, 128), (128, 128), (128, 64))):
        scale, zero = ((0.03, 120), (0.02, 3), (0.02, 5))[place]
        weights |= {f"s{place}": np.array(scale, "float32"), f"z{place}": np.array(zero, "uint8")}
        weights |= {f"w{place}": random.integers(-127, 128, (rows, columns)).astype("int8")}
        weights |= {f"t{place}": np.array(0.0025 * (64 / rows) ** 0.5, "float32")}
        own = [f"s{place}", f"z{place}"]
        nodes += [
            node("QuantizeLinear", [value, *own], [f"q{place}"]),
            node("DequantizeLinear", [f"q{place}", *own], [f"d{place}"]),
            node("DequantizeLinear", [f"w{place}", f"t{place}", "z8"], [f"v{place}"]),
            node("MatMul", [f"d{place}", f"v{place}"], [f"m{place}"]),
            *([node("Relu", [f"m{place}"], [f"r{place}"])] if place < 2 else []),
        ]
        value = f"r{place}"
    nodes[-1].output[0] = "y"
    return network(nodes, (TensorProto.FLOAT, [16, 128]), (TensorProto.FLOAT, [16, 64]), **weights)


def deep_quantised() -> onnx.ModelProto:
    """Sixteen layers in 8 bits: one value that goes to the other of two steps moves outputs by 12 % of the largest."""
    random, nodes, value, width = np.random.default_rng(0), [], "x", 256
    weights = {"z8": np.array(0, "int8"), "z": np.array(128, "uint8"), "s": np.array(0.03, "float32")}
    weights["t"] = np.array(1.2 / 73 / width**0.5, "float32")
    for place in range(16):
        weights[f"w{place}"] = random.integers(-127, 128, (width, width)).astype("int8")
        nodes += [
            node("QuantizeLinear", [value, "s", "z"], [f"q{place}"]),
            node("DequantizeLinear", [f"q{place}", "s", "z"], [f"d{place}"]),
            node("DequantizeLinear", [f"w{place}", "t", "z8"], [f"v{place}"]),
            node("MatMul", [f"d{place}", f"v{place}"], [f"m{place}"]),
            node("Tanh", [f"m{place}"], [f"r{place}"]),
        ]
        value = f"r{place}"
    nodes[-1].output[0] = "y"
    return network(nodes, (TensorProto.FLOAT, [width, width]), (TensorProto.FLOAT, [width, width]), **weights)


def half_layers() -> onnx.ModelProto:
    nodes = [
        *(node("MatMul", ["x", "u"], ["a"]), node("Relu", ["a"], ["b"]), node("MatMul", ["b", "v"], ["c"])),
        *(node("Relu", ["c"], ["d"]), node("MatMul", ["d", "w"], ["y"])),
    ]
    shapes = {"u": (128, 128), "v": (128, 130), "w": (130, 64)}
    weights = {name: normal(*shape, scale=0.12, dtype="float16") for name, shape in shapes.items()}
    return network(nodes, (TensorProto.FLOAT16, [16, 128]), (TensorProto.FLOAT16, [16, 64]), **weights)


def half() -> onnx.ModelProto:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["y"])]
    weights = {"w": normal(128, 64, dtype="float16"), "b": normal(64, dtype="float16")}
    return network(nodes, (TensorProto.FLOAT16, [16, 128]), (TensorProto.FLOAT16, [16, 64]), **weights)


def plain() -> onnx.ModelProto:
    nodes = [node("Neg", ["x"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    return network(nodes, (TensorProto.FLOAT, [16, 128]), (TensorProto.FLOAT, [16, 64]), w=normal(128, 64))


CASES = [
    pytest.param(detector, "NoScores", "outputs deviate", id="a lost slice"),
    pytest.param(image, "Signed", "outputs deviate", id="bytes with a sign", marks=pytest.mark.slow),
    pytest.param(table, "FewRows", "outputs deviate", id="a table of two rows"),
    pytest.param(quantised, "Louder", "outputs deviate", id="8 bit, 5 % off", marks=pytest.mark.slow),
    pytest.param(half, "Louder", "outputs deviate", id="half precision, 5 % off", marks=pytest.mark.slow),
    pytest.param(plain, "Stopping", "after the calls that were timed", id="stops computing"),
    pytest.param(plain, "Eating", "changes its input `x`", id="clears its input"),
]

SMALL_FAULTS = [
    pytest.param(quantised_layers, "ShiftedZero", 0.0625, 0.0156, id="8 bit, a zero point off by one"),
    pytest.param(quantised_layers, "WideScale", 0.0625, 0.0156, id="8 bit, a scale 2 % off", marks=pytest.mark.slow),
    # Computed in float32, so one rounding of outputs is all that right passes may change.
    pytest.param(half_layers, "HeavyWeight", 0.0011, 0.0011, id="half precision, a weight 2 % off"),
]
"""Faults that rounding might cause in another network of 8 or 16 bits: the plain build says what it does in this."""


@pytest.mark.parametrize("is_audit", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("make", "step", "reason"), CASES)
def test_a_wrong_pass_is_refused_for_its_reason(
    relax: Toolchain, tmp_path: Path, make: MakeNetwork, step: str, reason: str, is_audit: bool
) -> None:
    onnx.save(make(), tmp_path / "network.onnx")
    model = resolve(str(tmp_path / "network.onnx"), folder=tmp_path)
    session = open_session(model, toolchain=relax.name, target=None, catalogs=[CATALOG])
    if is_audit:
        session = replace(session, output_cases=AUDIT_CASES)
    with open_evaluator(session, remember=False) as evaluator:
        right = evaluator.build_candidate(Candidate())
        assert isinstance(right, Built) and evaluator.builder.source.runtime
        outcome: object = evaluator.build_candidate(Candidate(Pipeline.parse(step)))
        if isinstance(outcome, Built):
            assert outcome.digest != right.digest
            outcome = evaluator.sample(right, outcome)
    assert isinstance(outcome, Failure) and outcome.kind == "wrong_result"
    assert reason in outcome.reason, outcome.reason


@pytest.mark.parametrize(("make", "step", "strict", "allowed"), SMALL_FAULTS)
def test_a_small_fault_of_a_network_in_few_bits_is_refused_on_usual_inputs(
    relax: Toolchain, tmp_path: Path, make: MakeNetwork, step: str, strict: float, allowed: float
) -> None:
    onnx.save(make(), tmp_path / "network.onnx")
    model = resolve(str(tmp_path / "network.onnx"), folder=tmp_path)
    session = open_session(model, toolchain=relax.name, target=None, catalogs=[CATALOG])
    # Edge inputs would show some of them, too.
    with open_evaluator(replace(session, output_cases=(1, 2, 3)), remember=False) as evaluator:
        assert isinstance(evaluator.build_candidate(Candidate()), Built)
        outcome = evaluator.build_candidate(Candidate(Pipeline.parse(step)))
        limit = evaluator.builder.verification.strict_limit
    assert isinstance(outcome, Failure) and outcome.kind == "wrong_result" and "outputs deviate" in outcome.reason
    assert limit == pytest.approx(strict, rel=0.01) and f"{allowed:.2g} is allowed" in outcome.reason, outcome.reason


@pytest.mark.parametrize("fault", ["ShiftedZero", "WideScale"])
def test_where_one_rounding_moves_outputs_right_builds_may_do_so_and_wrong_ones_not(
    relax: Toolchain, tmp_path: Path, fault: str
) -> None:
    onnx.save(deep_quantised(), tmp_path / "network.onnx")
    model = resolve(str(tmp_path / "network.onnx"), folder=tmp_path)
    session = open_session(model, toolchain=relax.name, target=None, catalogs=[CATALOG])
    with open_evaluator(replace(session, output_cases=(1, 2, 3)), remember=False) as evaluator:
        for right in (Candidate(), named_candidate(session, "integer-schedule-cpu")):
            built = evaluator.build_candidate(right)
            assert isinstance(built, Built), built
            deviations = [deviation for deviation, _ in built.agreement.unstable.values()]
            assert max(deviations) > evaluator.builder.verification.strict_limit  # or the network shows nothing
        wrong = evaluator.build_candidate(Candidate(Pipeline.parse(fault)))
    assert isinstance(wrong, Failure) and wrong.kind == "wrong_result" and "outputs deviate" in wrong.reason


@pytest.mark.slow
@pytest.mark.parametrize("make", [quantised, quantised_layers, half, half_layers])
def test_right_pipelines_of_networks_in_few_bits_are_not_refused(
    relax: Toolchain, tmp_path: Path, make: MakeNetwork
) -> None:
    onnx.save(make(), tmp_path / "network.onnx")
    model = resolve(str(tmp_path / "network.onnx"), folder=tmp_path)
    session = open_session(model, toolchain=relax.name, target=None)
    with open_evaluator(session, remember=False) as evaluator:
        assert isinstance(evaluator.build_candidate(Candidate()), Built)
        for name in ("schedule-cpu", "nhwc-schedule-cpu", "decoder-schedule-cpu", "transposed-schedule-cpu"):
            built = evaluator.build_candidate(named_candidate(session, name))
            assert isinstance(built, Built), (name, built)
            assert built.agreement.limit <= evaluator.builder.verification.strict_limit


SCRIPT_REASONS = {"Stopping": "output 0 is another one on equal inputs", "Eating": "The network changes its input `x`"}


@pytest.mark.slow
@pytest.mark.parametrize(("make", "step"), [pytest.param(*case.values[:2], id=case.id) for case in CASES])
def test_a_script_with_a_wrong_pass_is_refused(relax: Toolchain, tmp_path: Path, make: MakeNetwork, step: str) -> None:
    """The record has the hashes of the wrong network, so only its outputs can tell."""
    onnx.save(make(), tmp_path / "network.onnx")
    model = resolve(str(tmp_path / "network.onnx"), folder=tmp_path)
    session = open_session(model, toolchain=relax.name, target=None, catalogs=[CATALOG])
    pipeline = Pipeline.parse(step)
    with open_evaluator(session, remember=False) as evaluator:
        record, hashes = evaluator.deployment(Candidate(), tmp_path), evaluator.applier.hashes(pipeline)
    assert isinstance(record, dict)
    names = ("inputs", "ranges", "mean_tolerance", "tolerance", "seed", "reference")
    deployment = Deployment(
        dialect=session.dialect,
        tvm_version=relax.tvm_version,
        target=session.target,
        pipeline=pipeline,
        factories={step: session.factories[step]},
        build=Candidate().build,
        network=tmp_path / NETWORK,
        model={"name": "network", "source": "network.onnx", "sha256": "", "batch": 1},
        ir_hashes=hashes,
        output_digests=record["expected"],
        import_paths=(str(CATALOG.parent),),
        **{name: record[name] for name in names},
    )
    folder = write_deployment(tmp_path / "deploy", deployment)
    command = [str(relax.python), str(folder / "build_model.py"), "--check-only"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "hash ok" in done.stdout and SCRIPT_REASONS.get(step, "The outputs diverged") in done.stderr, done.stderr


@pytest.mark.parametrize("saturates", [pytest.param(False, marks=pytest.mark.slow), True])
def test_winograd_is_refused_where_a_network_saturates(relax: Toolchain, tmp_path: Path, saturates: bool) -> None:
    # Each sum is one product, so no rounding of a direct convolution hides what the transforms of Winograd's
    # algorithm leave of neighbours that are 10,000 times as large.
    weights = np.zeros((32, 32, 3, 3), "float32")
    weights[range(32), range(32), 1, 1] = 1
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Tanh" if saturates else "Neg", ["c"], ["y"])]
    kind = (TensorProto.FLOAT, [1, 32, 24, 24])
    onnx.save(network(nodes, kind, kind, w=weights), tmp_path / "network.onnx")
    session = open_session(
        resolve(str(tmp_path / "network.onnx"), folder=tmp_path), toolchain=relax.name, target=None, catalogs=[CATALOG]
    )
    direct, winograd = (named_candidate(session, name) for name in ("schedule-cpu", "winograd-schedule-cpu"))
    with open_evaluator(session, remember=False) as evaluator:
        assert isinstance(evaluator.build_candidate(direct), Built)
        outcome = evaluator.build_candidate(winograd)
    if saturates:
        assert isinstance(outcome, Failure) and outcome.kind == "wrong_result"
        assert "on inputs `huge`" in outcome.reason or "on inputs `large`" in outcome.reason
    else:
        assert isinstance(outcome, Built)


def test_sorting_operators_that_overwrite_operands_is_wrong_and_sorting_them_before_is_not(
    relax: Toolchain, tmp_path: Path
) -> None:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Exp", ["r"], ["e"]),
        node("Add", ["r", "w"], ["s"]),
        node("Mul", ["e", "s"], ["y"]),
    ]
    kind = (TensorProto.FLOAT, [1, 8])
    onnx.save(network(nodes, kind, kind, w=normal(8, scale=1)), tmp_path / "network.onnx")
    model = resolve(str(tmp_path / "network.onnx"), folder=tmp_path)
    session = open_session(model, toolchain=relax.name, target=None)
    overwrite, sort = "DataflowUseInplaceCalls", 'TopologicalSort{direction="from-outputs",order="breadth-first"}'
    assert overwrite in session.catalog.entry("TopologicalSort").conflicts
    with open_evaluator(session, remember=False) as evaluator:
        wrong, right = (
            evaluator.build_candidate(Candidate(Pipeline.parse(f"{first},{second}")))
            for first, second in ((overwrite, sort), (sort, overwrite))
        )
    # The sum overwrites the rectified input before the exponential has read it.
    assert isinstance(wrong, Failure) and wrong.kind == "wrong_result"
    assert isinstance(right, Built)
