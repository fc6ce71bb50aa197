"""Small ONNX networks that importers had computed as something else, with the right values.

The values are those of ONNX's definitions, written here with numpy; ONNX's reference implementation is used where it is
known to be right. The scripts ``value_cases.py`` of each dialect import and run the networks.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "frontends"))

from onnx_graphs import constant, network, node, reference, value

RNG = np.random.default_rng(3)
STEPS, BATCH, DEPTH, HIDDEN = 4, 2, 3, 5
Expected = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A network, the data that it gets, and the right outputs by name."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Any]
    expected: Expected


def case(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    expected: Expected,
    weights: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
) -> Case:
    declared = [value(each, list(data.shape), str(data.dtype)) for each, data in inputs.items()]
    constants = [constant(each, data, str(np.asarray(data).dtype)) for each, data in (weights or {}).items()]
    dtypes = {each: str(data.dtype) for each, data in expected.items()}
    return Case(name, network(nodes, declared, list(expected), constants, opset=opset, dtypes=dtypes), inputs, expected)


def defined(name: str, nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Any], weights: Any, opset: int) -> Case:
    """Return a case with the values of ONNX's reference."""
    (output,) = nodes[-1].output
    blank = case(name, nodes, inputs, {output: np.zeros(0, "float32")}, weights, opset=opset)
    return case(name, nodes, inputs, {output: reference(blank.model, inputs)[0]}, weights, opset=opset)


def f32(values: Any) -> Any:
    return np.asarray(values, "float32")


def elementwise() -> Iterator[Case]:
    data = f32([[-np.inf, -1000, -1.5, -0.0, 0.25, 2, 1000, np.inf, np.nan]])
    with np.errstate(all="ignore"):
        soft = np.maximum(data, 0) + np.log1p(np.exp(-np.abs(data)))
        below = np.expm1(np.minimum(data, 0))
        hard = np.clip(data * 0.2 + 0.5, 0, 1)
        wanted = {
            "Relu": np.maximum(data, 0),
            "Elu": np.where(data > 0, data, below),
            "Selu": 1.0507009873554805 * np.where(data > 0, data, 1.6732632423543772 * below),
            "Celu": np.maximum(data, 0) + np.minimum(0, below),
            "HardSigmoid": hard,
            "Sign": np.sign(data),
            "Softplus": np.where(np.isnan(data), data, soft),
            "ThresholdedRelu": np.where(np.isnan(data) | (data > 1), data, 0),
        }
    wanted = {kind: f32(result) for kind, result in wanted.items()}
    yield case("functions of extreme values", [node(kind, "x", kind) for kind in wanted], {"x": data}, wanted)
    bounds = {"low": f32(0), "high": f32(6), "row": f32([[1] * 9])}
    nodes = [node("Clip", "x low high", "clip"), node("Max", "x row", "max"), node("Min", "row x", "min")]
    nodes += [node("Clip", "x high low", "crossed"), node("Clip", "x", "open"), node("Clip", "x - high", "below")]
    crossed = np.where(np.isnan(data), data, 0)
    results = {"clip": np.clip(data, 0, 6), "max": np.maximum(data, 1), "min": np.minimum(data, 1), "crossed": crossed}
    least, most = (getattr(np.finfo("float32"), name) for name in ("min", "max"))
    results |= {"open": np.clip(data, least, most), "below": np.clip(data, least, 6)}
    yield case("bounds", nodes, {"x": data}, {each: f32(result) for each, result in results.items()}, bounds)
    pair = {"x": f32([[np.nan, 1, 3]]), "z": f32([[2, np.nan, 1]])}
    nodes = [node("Max", "x z", "max"), node("Min", "x z", "min")]
    results = {"max": np.maximum(*pair.values()), "min": np.minimum(*pair.values())}
    yield case("the larger of two inputs", nodes, pair, results)
    apart = f32([[0, 1000, -1000, 1000]])
    log = apart - 1000 - np.log(np.float32(2))
    yield case("logarithm of softmax", [node("LogSoftmax", "x", "y", axis=-1)], {"x": apart}, {"y": f32(log)})
    rows = f32([[-np.inf, -np.inf], [np.inf, np.inf], [1, np.inf], [-np.inf, 2]])
    sums = {"y": f32([-np.inf, np.inf, np.inf, 2])}
    for opset, axes in ((13, {"axes": [1]}), (18, {})):
        kind = node("ReduceLogSumExp", "x" if axes else "x a", "y", keepdims=0, **axes)
        held = {} if axes else {"a": np.array([1])}
        yield case(f"sums of infinities, {opset}", [kind], {"x": rows}, sums, held, opset=opset)
    half, wanted = (np.array([each], "float16") for each in ([-1, 0, 3], [-0.5, 0, 0.75]))
    yield case("softsign in float16", [node("Softsign", "x", "y")], {"x": half}, {"y": wanted})
    parts = [f32(RNG.normal(size=shape)) for shape in ((2, 3), (3,), (2, 1))]
    inputs = dict(zip("xzw", parts, strict=True))
    yield case("mean of inputs", [node("Mean", "x z w", "y")], inputs, {"y": f32(sum(parts) / 3)})
    data = f32(RNG.normal(size=(2, 3, 4)))
    slope = f32([0.1, 0.2, 0.3, 0.4])
    wanted = {"y": np.where(data < 0, data * slope, data)}
    yield case("slopes along the last axis", [node("PRelu", "x s", "y")], {"x": data}, wanted, {"s": slope})
    gone = np.full((2, 8), -np.inf, "float32")
    reduced = node("ReduceMax", "x", "y", axes=[1], keepdims=0)
    yield case("largest of minus infinity", [reduced], {"x": gone}, {"y": gone[:, 0]})


