"""ONNX graphs of one operator in the forms that operator sets give it, compared with what ONNX Runtime answers.

A test writes the cases with their answers into a folder; the scripts ``sweep_cases.py`` of each dialect import and run
them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "frontends"))

from onnx_graphs import constant, network, node, reference, value, weight

OPSETS = (9, 11, 13, 17, 18, 21)
IMAGE = (2, 4, 5, 7)
Case = tuple[str, onnx.ModelProto]
Run = Callable[[Path, Mapping[str, Any]], Sequence[Any]]


def layer(
    kind: str,
    opset: int,
    constants: Sequence[Any] = (),
    *,
    shape: Sequence[int] = IMAGE,
    outputs: str = "y",
    note: str = "",
    dtypes: Mapping[str, str] | None = None,
    names: str = "",
    dtype: str = "float32",
    **attributes: Any,
) -> Case:
    """Return a network of one operator, whose inputs are ``x`` and the constants unless ``names`` are given."""
    names = names or " ".join(["x", *(each.name for each in constants)])
    made = node(kind, names, outputs, **attributes)
    graph = network(
        [made], [value("x", list(shape), dtype)], outputs.split(), list(constants), opset=opset, dtypes=dtypes
    )
    return f"{kind} {opset} {note}".strip(), graph


def by_axes(kind: str, opset: int, axes: Sequence[int] | None, *, since: int, **options: Any) -> Case:
    """Return an operator whose axes are an attribute before the operator set ``since``, an input from then on."""
    note = f"{options.pop('note', '')} axes {axes}"
    if axes is None:
        return layer(kind, opset, note=note, **options)
    if opset < since:
        return layer(kind, opset, note=note, axes=list(axes), **options)
    return layer(kind, opset, [constant("axes", list(axes))], note=note, **options)


def reductions(opset: int) -> Iterator[Case]:
    kinds = ("Max", "Min", "Mean", "Sum", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
    for name in kinds:
        since = 13 if name == "Sum" else 18
        for axes in ([1], [-1, 1], None) if name in ("Max", "Sum") else ([-1, 1],):
            yield by_axes(f"Reduce{name}", opset, axes, since=since, keepdims=0)
        yield by_axes(f"Reduce{name}", opset, [2], since=since, note="keep", keepdims=1)
    for kind in ("ArgMax", "ArgMin"):
        yield layer(kind, opset, axis=1, keepdims=0, dtypes={"y": "int64"})
        yield layer(kind, opset, axis=0 if opset < 11 else -1, keepdims=1, dtypes={"y": "int64"}, note="keep")


def pools(opset: int) -> Iterator[Case]:
    forms: dict[str, dict[str, Any]] = {
        "plain": {"kernel_shape": [3, 3], "strides": [2, 2]},
        "pads": {"kernel_shape": [3, 3], "pads": [1, 0, 0, 1]},
        "same upper": {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        "same lower": {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
        "valid": {"kernel_shape": [2, 3], "auto_pad": "VALID"},
    }
    if opset >= 10:
        forms["ceil"] = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}
        forms["ceil pads"] = {"kernel_shape": [3, 3], "strides": [3, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]}
        # Not MaxPool: ONNX's reference gives it another size than its definition does.
        whole = {"kernel_shape": [3, 2], "ceil_mode": 1, "pads": [1, 0, 1, 1], "count_include_pad": 1}
        yield layer("AveragePool", opset, note="ceil without rest", **whole)
        yield layer("MaxPool", opset, note="dilated", kernel_shape=[2, 2], dilations=[2, 3])
    if opset >= 19:
        yield layer("AveragePool", opset, note="dilated", kernel_shape=[2, 2], dilations=[2, 3])
    for note, form in forms.items():
        yield layer("MaxPool", opset, note=note, **form)
        yield layer("AveragePool", opset, note=note, **form)
        if "VALID" not in form.values():
            yield layer("AveragePool", opset, note=f"{note}, counted", count_include_pad=1, **form)
    yield layer("GlobalAveragePool", opset)
    yield layer("GlobalMaxPool", opset)
    yield layer("LpPool", opset, kernel_shape=[2, 2], p=2)
    yield layer("LRN", opset, size=3, alpha=0.5, beta=0.6, bias=1.5)
    yield layer("LRN", opset, size=4, alpha=0.5, note="even")


def softmaxes(opset: int) -> Iterator[Case]:
    for kind in ("Softmax", "LogSoftmax", "Hardmax"):
        yield layer(kind, opset, shape=(2, 3, 4))
        yield layer(kind, opset, shape=(1, 6, 1, 1), note="of a classifier")
        yield layer(kind, opset, shape=(2, 3, 4), axis=1 if opset < 11 else -2, note="axis")
    yield layer("Flatten", opset)
    yield layer("Flatten", opset, axis=0 if opset < 11 else -2, note="axis")


def norms(opset: int) -> Iterator[Case]:
    four = [weight("scale", 4), weight("shift", 4), weight("mean", 4), constant("var", [0.5, 1, 2, 3], "float32")]
    yield layer("BatchNormalization", opset, four, epsilon=1e-3)
    yield layer("InstanceNormalization", opset, four[:2], epsilon=1e-2)
    yield layer("LpNormalization", opset, axis=1, p=2)
    yield layer("MeanVarianceNormalization", opset, axes=[0, 2, 3])
    yield layer("Dropout", opset)
    if opset >= 17:
        seven = [weight("scale", 7), weight("shift", 7)]
        yield layer("LayerNormalization", opset, seven, epsilon=1e-2)
        yield layer("LayerNormalization", opset, seven[:1], note="no shift")
        wide = [weight("scale", 5, 7), weight("shift", 5, 7)]
        yield layer("LayerNormalization", opset, wide, axis=2, note="axis")


def products(opset: int) -> Iterator[Case]:
    a, at, b = weight("w", 5, 3), weight("w", 3, 5), weight("b", 3)
    yield layer("Gemm", opset, [a, b], shape=(4, 5), alpha=0.5, beta=2.0)
    yield layer("Gemm", opset, [at, b], shape=(5, 4), transA=1, transB=1, note="turned")
    yield layer("Gemm", opset, [a, weight("b", 4, 1)], shape=(4, 5), note="column bias")
    if opset >= 11:
        yield layer("Gemm", opset, [a], shape=(4, 5), alpha=0.5, note="no bias")
    yield layer("MatMul", opset, [weight("w", 7, 3)])
    yield layer("Conv", opset, [weight("w", 6, 2, 3, 3)], group=2, dilations=[2, 1], pads=[1, 0, 2, 1])
    yield layer("Conv", opset, [weight("w", 6, 4, 2, 3)], auto_pad="SAME_UPPER", strides=[2, 2], note="same")
    yield layer("Conv", opset, [weight("w", 6, 4, 2, 3)], auto_pad="SAME_LOWER", strides=[2, 2], note="lower")
    turned = weight("w", 4, 3, 3, 2)
    yield layer("ConvTranspose", opset, [turned, weight("b", 3)], strides=[2, 1], pads=[1, 0, 0, 1])
    yield layer("ConvTranspose", opset, [turned], strides=[2, 2], output_padding=[1, 0], note="padded")
    yield layer("ConvTranspose", opset, [turned], strides=[2, 2], auto_pad="SAME_UPPER", note="same")
    yield layer("ConvTranspose", opset, [turned], strides=[2, 2], output_shape=[11, 14], note="shape")
    yield layer("ConvTranspose", opset, [turned], strides=[2, 2], dilations=[2, 1], note="dilated")
    yield layer("ConvTranspose", opset, [weight("w", 4, 3, 3, 2)], group=2, strides=[2, 2], note="groups")
    if opset >= 12:
        yield layer("Einsum", opset, [weight("w", 7, 3)], equation="bchw,wk->bkch")
        yield layer("Einsum", opset, equation="bchw->bhc", note="sum")
        yield layer("Einsum", opset, [weight("w", 2, 7, 3)], equation="b...w,bwk->b...k", note="dots")


def moves(opset: int) -> Iterator[Case]:  # noqa: C901 one condition for each change of ONNX
    yield layer("Gather", opset, [constant("i", [[1, 0], [3, 2]])], axis=1)
    yield layer("Gather", opset, [constant("i", 1)], axis=2, note="scalar")
    if opset >= 11:
        yield layer("Gather", opset, [constant("i", [-1, 0, -3])], axis=-2, note="negative")
        yield layer("GatherElements", opset, [constant("i", np.full((2, 2, 5, 7), -1))], axis=1, note="negative")
        yield layer("GatherND", opset, [constant("i", [[0, -1], [1, 2]])], note="negative")
        updates = [constant("i", [[0], [-1]]), weight("u", 2, 7)]
        yield layer("ScatterND", opset, updates, shape=(4, 7), note="negative")
        spread = [constant("i", [[0, -1, 2]]), weight("u", 1, 3)]
        yield layer("ScatterElements", opset, spread, shape=(4, 7), axis=1, note="negative")
    if opset < 10:
        yield layer("Slice", opset, starts=[1, -3], ends=[99, -1], axes=[2, 3])
    else:
        bounds = [constant("s", [-1, 6]), constant("e", [-99, 1]), constant("a", [1, -1]), constant("t", [-1, -2])]
        yield layer("Slice", opset, bounds, note="backwards")
        yield layer("Slice", opset, [constant("s", [1, -3]), constant("e", [99, 4]), constant("a", [0, 2])])
    if opset < 13:
        yield layer("Split", opset, axis=3, split=[2, 5], outputs="y z")
    else:
        yield layer("Split", opset, [constant("s", [2, 5])], axis=-1, outputs="y z")
    if opset >= 18:
        yield layer("Split", opset, axis=3, num_outputs=2, outputs="y z", note="uneven")
    scaled = [node("Split", "w", "a", axis=0, **({"num_outputs": 1} if opset >= 18 else {})), node("Mul", "x a", "y")]
    yield (
        f"Split {opset} constant, one part",
        network(scaled, [value("x", IMAGE)], ["y"], [weight("w", 7)], opset=opset),
    )
    yield by_axes("Squeeze", opset, [0, 2], since=13, shape=(1, 3, 1, 4))
    yield by_axes("Squeeze", opset, None, since=13, shape=(1, 3, 1, 4))
    yield by_axes("Unsqueeze", opset, [0, 3], since=13)
    if opset >= 11:
        yield by_axes("Unsqueeze", opset, [-1, 1], since=13, shape=(3, 4))
        yield by_axes("Unsqueeze", opset, [3, 0], since=13, shape=(3, 4))
    yield layer("Expand", opset, [constant("s", [3, 1, 4])], shape=(2, 1, 5, 1))
    yield layer("Tile", opset, [constant("s", [1, 2, 3])], shape=(2, 3, 4))
    yield layer("Transpose", opset, note="default")
    yield layer("Concat", opset, [weight("w", 2, 4, 5, 2)], axis=3)
    yield layer("DepthToSpace", opset, shape=(1, 8, 2, 3), blocksize=2)
    if opset >= 11:
        yield layer("DepthToSpace", opset, shape=(1, 8, 2, 3), blocksize=2, mode="CRD", note="CRD")
    yield layer("SpaceToDepth", opset, shape=(1, 2, 4, 6), blocksize=2)
    yield layer("Reshape", opset, [constant("s", [0, -1, 7])])
    pads = [0, 0, 1, 2, 0, 0, 2, 1]
    for mode in ("constant", "reflect", "edge", *(("wrap",) if opset >= 19 else ())):
        if opset < 11:
            yield layer("Pad", opset, pads=pads, mode=mode, note=mode, **({"value": 1.5} if mode == "constant" else {}))
        else:
            extra = [constant("v", 1.5, "float32")] if mode == "constant" else []
            yield layer("Pad", opset, [constant("p", pads), *extra], mode=mode, note=mode)
    if opset >= 18:
        part = [constant("p", [1, 2, 2, 1]), constant("v", 1.5, "float32"), constant("a", [-1, 1])]
        yield layer("Pad", opset, part, note="axes")
    crop = [0, 0, -1, 2, 0, 0, 1, -2]
    yield layer("Pad", opset, note="crop", **({"pads": crop} if opset < 11 else {"constants": [constant("p", crop)]}))
    if opset >= 11:
        yield layer("TopK", opset, [constant("k", [3])], axis=1, outputs="y i", dtypes={"i": "int64"})
        yield layer("TopK", opset, [constant("k", [2])], axis=-2, largest=0, outputs="y i", dtypes={"i": "int64"})
        yield layer("CumSum", opset, [constant("a", -2)], reverse=1, exclusive=1)
    if opset >= 14:
        yield layer("Trilu", opset, [constant("k", -1)], upper=0)
        yield layer("Trilu", opset, [constant("k", 1)], upper=1, note="upper")
    hot = [constant("d", 5), constant("v", [2.0, 3.0], "float32")]
    if opset >= 9:
        yield layer("OneHot", opset, hot, shape=(2, 3), dtype="int64", axis=1)


def resizes(opset: int) -> Iterator[Case]:
    scales = constant("s", [1, 1, 2, 3], "float32")
    if opset < 11:
        for mode in ("nearest", "linear"):
            yield layer("Upsample", opset, [scales], mode=mode, note=mode)
        return
    # Seven columns become 4.9: with a size that TVM rounds down, columns are read from other places.
    fractions = constant("s", [1, 1, 1.6, 0.7], "float32")
    # Three columns for one: Relay's TVM reads the third from the column before the nearest.
    sizes = constant("z", [2, 4, 8, 21])
    for mode in ("nearest", "linear", "cubic"):
        for where in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            options = {"mode": mode, "coordinate_transformation_mode": where}
            note = f"{mode} {where}"
            yield layer("Resize", opset, [scales], names="x - s", note=note, **options)
            if opset >= 13:
                yield layer("Resize", opset, [fractions], names="x - s", note=f"{note} fraction", **options)
                yield layer("Resize", opset, [sizes], names="x - - z", note=f"{note} sizes", **options)
    for rounding in ("floor", "ceil", "round_prefer_ceil"):
        options = {"nearest_mode": rounding, "coordinate_transformation_mode": "asymmetric"}
        yield layer("Resize", opset, [fractions], names="x - s", note=rounding, **options)


def elements(opset: int) -> Iterator[Case]:
    if opset < 11:
        yield layer("Clip", opset, min=-0.5, max=0.25)
    else:
        yield layer("Clip", opset, [constant("l", -0.5, "float32"), constant("h", 0.25, "float32")])
        yield layer("Clip", opset, [constant("h", 0.25, "float32")], names="x - h", note="above")
    for kind in ("Elu", "Selu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Softplus", "Softsign", "Erf", "Shrink"):
        yield layer(kind, opset)
    for kind in ("Elu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu"):
        yield layer(kind, opset, alpha=0.3, note="alpha")
    yield layer("Selu", opset, alpha=1.2, gamma=0.9, note="alpha")
    yield layer("Shrink", opset, lambd=0.4, bias=0.2, note="bias")
    yield layer("PRelu", opset, [weight("w", 4, 1, 1)])
    for kind in ("Sign", "Ceil", "Floor", "Reciprocal", "Sinh", "Atan", "Exp", "Tanh", "Sigmoid"):
        yield layer(kind, opset)
    if opset >= 11:
        yield layer("Round", opset)
        yield layer("Mod", opset, [constant("d", 3)], shape=(4, 5), dtype="int64", dtypes={"y": "int64"})
        yield layer("Mod", opset, [constant("d", 0.7, "float32")], fmod=1, note="fmod")
    yield layer("Div", opset, [constant("d", 3)], shape=(4, 5), dtype="int64", dtypes={"y": "int64"}, note="integers")
    yield layer("Pow", opset, [constant("p", 2.0, "float32")])
    yield layer("Cast", opset, to=onnx.TensorProto.INT32, dtypes={"y": "int32"})
    yield layer("Cast", opset, to=onnx.TensorProto.BOOL, dtypes={"y": "bool"}, note="bool")
    yield layer(
        "Where",
        opset,
        [constant("c", [True, False, True, False, True, True, False], "bool"), weight("o", 4, 1, 1)],
        names="c x o",
    )
    yield layer("Max", opset, [weight("w", 7), weight("v", 5, 1)])
    yield layer("Sum", opset, [weight("w", 7), weight("v", 5, 1)])
    yield layer("Mean", opset, [weight("w", 7), weight("v", 5, 1)])
    if opset >= 14:
        yield layer("HardSwish", opset)
    if opset >= 12:
        yield layer("Celu", opset, alpha=0.6)
    if opset >= 18:
        yield layer("Mish", opset)
    if opset >= 20:
        yield layer("Gelu", opset)
        yield layer("Gelu", opset, approximate="tanh", note="tanh")


GROUPS = (reductions, pools, softmaxes, norms, products, moves, resizes, elements)


def expected(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """Return what ONNX Runtime answers, or ONNX's reference for what it does not run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return list(onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, dict(inputs)))
    except Exception:  # noqa: BLE001 its errors have no common class
        return reference(model, inputs)


