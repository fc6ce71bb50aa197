"""Small ONNX networks of the kinds that importers get wrong, made by hand. They need onnx and numpy only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = Sequence["int | str | None"]
Save: TypeAlias = Callable[[Path], None]


def _attributes(layer: NodeProto) -> dict[str, Any]:
    return {each.name: helper.get_attribute_value(each) for each in layer.attribute}


class Softmax(OpRun):
    """Softmax before operator set 13; the reference takes the axis that later sets have by default."""

    def _run(self, x: Array, **_: Any) -> tuple[Array]:
        rows = x.reshape(int(np.prod(x.shape[: _attributes(self.onnx_node).get("axis", 1) % x.ndim])), -1)
        powers = np.exp(rows - rows.max(1, keepdims=True))
        return ((powers / powers.sum(1, keepdims=True)).reshape(x.shape).astype(x.dtype),)


class BatchNormalization(OpRun):
    """Inference before operator set 14; the reference mixes statistics of the batch in."""

    def _run(self, x: Array, *factors: Array, **_: Any) -> tuple[Array]:
        scale, shift, mean, var = (each.reshape(-1, *(1,) * (x.ndim - 2)) for each in factors)
        epsilon = _attributes(self.onnx_node).get("epsilon", 1e-5)
        return (((x - mean) / np.sqrt(var + epsilon) * scale + shift).astype(x.dtype),)


class LRN(OpRun):
    """Normalisation over channels; the reference takes the batch for them."""

    def _run(self, x: Array, **_: Any) -> tuple[Array]:
        settings = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0, **_attributes(self.onnx_node)}
        size, channels = settings["size"], x.shape[1]
        before, after = (size - 1) // 2, size // 2
        squares = np.stack([(x[:, max(0, c - before) : c + after + 1] ** 2).sum(1) for c in range(channels)], axis=1)
        divisor = (settings["bias"] + settings["alpha"] / size * squares) ** settings["beta"]
        return ((x / divisor).astype(x.dtype),)


def reference(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Return what ONNX defines: ONNX's reference, with three of its operators put right."""
    (opset,) = (each.version for each in model.opset_import if not each.domain)
    mended = [LRN, *([Softmax] if opset < 13 else []), *([BatchNormalization] if opset < 14 else [])]
    for kind in mended:
        kind.op_domain = ""
    return [np.asarray(each) for each in ReferenceEvaluator(model, new_ops=mended).run(None, dict(inputs))]


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """Return a node; names are separated by blanks, ``-`` is an input that is left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), **attributes)


def value(name: str, shape: Shape | None, dtype: str = "float32") -> onnx.ValueInfoProto:
    """Return the declaration of a tensor."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def weight(name: str, *shape: int, dtype: str = "float32") -> TensorProto:
    """Return a random weight; its name and shape decide the values."""
    rng = np.random.default_rng([*name.encode(), *shape])
    return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(dtype), name)


