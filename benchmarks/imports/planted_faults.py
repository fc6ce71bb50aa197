"""Thirty faults of an importer, planted one by one: how many are refused, and does the refusal name the node?

``python -m benchmarks.imports.planted_faults relay --out FILE``: a fault changes the graph between the file, which ONNX
Runtime runs, and the compiler's importer, as an importer does that misreads an attribute. Every network is imported,
its baseline is built, and its outputs are compared, as by ``tune``.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import helper, numpy_helper

import passsearch
from benchmarks.common import onnx_model, options, today, write
from passsearch.errors import UserError
from passsearch.evaluate import model_import
from passsearch.frontends import ModelFile, simplify_onnx

Change = Callable[[onnx.GraphProto, onnx.NodeProto], None]


def drop(name: str) -> Change:
    """Return a fault that does not read an attribute."""

    def change(_: onnx.GraphProto, node: onnx.NodeProto) -> None:
        kept = [each for each in node.attribute if each.name != name]
        assert len(kept) < len(node.attribute), f"{node.name} has no {name}"
        del node.attribute[:]
        node.attribute.extend(kept)

    return change


def put(name: str, value: Any) -> Change:
    """Return a fault that reads another value of an attribute."""

    def change(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
        if any(each.name == name for each in node.attribute):
            drop(name)(graph, node)
        node.attribute.append(helper.make_attribute(name, value))

    return change


def exchange(what: str, first: int = 0, second: int = 1) -> Change:
    """Return a fault that gives two inputs or outputs of a node each other's place."""

    def change(_: onnx.GraphProto, node: onnx.NodeProto) -> None:
        names = getattr(node, what)
        names[first], names[second] = names[second], names[first]

    return change


def become(kind: str) -> Change:
    """Return a fault that takes a node for one of another operator."""
    return lambda _, node: setattr(node, "op_type", kind)