def refusals(load: Callable[[Path], Any], models: Mapping[str, onnx.ModelProto], error: type[Exception]) -> None:
    """Print a line of JSON for each network: the message with which an importer refuses it, empty if it does not."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "case.onnx"
        for case, model in models.items():
            onnx.save(model, str(path))
            message = ""
            try:
                load(path)
            except error as refusal:
                message = str(refusal)
            print(json.dumps({"case": case, "refusal": message}), flush=True)


def sample(model: onnx.ModelProto) -> Any:
    kind = model.graph.input[0].type.tensor_type
    shape = [size.dim_value for size in kind.shape.dim]
    rng = np.random.default_rng(0)
    if kind.elem_type == onnx.TensorProto.INT64:
        return rng.integers(-4, 5, shape)
    return rng.normal(size=shape).astype("float32")


def write_cases(folder: Path) -> None:
    """Write the networks, their inputs and what they are to answer; ``cases.json`` has their names by number."""
    names = []
    for opset in OPSETS:
        for group in GROUPS:
            for case, model in group(opset):
                inputs = {"x": sample(model)}
                outputs = dict(zip(map(str, range(9)), expected(model, inputs), strict=False))
                onnx.save(model, str(folder / f"{len(names)}.onnx"))
                np.savez(folder / f"{len(names)}.npz", **inputs, **outputs)
                names.append(case)
    (folder / "cases.json").write_text(json.dumps(names))


def sweep(run: Run, plain: Run) -> None:
    """Print a line of JSON for each case of the folder that the command names: whether it is right, and why not.

    Args:
        run: Imports and runs a network.
        plain: The same without converters of ours, to see what a refused network would compute.
    """
    folder = Path(sys.argv[1])
    for number, case in enumerate(json.loads((folder / "cases.json").read_text())):
        path = folder / f"{number}.onnx"
        with np.load(path.with_suffix(".npz")) as arrays:
            inputs = {"x": arrays["x"]}
            wanted = [arrays[name] for name in sorted(set(arrays.files) - {"x"})]
        result = _compare(run, path, inputs, wanted)
        if result["state"] == "refused":
            result["plain"] = _compare(plain, path, inputs, wanted)["state"]
        print(json.dumps({"case": case, **result}), flush=True)


def _compare(run: Run, path: Path, inputs: Mapping[str, Any], wanted: Sequence[Any]) -> dict[str, Any]:
    try:
        actual = run(path, inputs)
    except Exception as error:  # noqa: BLE001 importers refuse in many ways
        return {"state": "refused", "reason": str(error).strip()[-200:]}
    shapes = [[list(each.shape) for each in outputs] for outputs in (actual, wanted)]
    if shapes[0] != shapes[1]:
        return {"state": "wrong", "reason": f"shapes {shapes[0]}, not {shapes[1]}"}
    if all(
        np.allclose(mine, other, rtol=1e-4, atol=1e-5, equal_nan=True)
        for mine, other in zip(actual, wanted, strict=True)
    ):
        return {"state": "right"}
    gaps = [float(np.abs(a.astype(float) - b.astype(float)).max()) for a, b in zip(actual, wanted, strict=True)]
    return {"state": "wrong", "reason": f"differs by {gaps}"}
