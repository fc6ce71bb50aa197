"""Networks in half precision, quantised networks, and the pass that lowers the precision, on both dialects."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import passsearch
from passsearch.core import BuildOptions, Candidate, Failure, Pipeline
from passsearch.errors import UserError
from passsearch.evaluate import Built
from passsearch.toolchain import Toolchain

SHAPE = (1, 3, 8, 8)
WEIGHT = np.random.default_rng(0).standard_normal((4, 3, 3, 3))
WHOLE_BUILD = BuildOptions(opt_level=3)


def save(path: Path, nodes: list[NodeProto], *, kind: int, weights: dict[str, np.ndarray]) -> Path:
    """Write a network with input ``x`` and output ``y``."""
    values = [helper.make_tensor_value_info(name, kind, shape) for name, shape in (("x", SHAPE), ("y", (1, 4, 8, 8)))]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "precision", values[:1], values[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def convolution(data: str, kernel: str, result: str) -> list[NodeProto]:
    """Return a convolution and a ReLU."""
    conv = helper.make_node("Conv", [data, kernel], ["sum"], pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    return [conv, helper.make_node("Relu", ["sum"], [result])]


def quantised(name: str, result: str) -> list[NodeProto]:
    """Return the pair of operators that QDQ networks put around every operator."""
    nodes = [("QuantizeLinear", name, f"{name}_8bit"), ("DequantizeLinear", f"{name}_8bit", result)]
    return [helper.make_node(operator, [data, "scale", "zero"], [out]) for operator, data, out in nodes]


def eight_bit_weights() -> dict[str, np.ndarray]:
    """Return a kernel in integers, and the scale and zero point of all values."""
    kernel = np.clip(20 * WEIGHT, -128, 127).astype("int8")
    return {"scale": np.array(0.05, "float32"), "zero": np.array(3, "int8"), "weight": kernel}


@pytest.fixture(params=["relay", "relax"])
def toolchain(request: pytest.FixtureRequest) -> Toolchain:
    """A toolchain of either dialect."""
    chain: Toolchain = request.getfixturevalue(request.param)
    return chain


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """A convolution in float32."""
    nodes = convolution("x", "weight", "y")
    weights = {"weight": WEIGHT.astype("float32")}
    return save(tmp_path / "single.onnx", nodes, kind=TensorProto.FLOAT, weights=weights)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A convolution in float16."""
    nodes = convolution("x", "weight", "y")
    return save(tmp_path / "half.onnx", nodes, kind=TensorProto.FLOAT16, weights={"weight": WEIGHT.astype("float16")})


@pytest.fixture
def qdq(tmp_path: Path) -> Path:
    """A convolution of 8-bit data with an 8-bit kernel, in the QDQ format."""
    dequantise = helper.make_node("DequantizeLinear", ["weight", "scale", "zero"], ["kernel"])
    nodes = [*quantised("x", "data"), dequantise, *convolution("data", "kernel", "float"), *quantised("float", "y")]
    return save(tmp_path / "qdq.onnx", nodes, kind=TensorProto.FLOAT, weights=eight_bit_weights())


def build(network: Path, toolchain: Toolchain, pipeline: str, options: BuildOptions) -> Built | Failure:
    """Apply and build one pipeline, and compare its outputs with those of the unoptimised build."""
    with passsearch.session(network, toolchain=toolchain.name, tolerance=0.01, remember=False) as evaluator:
        candidate = Candidate(Pipeline.parse(pipeline), options)
        state = evaluator.reach(candidate.pipeline)
        return state if isinstance(state, Failure) else evaluator.build(state, candidate)


@pytest.mark.parametrize("network", [pytest.param("half", marks=pytest.mark.slow), "qdq"])
def test_networks_with_short_numbers_build_with_and_without_optimisation(
    network: str, toolchain: Toolchain, request: pytest.FixtureRequest
) -> None:
    built = build(request.getfixturevalue(network), toolchain, "", WHOLE_BUILD)
    assert isinstance(built, Built), built
    assert built.agreement.deviation is not None and built.agreement.deviation <= built.agreement.limit