def constant(name: str, values: Any, dtype: str = "int64") -> TensorProto:
    """Return a constant with these values."""
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def network(
    nodes: Sequence[NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    constants: Sequence[TensorProto] = (),
    *,
    opset: int = 17,
    dtypes: Mapping[str, str] | None = None,
    shape: Shape | None = None,
) -> onnx.ModelProto:
    """Return a model; outputs are float32 unless ``dtypes`` says otherwise, and of the shape that ONNX infers."""
    types = dtypes or {}
    results = [value(name, shape, types.get(name, "float32")) for name in outputs]
    graph = helper.make_graph(list(nodes), "network", list(inputs), results, list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    del inferred.graph.value_info[:]  # importers get no help with the shapes inside
    return inferred


def branch(nodes: Sequence[NodeProto], output: str, constants: Sequence[TensorProto] = ()) -> GraphProto:
    """Return the graph of a branch."""
    return helper.make_graph(list(nodes), f"branch_{output}", [], [value(output, None)], list(constants))


def computed_reshape() -> onnx.ModelProto:
    """Flatten by a shape that the graph computes from its input, as PyTorch writes ``x.view(x.size(0), -1)``."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch"),
        node("Unsqueeze", "batch axes", "batch_1d"),
        node("Concat", "batch_1d minus_one", "target", axis=0),
        node("Reshape", "x target", "flat"),
        node("Gemm", "flat w b", "y", transB=1),
    ]
    constants = [constant("zero", 0), constant("axes", [0]), constant("minus_one", [-1])]
    return network(nodes, [value("x", ["batch", 3, 4, 4])], ["y"], [*constants, weight("w", 5, 48), weight("b", 5)])


def computed_slice_and_expand() -> onnx.ModelProto:
    """Cut and repeat a position embedding to the length of the input, as text encoders do."""
    nodes = [
        node("Shape", "ids", "shape"),
        node("Slice", "shape one two", "length"),
        node("Slice", "positions zero length axes", "part"),
        node("Concat", "shape width", "target", axis=0),
        node("Expand", "part target", "repeated"),
        node("Gather", "table ids", "tokens"),
        node("Add", "tokens repeated", "y"),
    ]
    constants = [constant("zero", [0]), constant("one", [1]), constant("two", [2])]
    constants += [constant("axes", [0]), constant("width", [8])]
    return network(
        nodes,
        [value("ids", ["batch", "length"], "int64")],
        ["y"],
        [*constants, weight("positions", 32, 8), weight("table", 10, 8)],
    )


def computed_mask() -> onnx.ModelProto:
    """A causal mask out of Range, Less and Where, applied to scores."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape minus_one", "length"),
        node("Range", "zero length one", "columns"),
        node("Unsqueeze", "columns axes", "rows"),
        node("LessOrEqual", "columns rows", "visible"),
        node("Where", "visible x hidden", "masked"),
        node("Softmax", "masked", "y", axis=-1),
    ]
    constants = [constant("zero", 0), constant("one", 1), constant("minus_one", -1), constant("axes", [1])]
    return network(nodes, [value("x", [2, 6, 6])], ["y"], [*constants, constant("hidden", -1e9, "float32")])


def computed_fill() -> onnx.ModelProto:
    """Zeros of a computed shape beside the data, and a pad whose widths are computed."""
    nodes = [
        node("Shape", "x", "shape"),
        node("ConstantOfShape", "shape", "zeros", value=constant("", [0.5], "float32")),
        node("Concat", "x zeros", "joined", axis=1),
        node("Mul", "widths two", "pads"),
        node("Pad", "joined pads", "y"),
    ]
    constants = [constant("widths", [0, 0, 1, 0, 0, 0, 0, 1]), constant("two", 2)]
    return network(nodes, [value("x", [1, 2, 4, 4])], ["y"], constants)