def constant(place: int, value: Callable[[Any], Any]) -> Change:
    """Return a fault in the weight that is one of a node's inputs."""

    def change(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
        tensor = next(each for each in graph.initializer if each.name == node.input[place])
        array = numpy_helper.to_array(tensor)
        # A weight of its own: other nodes read the same one rightly.
        changed = numpy_helper.from_array(np.asarray(value(array), array.dtype), f"{tensor.name}.{node.name}")
        graph.initializer.append(changed)
        node.input[place] = changed.name

    return change


def through_cast(graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
    """Compute the first output of a node in float16."""
    name, place = node.output[0], list(graph.node).index(node) + 1
    node.output[0] = f"{name}.wide"
    graph.node.insert(place, helper.make_node("Cast", [f"{name}.narrow"], [name], to=onnx.TensorProto.FLOAT))
    graph.node.insert(
        place, helper.make_node("Cast", [f"{name}.wide"], [f"{name}.narrow"], to=onnx.TensorProto.FLOAT16)
    )


class Builder:
    """A small graph with random weights."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Any] = {}

    def node(
        self, kind: str, name: str, inputs: list[str], outputs: list[str] | None = None, **attributes: Any
    ) -> None:
        """Add a node, whose output has its name unless ``outputs`` says otherwise."""
        self.nodes.append(helper.make_node(kind, inputs, outputs or [name], name=name, **attributes))

    def weight(self, name: str, *shape: int) -> str:
        """Add a random weight."""
        return self.value(name, (self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype("f4"))

    def value(self, name: str, array: Any) -> str:
        """Add a constant."""
        self.weights[name] = np.asarray(array)
        return name

    def model(self, inputs: dict[str, tuple[str, list[int]]], *outputs: str) -> onnx.ModelProto:
        """Return the model, its outputs with the types that importers want."""
        model = onnx_model(self.nodes, inputs, dict.fromkeys(outputs), self.weights)
        for value in model.graph.output:
            value.ClearField("type")
        typed = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        del typed.graph.value_info[:]
        return typed


def convolutional() -> onnx.ModelProto:
    """Return convolutions with groups, dilation, pools, a normalization, a resize and a classifier."""
    b = Builder(1)
    b.node("Conv", "stem", ["image", b.weight("w1", 8, 3, 3, 3)], strides=[2, 2], pads=[1, 1, 1, 1])
    norm = [b.weight(f"n{place}", 8) for place in range(3)] + [b.value("n3", b.rng.random(8).astype("f4") + 0.5)]
    b.node("BatchNormalization", "norm", ["stem", *norm], epsilon=0.1)
    b.node("LeakyRelu", "leaky", ["norm"], alpha=0.2)
    b.node("Conv", "grouped", ["leaky", b.weight("w2", 8, 2, 3, 3)], group=4, dilations=[2, 2], pads=[2, 2, 2, 2])
    b.node("MaxPool", "pool", ["grouped"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    b.node("AveragePool", "mean", ["pool"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    size = b.value("size", np.array([1, 1, 2, 2], "f4"))
    b.node("Resize", "resize", ["mean", "", size], mode="linear", coordinate_transformation_mode="align_corners")
    b.node("ConvTranspose", "up", ["resize", b.weight("w3", 8, 4, 3, 3)], strides=[2, 2], output_padding=[1, 1])
    low, high = b.value("low", np.float32(-0.4)), b.value("high", np.float32(0.5))
    b.node("Clip", "clip", ["up", low, high])
    b.node("Flatten", "flat", ["clip"])
    b.node("Gemm", "classes", ["flat", b.weight("w4", 10, 4 * 34 * 34), b.weight("b4", 10)], transB=1, alpha=0.5)
    return b.model({"image": ("float32", [1, 3, 32, 32])}, "classes", "clip")


def attention() -> onnx.ModelProto:
    """Return an embedding, a block of attention, a normalization, an approximated GELU and two heads."""
    b = Builder(2)
    b.node("Gather", "embed", [b.weight("table", 50, 32), "ids"])
    scale, shift = b.weight("scale", 32), b.weight("shift", 32)
    b.node("LayerNormalization", "norm", ["embed", scale, shift], axis=-1, epsilon=0.05)
    b.node("MatMul", "joined", ["norm", b.weight("w1", 32, 96)])
    b.node("Split", "split", ["joined", b.value("parts", np.array([32, 32, 32]))], ["q", "k", "v"], axis=2)
    for name in "qkv":
        b.node("Reshape", f"{name}4", [name, b.value(f"{name}shape", np.array([1, 8, 4, 8]))])
    b.node("Transpose", "qt", ["q4"], perm=[0, 2, 1, 3])
    b.node("Transpose", "kt", ["k4"], perm=[0, 2, 3, 1])
    b.node("Transpose", "vt", ["v4"], perm=[0, 2, 1, 3])
    b.node("MatMul", "scores", ["qt", "kt"])
    b.node("Div", "scaled", ["scores", b.value("root", np.float32(2.828))])
    b.node("Softmax", "weights", ["scaled"], axis=-1)
    b.node("MatMul", "mixed", ["weights", "vt"])
    b.node("ReduceMean", "mean", ["mixed"], axes=[2], keepdims=1)
    b.node("Sub", "centred", ["mixed", "mean"])
    b.node("CumSum", "sums", ["centred", b.value("axis", np.int64(2))], reverse=1)
    b.node("Concat", "joint", ["centred", "sums"], axis=3)
    first, last = b.value("first", np.array([1])), b.value("last", np.array([-1]))
    b.node("Slice", "slice", ["joint", first, last, b.value("axes", np.array([2]))])
    b.node("TopK", "best", ["slice", b.value("count", np.array([3]))], ["largest", "places"], axis=3)
    b.node("Elu", "elu", ["slice"], alpha=0.7)
    return b.model({"ids": ("int64", [1, 8])}, "elu", "largest")


NETWORKS = {"convolutional": convolutional, "attention": attention}

FAULTS: dict[str, tuple[tuple[str, str, Change], ...]] = {
    "convolutional": (
        ("stem", "an attribute dropped: pads", put("pads", [0, 0, 2, 2])),
        ("stem", "a constant rounded to two decimals", constant(1, lambda w: w.round(2))),
        ("norm", "an attribute dropped: epsilon", drop("epsilon")),
        ("norm", "a constant off by 0.01: the mean", constant(3, lambda mean: mean + 0.01)),
        ("leaky", "an attribute dropped: alpha", drop("alpha")),
        ("leaky", "taken for Relu", become("Relu")),
        ("grouped", "an attribute of other values: pads", put("pads", [1, 1, 3, 3])),
        ("pool", "padding at the other end", put("pads", [0, 0, 2, 2])),
        ("mean", "an attribute dropped: count_include_pad", drop("count_include_pad")),
        ("resize", "an attribute dropped: the mode of coordinates", drop("coordinate_transformation_mode")),
        ("resize", "nearest instead of linear", put("mode", "nearest")),
        ("up", "a kernel not flipped", constant(1, lambda w: w[:, :, ::-1, ::-1])),
        ("clip", "an end of the range rounded", constant(2, lambda high: np.round(high * 2.1) / 2.1)),
        ("clip", "float16 inside", through_cast),
        ("classes", "an attribute dropped: alpha", drop("alpha")),
    ),
    "attention": (
        ("embed", "an index off by one", constant(0, lambda table: np.roll(table, 1, axis=0))),
        ("norm", "an attribute dropped: epsilon", drop("epsilon")),
        ("norm", "scale and shift exchanged", exchange("input", 1, 2)),
        ("joined", "a constant in bfloat16", constant(1, lambda w: (w.view("u4") & 0xFFFF0000).view("f4"))),
        ("split", "outputs exchanged", exchange("output")),
        ("kt", "axes exchanged", put("perm", [0, 2, 1, 3])),
        ("scaled", "the inputs exchanged", exchange("input")),
        ("scaled", "a constant rounded", constant(1, lambda root: np.round(root, 2))),
        ("weights", "an axis off by one", put("axis", 2)),
        ("mean", "an axis off by one", put("axes", [1])),
        ("sums", "an attribute dropped: reverse", drop("reverse")),
        ("sums", "exclusive", put("exclusive", 1)),
        ("slice", "an end off by one", constant(2, lambda last: last - 1)),
        ("slice", "a beginning off by one", constant(1, lambda first: first - 1)),
        ("best", "an axis off by one", put("axis", 2)),
        ("best", "the smallest instead of the largest", put("largest", 0)),
        ("elu", "an attribute dropped: alpha", drop("alpha")),
    ),
}
"""The node that is misread, what is wrong in words, and the change of the node or of the graph around it."""


@contextmanager
def planted(name: str, change: Change, folder: Path) -> Iterator[None]:
    """Make the importer misread one node; ONNX Runtime still reads the file."""

    def misread(file: ModelFile, into: Path) -> ModelFile:
        model = onnx.load(str(file.path))
        change(model.graph, next(node for node in model.graph.node if node.name == name))
        # The types in the file are those of the right network.
        for value in model.graph.output:
            value.ClearField("type")
        del model.graph.value_info[:]
        path = folder / f"misread-{len([*folder.iterdir()])}.onnx"
        onnx.save(model, str(path))
        return simplify_onnx(replace(file, path=path, sha256=path.name), into)

    with patch.object(model_import, "simplify_onnx", misread):
        yield


def refusal(model: Path, toolchain: str) -> str:
    """Return why the network is refused, empty if it is not."""
    try:
        with passsearch.session(model, toolchain=toolchain, remember=False) as evaluator:
            return getattr(evaluator.build_candidate(evaluator.session.dialect.baseline), "reason", "")
    except UserError as error:
        return str(error).replace(f"{model.parent}/", "")


def main() -> None:
    arguments = options(__doc__, ("toolchain", "relax"), out=Path, only=(str, "node whose faults are planted"))
    rows, right = [], {}
    with tempfile.TemporaryDirectory() as name:
        for network, make in NETWORKS.items():
            model = Path(name) / f"{network}.onnx"
            onnx.save(make(), str(model))
            right[network] = refusal(model, arguments.toolchain)
            for node, kind, change in FAULTS[network]:
                if arguments.only not in (None, node):
                    continue
                start = time.monotonic()
                with planted(node, change, Path(name)):
                    reason = refusal(model, arguments.toolchain)
                row = {"network": network, "node": node, "kind": kind, "refused": bool(reason)}
                row |= {"names_node": f"`{node}`" in reason, "reason": reason}
                rows.append({**row, "seconds": round(time.monotonic() - start, 1)})
                print(f"{row['names_node']!s:5} {network} {node}: {kind}: {reason}", flush=True)
    refused, named = (sum(each[key] for each in rows) for key in ("refused", "names_node"))
    print(f"{len(rows)} faults: {refused} refused, {named} with the node; without a fault: {right}")
    if arguments.out:
        about = {"date": today(), "toolchain": arguments.toolchain, "without_fault": right}
        write(arguments.out, {**about, "faults": rows})


if __name__ == "__main__":
    main()