def norms() -> Iterator[Case]:
    data = f32(RNG.normal(2, 3, (4, 3, 5)))
    scale, shift, mean, var = (f32(RNG.random(3) + 0.5) for _ in range(4))
    weights = {"s": scale, "b": shift, "m": mean, "v": var}

    def normalized(mean: Any, var: Any) -> Any:
        columns = [each.reshape(1, 3, 1) for each in (mean, var, scale, shift)]
        return f32((data - columns[0]) / np.sqrt(columns[1] + 1e-5) * columns[2] + columns[3])

    own = data.mean((0, 2)), data.var((0, 2))
    trained = node("BatchNormalization", "x s b m v", "y rm rv", training_mode=1, momentum=0.75)
    running = {"rm": f32(0.75 * mean + 0.25 * own[0]), "rv": f32(0.75 * var + 0.25 * own[1])}
    yield case("batch norm of the batch", [trained], {"x": data}, {"y": normalized(*own), **running}, weights)
    plain = node("BatchNormalization", "x s b m v", "y")
    yield case("batch norm of inputs", [plain], {"x": data, "v": var}, {"y": normalized(mean, var)},
               {key: each for key, each in weights.items() if key != "v"})  # fmt: skip
    half = {"x": np.array([[[1, -2, 3]], [[0.5, 8, -4]]], "float16")}
    halves = {key: np.array([value], "float16") for key, value in (("s", 2), ("b", 1), ("m", 0), ("v", 1))}
    exact = node("BatchNormalization", "x s b m v", "y", epsilon=0.0)
    yield case("batch norm in float16", [exact], half, {"y": 2 * half["x"] + np.float16(1)}, halves)
    for kind in ("InstanceNormalization", "MeanVarianceNormalization"):
        large = {"x": np.array([[[[-6e4, -2e4, 2e4, 6e4]]]], "float16")}
        ones = {"s": np.array([1], "float16"), "b": np.array([0], "float16")}
        is_instance = kind == "InstanceNormalization"
        divided = {"y": (large["x"].astype("float32") / np.sqrt(f32(2e9))).astype("float16")}
        yield case(f"{kind} in float16", [node(kind, "x s b" if is_instance else "x", "y")], large, divided,
                   ones if is_instance else {})  # fmt: skip
    far = f32([[[[7, 7, 7, 7], [9999, 10001, 9998, 10002]]]])
    divided = {"y": np.sqrt(f32([[[[0, 0, 0, 0], [0.4, 0.4, 1.6, 1.6]]]])) * np.resize(f32([-1, 1]), 4)}
    yield case("far from zero", [node("MeanVarianceNormalization", "x", "y", axes=[3])], {"x": far}, divided)
    mask = {"y": data, "k": np.ones(data.shape, bool)}
    yield case("mask of dropout", [node("Dropout", "x", "y k")], {"x": data}, mask)


def sigmoid(data: Any) -> Any:
    return 1 / (1 + np.exp(-data))