@pytest.mark.parametrize("toolchain", ["relax", pytest.param("relay", marks=pytest.mark.slow)], indirect=True)
def test_lowered_precision_keeps_the_types_of_outputs(toolchain: Toolchain, single: Path) -> None:
    built = build(single, toolchain, "ToMixedPrecision", WHOLE_BUILD)
    assert isinstance(built, Built), built
    assert built.agreement.deviation, "half precision rounds"
    assert built.agreement.deviation < 0.01 == built.agreement.limit


@pytest.mark.parametrize("ending", ["DequantizeLinear", ""])
def test_operators_that_compute_in_integers_are_built_or_refused_by_name(
    ending: str, toolchain: Toolchain, tmp_path: Path
) -> None:
    triple = ["scale", "zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *triple], ["data"]),
        helper.make_node(
            "QLinearConv",
            ["data", *triple, "weight", *triple, *triple],
            ["y_8bit" if ending else "y"],
            pads=[1, 1, 1, 1],
            kernel_shape=[3, 3],
        ),
    ]
    if ending:
        nodes.append(helper.make_node(ending, ["y_8bit", *triple], ["y"]))
    network = save(tmp_path / "integers.onnx", nodes, kind=TensorProto.FLOAT, weights=eight_bit_weights())
    if not ending:
        model = onnx.load(network)
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8
        onnx.save(model, network)
    if toolchain.dialect == "relax":
        built = build(network, toolchain, "", WHOLE_BUILD)
        assert isinstance(built, Built), built
        return
    with pytest.raises(UserError, match=r"no operator `QLinearConv`; quantise the network in the QDQ format"):
        build(network, toolchain, "", WHOLE_BUILD)


def test_a_scale_of_zero_is_refused_in_a_line(toolchain: Toolchain, tmp_path: Path) -> None:
    weights = eight_bit_weights() | {"scale": np.array(0, "float32")}
    nodes = [*quantised("x", "data"), *convolution("data", "kernel", "y")]
    weights["kernel"] = WEIGHT.astype("float32")
    network = save(tmp_path / "zero.onnx", nodes, kind=TensorProto.FLOAT, weights=weights)
    with pytest.raises(UserError, match=r"Cannot import `zero.onnx`.*QuantizeLinear .*: a scale is 0, and has to"):
        build(network, toolchain, "", WHOLE_BUILD)


@pytest.mark.parametrize("toolchain", ["relax", pytest.param("relay", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_networks_in_16_bits_compute_in_float32(toolchain: Toolchain, tmp_path: Path, kind: int) -> None:
    """Sums are beyond 65504, the largest number of float16, and have more digits than bfloat16."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["large"]),
        helper.make_node("Cast", ["large"], ["single"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["single", "axes"], ["sum"], keepdims=1),
        helper.make_node("Cast", ["sum"], ["short"], to=kind),
        helper.make_node("Mul", ["short", "factor"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, kind, shape) for name, shape in (("x", (4, 512)), ("y", (4, 1)))]
    arrays = {"w": 200 * np.ones((512, 64)), "factor": np.array(2.0**-16)}
    weights = [
        helper.make_tensor(name, kind, array.shape, array.astype(dtype).tobytes(), raw=True)
        for name, array in arrays.items()
    ]
    weights.append(numpy_helper.from_array(np.array([1], "int64"), "axes"))
    graph = helper.make_graph(nodes, "halves", values[:1], values[1:], weights)
    path = tmp_path / "halves.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    if kind == TensorProto.BFLOAT16 and toolchain.dialect == "relay":
        with pytest.raises(
            UserError, match="outputs in bfloat16 are not supported; convert them to float32 or float16"
        ):
            build(path, toolchain, "", WHOLE_BUILD)
        return
    built = build(path, toolchain, "", WHOLE_BUILD)
    assert isinstance(built, Built), built
    assert built.agreement.limit == {"float16": 2**-10, "bfloat16": 2**-7}[dtype.name] + 2**-13
    # TVM may leave out the rounding of outputs to bfloat16, which changes them by up to 2**-9.
    least = {"float16": 5e-4, "bfloat16": 2**-8}[dtype.name]
    assert built.agreement.deviation is not None and built.agreement.deviation < least