def computed_resize() -> onnx.ModelProto:
    """Upsample to the size of another feature map, as feature pyramids do."""
    nodes = [
        node("Conv", "x w", "small", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Shape", "x", "whole"),
        node("Shape", "small", "part"),
        node("Slice", "whole two four", "size"),
        node("Slice", "part zero two", "start"),
        node("Concat", "start size", "target", axis=0),
        node(
            "Resize",
            "small - - target",
            "large",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        node("Concat", "x large", "y", axis=1),
    ]
    constants = [constant("zero", [0]), constant("two", [2]), constant("four", [4]), weight("w", 4, 3, 3, 3)]
    return network(nodes, [value("x", [1, 3, 8, 8])], ["y"], constants)


def constant_branch() -> onnx.ModelProto:
    """An If whose condition is computed from a shape, as PyTorch writes ``squeeze``."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "size"),
        node("Equal", "size one", "is_one"),
        node(
            "If",
            "is_one",
            "y",
            then_branch=branch([node("Squeeze", "x axes", "squeezed")], "squeezed"),
            else_branch=branch([node("Identity", "x", "same")], "same"),
        ),
    ]
    return network(nodes, [value("x", [2, 1, 5])], ["y"], [constant("one", 1), constant("axes", [1])], shape=[2, 5])


def data_branch() -> onnx.ModelProto:
    """An If that depends on the data."""
    nodes = [
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Greater", "sum zero", "is_positive"),
        node(
            "If",
            "is_positive",
            "y",
            then_branch=branch([node("Relu", "x", "positive")], "positive"),
            else_branch=branch([node("Neg", "x", "negative")], "negative"),
        ),
    ]
    return network(nodes, [value("x", [2, 5])], ["y"], [constant("zero", 0, "float32")])


def counted_loop() -> onnx.ModelProto:
    """A Loop with a constant number of turns and one state."""
    body = helper.make_graph(
        [
            node("Identity", "condition", "again"),
            node("MatMul", "state w", "product"),
            node("Tanh", "product", "next"),
        ],
        "body",
        [value("turn", [], "int64"), value("condition", [], "bool"), value("state", [2, 4])],
        [value("again", [], "bool"), value("next", [2, 4])],
    )
    nodes = [node("Loop", "turns always x", "y", body=body)]
    return network(
        nodes,
        [value("x", [2, 4])],
        ["y"],
        [constant("turns", 3), constant("always", True, "bool"), weight("w", 4, 4)],
        shape=[2, 4],
    )


def matmul_ranks() -> onnx.ModelProto:
    """Products of operands of unequal rank: 4 by 2, 1 by 3, 3 by 1."""
    nodes = [
        node("MatMul", "x w", "four"),
        node("MatMul", "row four", "three"),
        node("MatMul", "three column", "y"),
    ]
    return network(nodes, [value("x", [2, 3, 4, 5])], ["y"], [weight("w", 5, 6), weight("row", 4), weight("column", 6)])


def several_inputs_and_outputs() -> onnx.ModelProto:
    """Numbers, categories and a bool mask in; scores, their best index and a bool out."""
    nodes = [
        node("Gather", "table categories", "embedded"),
        node("Where", "mask embedded zero", "kept"),
        node("Concat", "numbers kept", "joined", axis=1),
        node("Gemm", "joined w", "scores"),
        node("ArgMax", "scores", "best", axis=1, keepdims=0),
        node("Greater", "scores zero", "positive"),
    ]
    inputs = [value("numbers", [2, 3]), value("categories", [2], "int64"), value("mask", [2, 1], "bool")]
    constants = [weight("table", 10, 4), weight("w", 7, 5), constant("zero", 0, "float32")]
    types = {"best": "int64", "positive": "bool"}
    return network(nodes, inputs, ["scores", "best", "positive"], constants, dtypes=types)


def double() -> onnx.ModelProto:
    """A network that computes in float64."""
    nodes = [node("Gemm", "x w b", "hidden"), node("Tanh", "hidden", "y")]
    return network(
        nodes,
        [value("x", [2, 4], "float64")],
        ["y"],
        [weight("w", 4, 3, dtype="float64"), weight("b", 3, dtype="float64")],
        dtypes={"y": "float64"},
    )


def empty_initializers() -> onnx.ModelProto:
    """A Resize with an empty region and empty scales, as exporters of operator set 11 write it, and a dead weight."""
    nodes = [
        node("Resize", "x region scales size", "large", mode="linear", coordinate_transformation_mode="half_pixel"),
        node("Relu", "large", "y"),
    ]
    constants = [constant("region", [], "float32"), constant("scales", [], "float32")]
    constants += [constant("size", [1, 2, 8, 8]), weight("unused", 3, 3)]
    return network(nodes, [value("x", [1, 2, 4, 4])], ["y"], constants, opset=11)


def attributes_of_opset_9() -> onnx.ModelProto:
    """Axes, pads, bounds and sizes as attributes, and an Upsample."""
    nodes = [
        node("Unsqueeze", "x", "image", axes=[0]),
        node("Pad", "image", "padded", pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="constant", value=0.0),
        node("Slice", "padded", "part", starts=[0, 0], ends=[5, 5], axes=[2, 3]),
        node("Upsample", "part scales", "large", mode="nearest"),
        node("Clip", "large", "clipped", min=0.0, max=6.0),
        node("ReduceMean", "clipped", "mean", axes=[2, 3], keepdims=0),
        node("Squeeze", "mean", "y", axes=[0]),
    ]
    constants = [constant("scales", [1.0, 1.0, 2.0, 2.0], "float32")]
    return network(nodes, [value("x", [3, 4, 4])], ["y"], constants, opset=9)


def layer_norm(opset: int) -> Callable[[], onnx.ModelProto]:
    """Layer normalisation and GELU as that operator set writes them."""

    def make() -> onnx.ModelProto:
        nodes = [node("LayerNormalization", "x scale shift", "norm", axis=-1)] if opset >= 17 else _composed_norm(opset)
        nodes += [node("Gelu", "norm", "y")] if opset >= 20 else _composed_gelu()
        constants = [weight("scale", 8), weight("shift", 8), constant("axes", [-1])]
        constants += [constant("two", 2, "float32"), constant("epsilon", 1e-5, "float32")]
        constants += [
            constant("root", 2**0.5, "float32"),
            constant("one", 1, "float32"),
            constant("half", 0.5, "float32"),
        ]
        return network(nodes, [value("x", [2, 4, 8])], ["y"], constants, opset=opset)

    return make


def _composed_norm(opset: int) -> list[NodeProto]:
    def mean(source: str, result: str) -> NodeProto:
        if opset >= 18:
            return node("ReduceMean", f"{source} axes", result)
        return node("ReduceMean", source, result, axes=[-1])

    return [
        mean("x", "mean"),
        node("Sub", "x mean", "centred"),
        node("Pow", "centred two", "squares"),
        mean("squares", "variance"),
        node("Add", "variance epsilon", "positive"),
        node("Sqrt", "positive", "deviation"),
        node("Div", "centred deviation", "unit"),
        node("Mul", "unit scale", "scaled"),
        node("Add", "scaled shift", "norm"),
    ]


def _composed_gelu() -> list[NodeProto]:
    return [
        node("Div", "norm root", "ratio"),
        node("Erf", "ratio", "error"),
        node("Add", "error one", "weighted"),
        node("Mul", "norm weighted", "product"),
        node("Mul", "product half", "y"),
    ]


def recurrent(kind: str) -> Callable[[], onnx.ModelProto]:
    """One bidirectional recurrent layer."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]

    def make() -> onnx.ModelProto:
        attributes: dict[str, Any] = {"hidden_size": 6, "direction": "bidirectional"}
        if kind == "GRU":
            attributes["linear_before_reset"] = 1
        nodes = [
            node(kind, "x w r b", "steps last", **attributes),
            node("Transpose", "steps", "ordered", perm=[2, 0, 1, 3]),
            node("Reshape", "ordered target", "y"),
        ]
        constants = [weight("w", 2, 6 * gates, 5), weight("r", 2, 6 * gates, 6), weight("b", 2, 12 * gates)]
        return network(nodes, [value("x", [7, 1, 5])], ["y"], [*constants, constant("target", [0, 0, -1])])

    return make


def detection_head() -> onnx.ModelProto:
    """TopK over scores, GatherND and GatherElements of the boxes: the end of an object detector without suppression."""
    nodes = [
        node("ReduceMax", "scores", "best", axes=[2], keepdims=0),
        node("TopK", "best count", "top indices", axis=1),
        node("Unsqueeze", "indices last", "index"),
        node("GatherND", "boxes index", "chosen", batch_dims=1),
        node("Expand", "index target", "wide"),
        node("GatherElements", "scores wide", "rows", axis=1),
    ]
    constants = [constant("count", [3]), constant("last", [2]), constant("target", [2, 3, 4])]
    return network(nodes, [value("boxes", [2, 9, 4]), value("scores", [2, 9, 4])], ["top", "chosen", "rows"], constants)


def quantized() -> onnx.ModelProto:
    """A dense layer in the QDQ format, in operator set 19."""
    nodes = [
        node("QuantizeLinear", "x scale zero", "x8"),
        node("DequantizeLinear", "x8 scale zero", "x32"),
        node("DequantizeLinear", "w8 scale zero", "w32"),
        node("MatMul", "x32 w32", "y"),
    ]
    rng = np.random.default_rng(0)
    constants = [constant("scale", 0.05, "float32"), constant("zero", 0, "int8")]
    constants += [constant("w8", rng.integers(-100, 100, (6, 4)), "int8")]
    return network(nodes, [value("x", [2, 6])], ["y"], constants, opset=19)


def einsum_and_trilu() -> onnx.ModelProto:
    """Attention scores by Einsum, hidden by Trilu, cumulated, in operator set 14."""
    nodes = [
        node("Einsum", "q k", "scores", equation="bhid,bhjd->bhij"),
        node("Trilu", "scores", "lower", upper=0),
        node("CumSum", "lower axis", "y"),
    ]
    inputs = [value("q", [1, 2, 4, 3]), value("k", [1, 2, 4, 3])]
    return network(nodes, inputs, ["y"], [constant("axis", 3)], opset=14)


def transposed_convolution() -> onnx.ModelProto:
    """The decoder of a segmentation network: transposed and dilated convolution, instance norm, pixel shuffle."""
    nodes = [
        node("Conv", "x dilated", "wide", dilations=[2, 2], pads=[2, 2, 2, 2]),
        node("InstanceNormalization", "wide scale shift", "norm"),
        node("PRelu", "norm slope", "active"),
        node("ConvTranspose", "active up", "large", strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1]),
        node("DepthToSpace", "large", "y", blocksize=2, mode="CRD"),
    ]
    constants = [weight("dilated", 4, 3, 3, 3), weight("scale", 4), weight("shift", 4), weight("slope", 4, 1, 1)]
    return network(nodes, [value("x", [1, 3, 6, 6])], ["y"], [*constants, weight("up", 4, 8, 3, 3)], opset=16)


def group_norm_of_opset_21() -> onnx.ModelProto:
    """GroupNormalization, ReduceMax with computed axes, and HardSwish, in operator set 21."""
    nodes = [
        node("GroupNormalization", "x scale shift", "norm", num_groups=2),
        node("HardSwish", "norm", "active"),
        node("ReduceMax", "active axes", "y", keepdims=0),
    ]
    constants = [weight("scale", 4), weight("shift", 4), constant("axes", [2, 3])]
    return network(nodes, [value("x", [1, 4, 5, 5])], ["y"], constants, opset=21, shape=[1, 4])


def non_zero() -> onnx.ModelProto:
    """A network whose output has a size that depends on the data."""
    nodes = [node("Relu", "x", "positive"), node("NonZero", "positive", "places")]
    nodes.append(node("Cast", "places", "y", to=TensorProto.FLOAT))
    return network(nodes, [value("x", [3, 4])], ["y"])


def external_data(path: Path) -> None:
    """Write a network whose weights are in a second file."""
    nodes = [node("MatMul", "x w", "hidden"), node("Relu", "hidden", "active"), node("MatMul", "active v", "y")]
    model = network(nodes, [value("x", [2, 16])], ["y"], [weight("w", 16, 32), weight("v", 32, 4)])
    onnx.save(model, str(path), save_as_external_data=True, location=f"{path.stem}.data", size_threshold=0)


GRAPHS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "reshape-computed": computed_reshape,
    "expand-computed": computed_slice_and_expand,
    "mask-computed": computed_mask,
    "fill-computed": computed_fill,
    "resize-computed": computed_resize,
    "branch-of-shape": constant_branch,
    "branch-of-data": data_branch,
    "loop-counted": counted_loop,
    "matmul-ranks": matmul_ranks,
    "inputs-and-outputs": several_inputs_and_outputs,
    "double": double,
    "empty-initializers": empty_initializers,
    "opset-9": attributes_of_opset_9,
    "opset-13": layer_norm(13),
    "opset-17": layer_norm(17),
    "opset-18": layer_norm(18),
    "opset-20": layer_norm(20),
    "opset-21": group_norm_of_opset_21,
    "lstm": recurrent("LSTM"),
    "gru": recurrent("GRU"),
    "detection-head": detection_head,
    "quantized": quantized,
    "einsum-trilu": einsum_and_trilu,
    "upsampling": transposed_convolution,
    "non-zero": non_zero,
}
"""Functions that make the networks, by name."""


def save(name: str, path: Path) -> Path:
    """Write a network to a file and return its path."""
    if name == "external-data":
        external_data(path)
    else:
        onnx.save(GRAPHS[name](), str(path))
    return path