def lstm(data: Any, weights: Mapping[str, Any], *, order: int, clip: float | None, lengths: Any) -> Any:
    bounded = (lambda each: each) if clip is None else (lambda each: np.clip(each, -clip, clip))
    hidden, memory = np.zeros((BATCH, HIDDEN)), np.zeros((BATCH, HIDDEN))
    outputs = np.zeros((STEPS, BATCH, HIDDEN))
    for step in list(range(STEPS))[::order]:
        sums = data[step] @ weights["w"][0].T + hidden @ weights["r"][0].T + weights["b"][0].reshape(2, -1).sum(0)
        entry, output, forget, new = np.split(bounded(sums), 4, axis=1)
        after = sigmoid(forget) * memory + sigmoid(entry) * np.tanh(new)
        runs = (step < lengths)[:, None]
        result = sigmoid(output) * np.tanh(after)
        hidden, memory = np.where(runs, result, hidden), np.where(runs, after, memory)
        outputs[step] = np.where(runs, result, 0)
    return f32(outputs[:, None]), f32(hidden[None]), f32(memory[None])


def gru(data: Any, weights: Mapping[str, Any], *, resets_product: bool) -> Any:
    hidden, outputs = np.zeros((BATCH, HIDDEN)), np.zeros((STEPS, BATCH, HIDDEN))
    of_input, of_state = np.split(weights["b"][0], 2)
    for step in reversed(range(STEPS)):
        entries = np.split(data[step] @ weights["w"][0].T + of_input, 3, axis=1)
        states = np.split(hidden @ weights["r"][0].T + of_state, 3, axis=1)
        update, reset = sigmoid(entries[0] + states[0]), sigmoid(entries[1] + states[1])
        recalled = reset * states[2]
        if not resets_product:
            recalled = (reset * hidden) @ weights["r"][0][2 * HIDDEN :].T + of_state[2 * HIDDEN :]
        hidden = (1 - update) * np.tanh(entries[2] + recalled) + update * hidden
        outputs[step] = hidden
    return f32(outputs[:, None]), f32(hidden[None])


def recurrent() -> Iterator[Case]:
    data = f32(RNG.normal(size=(STEPS, BATCH, DEPTH)))

    def weights(gates: int) -> dict[str, Any]:
        sizes = {"w": (1, gates * HIDDEN, DEPTH), "r": (1, gates * HIDDEN, HIDDEN), "b": (1, 2 * gates * HIDDEN)}
        return {name: f32(RNG.normal(size=shape)) for name, shape in sizes.items()}

    for resets_product in (False, True):
        options = {"hidden_size": HIDDEN, "direction": "reverse", "linear_before_reset": int(resets_product)}
        held = weights(3)
        wanted = dict(zip(("y", "h"), gru(data, held, resets_product=resets_product), strict=True))
        yield case(
            f"GRU backwards {resets_product}", [node("GRU", "x w r b", "y h", **options)], {"x": data}, wanted, held
        )
    forms: list[tuple[str, str, int, float | None]] = [
        ("backwards", "reverse", -1, None),
        ("clipped", "forward", 1, 0.5),
    ]
    for note, direction, order, clip in forms:
        held = {**weights(4), "l": np.array([STEPS, 2], "int32")}
        options = {"hidden_size": HIDDEN, "direction": direction, **({"clip": clip} if clip else {})}
        results = lstm(data, held, order=order, clip=clip, lengths=held["l"])
        wanted = dict(zip(("y", "h", "c"), results, strict=True))
        yield case(f"LSTM {note}", [node("LSTM", "x w r b l", "y h c", **options)], {"x": data}, wanted, held)


def largest(data: Any, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], by_column: bool) -> Any:
    """Return the largest elements of the windows of an image, and their indices in the whole tensor."""
    batch, channels, *sizes = data.shape
    counts = [
        (size + pads[axis] + pads[axis + 2] - kernel[axis]) // strides[axis] + 1 for axis, size in enumerate(sizes)
    ]
    values, indices = np.zeros((batch, channels, *counts), "float32"), np.zeros((batch, channels, *counts), "int64")
    for image, channel, *place in itertools.product(range(batch), range(channels), *map(range, counts)):
        starts = [place[axis] * strides[axis] - pads[axis] for axis in (0, 1)]
        inside = [
            (row, column)
            for row in range(starts[0], starts[0] + kernel[0])
            for column in range(starts[1], starts[1] + kernel[1])
            if 0 <= row < sizes[0] and 0 <= column < sizes[1]
        ]
        row, column = max(inside, key=lambda each: data[image, channel, each[0], each[1]])
        within = column * sizes[0] + row if by_column else row * sizes[1] + column
        values[image, channel, place[0], place[1]] = data[image, channel, row, column]
        indices[image, channel, place[0], place[1]] = (image * channels + channel) * sizes[0] * sizes[1] + within
    return values, indices


