"""Imports ONNX networks of one operator that we convert, runs them, and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_relax_onnx_converters.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnx.reference import ReferenceEvaluator
from tvm import relax

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.importers.onnx_graph import read
from passsearch.errors import UserError
from passsearch.standalone.relax.deployment.lowering import lower

sys.path.insert(0, str(Path(__file__).parents[2] / "frontends"))

from onnx_graphs import constant, network, node, value, weight

TARGET = tvm.target.Target({"kind": "llvm"})
STEPS, BATCH, WIDTH, HIDDEN = 3, 2, 4, 5


def recurrent(kind: str, direction: str, *, bias: bool, start: bool, **attributes: Any) -> onnx.ModelProto:
    """Return one recurrent layer with all of its outputs."""
    gates, states = {"LSTM": (4, ["last", "cell"]), "GRU": (3, ["last"])}[kind]
    count = 2 if direction == "bidirectional" else 1
    constants = [weight("w", count, gates * HIDDEN, WIDTH), weight("r", count, gates * HIDDEN, HIDDEN)]
    constants += [weight("b", count, 2 * gates * HIDDEN)] if bias else []
    constants += [weight(f"start_{name}", count, BATCH, HIDDEN) for name in states] if start else []
    inputs = ["x", "w", "r", "b" if bias else "-"]
    inputs += ["-", *(f"start_{name}" for name in states)] if start else []
    layer = node(
        kind, " ".join(inputs), " ".join(["y", *states]), hidden_size=HIDDEN, direction=direction, **attributes
    )
    return network([layer], [value("x", [STEPS, BATCH, WIDTH])], ["y", *states], constants)


def cases() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield the networks by name."""
    yield "lstm", recurrent("LSTM", "forward", bias=True, start=True)
    yield "lstm without bias, both ways", recurrent("LSTM", "bidirectional", bias=False, start=False)
    yield "gru", recurrent("GRU", "forward", bias=True, start=True)
    yield "gru of PyTorch, backwards", recurrent("GRU", "reverse", bias=True, start=False, linear_before_reset=1)
    image = [value("x", [1, 2, 4, 6])]
    yield (
        "slice of attributes",
        network([node("Slice", "x", "y", starts=[1, 0], ends=[9, -1], axes=[2, 3])], image, ["y"], opset=9),
    )
    scales = constant("scales", [1.0, 1.0, 2.0, 3.0], "float32")
    for mode in ("nearest", "linear"):
        yield (
            f"upsample, {mode}",
            network([node("Upsample", "x scales", "y", mode=mode)], image, ["y"], [scales], opset=9),
        )
    empty, size = constant("empty", [], "float32"), constant("size", [1, 2, 8, 9])
    yield (
        "resize with empty scales",
        network([node("Resize", "x empty empty size", "y", mode="linear")], image, ["y"], [empty, size], opset=11),
    )

    square = [value("x", [1, 2, 5, 5])]
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        for kernel, stride in ((1, 2), (2, 3), (2, 2)):
            pool = node("MaxPool", "x", "y", kernel_shape=[kernel] * 2, strides=[stride] * 2, auto_pad=mode)
            yield f"pool of {kernel}, stride {stride}, {mode}", network([pool], square, ["y"])
        turned = node("ConvTranspose", "x w", "y", strides=[2, 2], output_shape=[10, 8], auto_pad=mode)
        yield f"transposed convolution, {mode}", network([turned], square, ["y"], [weight("w", 2, 3, 3, 3)])
    numbers = node("TopK", "x k", "y places", axis=-1)
    yield "largest two of set 10", network([numbers], image, ["y", "places"], [constant("k", [2])], opset=10)
    boxes = [constant("boxes", [[1.0, 2.0, 13.0, 15.0], [0.0, 0.0, 8.0, 9.0]], "float32"), constant("image", [0, 0])]
    for mode in ("half_pixel", "output_half_pixel"):
        options = {"coordinate_transformation_mode": mode, "spatial_scale": 0.25, "sampling_ratio": 2}
        aligned = node("RoiAlign", "x boxes image", "y", output_height=2, output_width=3, **options)
        yield f"boxes, {mode}", network([aligned], square, ["y"], boxes, opset=16)
    bounds = [constant("low", 1.0, "float32"), constant("high", -1.0, "float32")]
    yield "exchanged bounds", network([node("Clip", "x low high", "y")], image, ["y"], bounds)


def refused() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield networks that would compute something else than ONNX defines, by name."""
    image, size = [value("x", [1, 2, 4, 6])], constant("size", [1, 2, 2, 3])
    for name, option in (("antialias", 1), ("keep_aspect_ratio_policy", "not_larger")):
        resize = node("Resize", "x - - size", "y", mode="linear", **{name: option})
        yield name, network([resize], image, ["y"], [size], opset=18)
    part = node("Resize", "x - - size", "y", mode="linear", axes=[2, 3])
    yield "axes", network([part], image, ["y"], [constant("size", [2, 3])], opset=18)
    sampled = node("GridSample", "x grid", "y", mode="cubic", padding_mode="border")
    yield "border", network([sampled], image, ["y"], [weight("grid", 1, 3, 3, 2)], opset=20)


def run(module: Any, data: Any) -> list[Any]:
    with TARGET:
        library = relax.build(lower(module, level=0, target=TARGET), TARGET, relax_pipeline=None)
    result = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(data))
    return [each.numpy() for each in ([result] if isinstance(result, tvm.runtime.Tensor) else result)]


def reference(case: str, model: onnx.ModelProto, data: Any) -> list[Any]:
    """Return the outputs of ONNX's reference implementation; it has no Upsample, which is Resize of another name."""
    if case.startswith("upsample"):
        layer = model.graph.node[0]
        mode = layer.attribute[0].s.decode()
        options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        resize = node("Resize", "x - scales", "y", mode=mode, **options)
        model = network([resize], [model.graph.input[0]], ["y"], [model.graph.initializer[0]], opset=13)
    if case.startswith("pool") and case.endswith("LOWER"):
        # The reference rounds the size down; ONNX Runtime rounds it up, as the documentation says.
        kernel, stride = int(case[len("pool of ")]), int(case.partition("stride ")[2][0])
        pads = [1, 1, 0, 0] if (kernel, stride) == (2, 2) else [0, 0, 0, 0]
        pool = node("MaxPool", "x", "y", kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)
        model = network([pool], [model.graph.input[0]], ["y"])
    return [np.asarray(each) for each in ReferenceEvaluator(model).run(None, {"x": data})]


def main(folder: Path) -> None:
    for case, model in cases():
        path = folder / "case.onnx"
        onnx.save(model, str(path))
        shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
        data = np.random.default_rng(0).normal(size=shape).astype("float32")
        actual = run(read(ModelSource(path=path, format="onnx", inputs={})), data)
        expected = reference(case, model, data)
        same = len(actual) == len(expected) and all(
            mine.shape == other.shape and np.allclose(mine, other, atol=1e-5)
            for mine, other in zip(actual, expected, strict=True)
        )
        print(json.dumps({"case": case, "same": bool(same)}))
    for case, model in refused():
        onnx.save(model, str(path))
        try:
            read(ModelSource(path=path, format="onnx", inputs={}))
        except (UserError, ValueError) as error:
            print(json.dumps({"case": case, "refusal": str(error)}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