def windows() -> Iterator[Case]:
    image = f32(RNG.normal(size=(2, 3, 5, 6)))
    for by_column in (0, 1):
        options = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0], "storage_order": by_column}
        values, indices = largest(image, [3, 2], [2, 2], [1, 0, 1, 0], bool(by_column))
        wanted = {"y": values, "i": indices}
        yield case(f"indices of maxima {by_column}", [node("MaxPool", "x", "y i", **options)], {"x": image}, wanted)
    blocks = image[:, :, :4].reshape(2, 3, 2, 2, 3, 2)
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [node("LpPool", "x", "one", p=1, **pool), node("LpPool", "x", "three", p=3, **pool)]
    nodes += [node("GlobalLpPool", "x", "all", p=3)]
    sums = {"one": np.abs(blocks).sum((3, 5)), "three": (np.abs(blocks) ** 3).sum((3, 5)) ** (1 / 3)}
    sums["all"] = (np.abs(image[:, :, :4]) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)
    wanted = {name: f32(each) for name, each in sums.items()}
    yield case("norms of windows", nodes, {"x": np.ascontiguousarray(image[:, :, :4])}, wanted)
    # Windows that begin behind the image are none; what is outside of the padding is not counted.
    line = f32(np.arange(1, 6).reshape(1, 1, 5))
    ceil = {"kernel_shape": [3], "strides": [3], "pads": [1, 1], "ceil_mode": 1}
    nodes = [node("AveragePool", "x", "m", count_include_pad=1, **ceil), node("MaxPool", "x", "y", **ceil)]
    yield case("rounded up", nodes, {"x": line}, {"m": f32([[[1, 4]]]), "y": f32([[[2, 5]]])})
    weights = {"w": f32(RNG.normal(size=(3, 2, 2, 3)))}
    spread = node("ConvTranspose", "x w", "y", dilations=[2, 2])
    yield defined("turned and dilated", [spread], {"x": image}, weights, 11)
    forms = {
        "SAME_UPPER": ([0, 0, 0, 1], {"auto_pad": "SAME_UPPER"}),
        "size": ([0, 1, 0, 0], {"output_shape": [10, 12]}),
    }
    for note, (padding, settings) in forms.items():
        explicit = node("ConvTranspose", "x w", "y", strides=[2, 2], pads=padding)
        wanted = defined("", [explicit], {"x": image}, weights, 11).expected
        turned = node("ConvTranspose", "x w", "y", strides=[2, 2], **settings)
        yield case(f"turned to a size by {note}", [turned], {"x": image}, wanted, weights)


def moves() -> Iterator[Case]:
    image = f32(RNG.normal(size=(1, 3, 4, 2)))
    resize = node(
        "Resize", "x - s", "y", mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
    )
    twice = np.repeat(np.repeat(image, 2, axis=1), 2, axis=2)
    yield case("resize, channels last", [resize], {"x": image}, {"y": twice}, {"s": f32([1, 2, 2, 1])})
    table, places = f32(RNG.normal(size=(4, 3))), np.array([-1, 0, -4, 2], "int64")
    yield case("rows from the end", [node("Gather", "t x", "y")], {"x": places}, {"y": table[places]}, {"t": table})
    pair = np.array([[-1, 0], [1, -3]], "int64")
    wanted = {"y": table[pair[:, 0], pair[:, 1]]}
    yield case("elements from the end", [node("GatherND", "t x", "y")], {"x": pair}, wanted, {"t": table})
    hot = {"d": np.int64(4), "v": f32([0, 2])}
    ids = np.array([[0, 3], [-1, 1]], "int64")
    wanted = {"y": f32(2 * np.eye(4)[ids])}
    yield case("one-hot rows", [node("OneHot", "x d v", "y", axis=-1)], {"x": ids}, wanted, hot)
    floats = node("OneHot", "x d v", "y", axis=0)
    wanted = {"y": f32(2 * np.eye(4)[:, [0, 3]])}
    yield case("one-hot rows of floats", [floats], {"x": f32([0, 3])}, wanted, {"d": f32([4]), "v": f32([0, 2])})
    pads = {"p": np.array([1, 2], "int64"), "v": f32(1.5), "a": np.array([-2], "int64")}
    padded = np.pad(image, [(0, 0), (0, 0), (1, 2), (0, 0)], constant_values=1.5)
    yield case("padding of one axis", [node("Pad", "x p v a", "y")], {"x": image}, {"y": padded}, pads, opset=18)
    data = f32(np.arange(10).reshape(2, 5))
    nodes = [node("Split", "x", "a b c", axis=1, num_outputs=3), node("EyeLike", "x", "e", k=-1)]
    nodes += [node("Reshape", "x size", "r", allowzero=1), node("Cast", "x", "i", to=7, saturate=1)]
    nodes += [node("Compress", "x choice", "z", axis=-1)]
    weights = {"size": np.array([5, 2], "int64"), "choice": np.array([0, 1, 0], bool)}
    wanted = {"a": data[:, :2], "b": data[:, 2:4], "c": data[:, 4:], "e": f32(np.eye(2, 5, -1))}
    wanted |= {"r": data.reshape(5, 2), "i": data.astype("int64"), "z": data[:, [1]]}
    yield case("parts and shapes", nodes, {"x": data}, wanted, weights, opset=19)
    nodes = [node("Constant", "", "c", value_floats=[1.0, 2.0]), node("Add", "x c", "y")]
    nodes += [node("Constant", "", "n", value_int=3)]
    wanted = {"y": f32([[2, 4]]), "n": np.asarray(3, "int64")}
    yield case("constants of numbers", nodes, {"x": f32([[1, 2]])}, wanted)
    left, right = f32([-5.5, 5.5, -5.5, 5.5, 4]), f32([2, -2, -2, 2, -2])
    nodes = [node("Mod", "x z", "y", fmod=1)]
    yield case("rest of a division", nodes, {"x": left, "z": right}, {"y": f32(np.fmod(left, right))})


def casts() -> Iterator[Case]:
    levels = f32([0.4, 1.9, 300, -7])
    nodes = [node("Clip", "x low high", "c"), node("Cast", "c", "u", to=2), node("Cast", "u", "y", to=1)]
    bounds = {"low": f32(0), "high": f32(255)}
    yield case("casts of a clipped float", nodes, {"x": levels}, {"y": f32([0, 1, 255, 0])}, bounds)
    wrapped = [node("Cast", "x", "u", to=2), node("Cast", "u", "y", to=1)]
    yield case("signed as unsigned", wrapped, {"x": np.array([-1, 5], "int8")}, {"y": f32([255, 5])})
    rounded = [node("Cast", "x", "f", to=1), node("Cast", "f", "y", to=7)]
    ids = np.array([2**24 + 1, 7], "int32")
    yield case("integers as floats", rounded, {"x": ids}, {"y": np.array([2**24, 7], "int64")})
    wide = np.array([1.5, -0.25])
    yield case("float64 as float16", [node("Cast", "x", "y", to=10)], {"x": wide}, {"y": wide.astype("float16")})
    bits, distances = np.array([255, 3, 1], "uint8"), np.array([8, 1, 200], "uint8")
    shifted = node("BitShift", "x z", "y", direction="LEFT")
    wanted = {"y": np.array([0, 6, 0], "uint8")}
    yield case("shift by the width of the type", [shifted], {"x": bits, "z": distances}, wanted)
    data = f32([[4, 1, 3, 2]])
    wanted = {"y": f32([[1, 2]]), "i": np.array([[1, 3]], "int64")}
    least = node("TopK", "x k", "y i", largest=0)
    yield case("the smallest elements", [least], {"x": data}, wanted, {"k": np.array([2])})


GROUPS: Sequence[Callable[[], Iterator[Case]]] = (elementwise, norms, recurrent, windows, moves, casts)


def run_all(
    run: Callable[[Path, Mapping[str, Any]], Sequence[Any]],
    groups: Sequence[Callable[[], Iterator[Case]]] = GROUPS,
    *,
    every: int,
) -> None:
    """Print a line of JSON for every n-th case: what is wrong with it, empty if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        for each in itertools.islice(itertools.chain.from_iterable(group() for group in groups), 0, None, every):
            onnx.save(each.model, str(path))
            try:
                reason = differences(run(path, each.inputs), each.expected)
            except Exception as error:  # noqa: BLE001 an importer fails in many ways, and the others still run
                reason = f"{type(error).__name__}: {str(error).strip()[-300:]}"
            print(json.dumps({"case": each.name, "reason": reason}), flush=True)


def differences(actual: Sequence[Any], expected: Expected) -> str:
    found = []
    for (name, wanted), result in zip(expected.items(), actual, strict=True):
        if (result.shape, result.dtype) != (wanted.shape, wanted.dtype):
            found.append(f"{name} is {result.dtype}{result.shape}, not {wanted.dtype}{wanted.shape}")
        elif not np.allclose(result, wanted, rtol=1e-4, atol=1e-5, equal_nan=True):
            found.append(f"{name} is {result.ravel()[:9]}, not {wanted.ravel()[:9]}")
    return "; ".join(found)
