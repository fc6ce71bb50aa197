"""Runs the networks of ``onnx_values.py``, and some of its own, with TVM's Relax; prints one JSON line per case."""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1]))

from onnx_values import GROUPS, RNG, Case, case, f32, node, run_all

from passsearch.core import BuildOptions
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.bridge import RelaxBridge

BRIDGE = RelaxBridge("llvm -mtriple=x86_64-unknown-linux-gnu")


def statistics() -> Iterator[Case]:
    data, scale, row = (f32(RNG.normal(1, 2, shape)) for shape in ((2, 3, 4), (3, 4), (4,)))
    for note, axis, factor in (("last axis", -1, row), ("two axes", 1, scale), ("two axes, one scale", 1, row)):
        axes = tuple(range(axis % 3, 3))
        mean = data.mean(axes, keepdims=True)
        inverse = 1 / np.sqrt(data.var(axes, keepdims=True) + np.float32(1e-5))
        wanted = {"y": f32((data - mean) * inverse * factor), "m": f32(mean), "i": f32(inverse)}
        norm = node("LayerNormalization", "x s", "y m i", axis=axis)
        yield case(f"layer norm with statistics, {note}", [norm], {"x": data}, wanted, {"s": factor})
        plain = node("LayerNormalization", "x s", "y", axis=axis)
        yield case(f"layer norm, {note}", [plain], {"x": data}, {"y": wanted["y"]}, {"s": factor})
        root = np.sqrt((data**2).mean(axes, keepdims=True) + np.float32(1e-5))
        squares = node("RMSNormalization", "x s", "y", axis=axis)
        yield case(
            f"RMS norm, {note}", [squares], {"x": data}, {"y": f32(data / root * factor)}, {"s": factor}, opset=23
        )
    wide = data.astype("float64")
    gap = wide - wide.mean(-1, keepdims=True)
    wanted = {"y": gap / np.sqrt((gap**2).mean(-1, keepdims=True) + 1e-5)}
    double = node("LayerNormalization", "x s", "y")
    yield case("layer norm in float64", [double], {"x": wide}, wanted, {"s": np.ones(4)})


def numbers() -> Iterator[Case]:
    square = f32(RNG.normal(size=(2, 4, 4)))
    slopes = f32([0.1, 0.2, 0.3, 0.4])
    wanted = {"y": np.where(square < 0, square * slopes.reshape(1, 4, 1), square)}
    yield case("slopes by channel", [node("PRelu", "x s", "y")], {"x": square}, wanted, {"s": slopes}, opset=6)
    base, power = np.array([2, -3, 7], "int64"), np.array([10, 3, 0], "int64")
    yield case("powers of integers", [node("Pow", "x z", "y")], {"x": base, "z": power}, {"y": base**power})
    floats = f32([2, -3, 0.5])
    mixed = {"x": floats, "z": np.array([3, 2, 1], "int64")}
    yield case("integer powers of floats", [node("Pow", "x z", "y")], mixed, {"y": f32([8, 9, 0.5])})
    left, right = f32([-5.5, 5.5, -4, 4, 5]), f32([2, -2, 2, -2, np.inf])
    rest = {"y": f32([0.5, -0.5, 0, -0.0, 5])}
    yield case("rest with the divisor's sign", [node("Mod", "x z", "y")], {"x": left, "z": right}, rest)
    ends = f32([-np.inf, np.inf, np.nan, 1])
    nodes = [node("IsInf", "x", "a", detect_negative=0), node("IsInf", "x", "b", detect_positive=0)]
    wanted = {"a": np.array([0, 1, 0, 0], bool), "b": np.array([1, 0, 0, 0], bool)}
    yield case("infinities of one sign", nodes, {"x": ends}, wanted)
    values = {"x": np.array([1, -1], "int32"), "v": np.array([5, 9], "int64")}
    hot = {"y": np.array([[5, 5], [9, 5], [5, 9]], "int64")}
    yield case("one-hot by inputs", [node("OneHot", "x d v", "y", axis=0)], values, hot, {"d": np.int64(3)})
    flags = np.array([[True, False], [False, False]])
    nodes = [node("ReduceMax", "x", "a", axes=[1], keepdims=0), node("ReduceMin", "x", "b", axes=[1], keepdims=0)]
    wanted = {"a": np.array([True, False]), "b": np.array([False, False])}
    yield case("largest of booleans", nodes, {"x": flags}, wanted, opset=13)
    half = np.array([-np.inf, 1, np.nan], "float16")
    wanted = {"y": np.array([-1.7581, 1.0507, np.nan], "float16")}
    yield case("Selu in float16", [node("Selu", "x", "y")], {"x": half}, wanted)


def halves() -> Iterator[Case]:
    image = np.array([[[3e4, -3e4, 3e4, -3e4]]], "float16")
    weights = {"s": np.ones(1, "float16"), "b": np.zeros(1, "float16")}
    norm = node("InstanceNormalization", "x s b", "y")
    yield case("large numbers in float16", [norm], {"x": image}, {"y": np.sign(image)}, weights)


def sums_of_halves() -> Iterator[Case]:
    ones = np.ones((1, 4096), "float16")
    product = node("MatMul", "x w", "y")
    yield case("product in float16", [product], {"x": ones}, {"y": ones[:, :1] * 4096}, {"w": ones.T})
    large = np.full((2, 300), 300, "float16")
    nodes = [node("ReduceMean", "x", "m", axes=[1], keepdims=0), node("Softmax", "z", "s", axis=1)]
    wanted = {"m": large[:, 0], "s": np.full((1, 4096), 1 / 4096, "float16")}
    yield case("mean and softmax in float16", nodes, {"x": large, "z": ones}, wanted)
    image = np.ones((1, 256, 4, 4), "float16")
    weights = {"k": np.ones((1, 256, 4, 4), "float16")}
    filtered = {"y": np.full((1, 1, 1, 1), 4096, "float16")}
    yield case("convolution in float16", [node("Conv", "x k", "y")], {"x": image}, filtered, weights)


def small_results() -> Iterator[Case]:
    x = f32([-30, -12, -1, 0, 3, 60, -np.inf, np.inf, np.nan])
    wide = np.log1p(np.exp(x.astype("float64")))
    with np.errstate(invalid="ignore"):
        wanted = {"a": f32(wide / 1e-9), "b": f32(x * np.tanh(wide) / 1e-9)}
    nodes = [node("Softplus", "x", "s"), node("Mish", "x", "m"), node("Div", "s d", "a"), node("Div", "m d", "b")]
    yield case("small results of Softplus and Mish", nodes, {"x": x}, wanted, {"d": f32(1e-9)}, opset=18)
    norms = [node("LpNormalization", "x", "a", axis=1), node("LpNormalization", "x", "b", axis=0, p=1)]
    data = f32([[3, -4], [0, 0]])
    wanted = {"a": f32([[0.6, -0.8], [0, 0]]), "b": f32([[1, -1], [0, 0]])}
    yield case("norms of length one", norms, {"x": data}, wanted)


def chosen() -> Iterator[Case]:
    rows = f32([[-np.inf, -np.inf], [np.inf, np.inf], [1, np.inf], [-np.inf, 2]])
    kinds = [("ArgMax", 0), ("ArgMax", 1), ("ArgMin", 0), ("ArgMin", 1)]
    nodes = [
        node(kind, "x", f"y{place}", axis=1, keepdims=0, select_last_index=last)
        for place, (kind, last) in enumerate(kinds)
    ]
    wanted = {"y0": [0, 0, 1, 1], "y1": [1, 1, 1, 1], "y2": [0, 0, 0, 0], "y3": [1, 1, 0, 0]}
    yield case("places of infinities", nodes, {"x": rows}, {name: np.array(each) for name, each in wanted.items()})
    kind = node("ReduceLogSumExp", "x", "y", axes=[1], keepdims=0)
    yield case("sums of nothing", [kind], {"x": f32(np.zeros((2, 0)))}, {"y": f32([-np.inf] * 2)}, opset=13)
    data = f32([[1, 2, 3]])
    for opset, split in ((11, {"split": [2, 0, 1]}), (13, {})):
        parts = [node("Split", "x" if split else "x s", "a b c", axis=1, **split), node("Concat", "c b", "y", axis=1)]
        yield case(f"parts without elements, {opset}", parts, {"x": data}, {"a": data[:, :2], "y": data[:, 2:]},
                   {} if split else {"s": np.array([2, 0, 1])}, opset=opset)  # fmt: skip
    for name, sizes in (("a size", np.array(3)), ("sizes", np.array([3]))):
        steps = [node("SplitToSequence", "x s", "q", axis=1), node("SequenceAt", "q n", "y"), node("Relu", "y", "z")]
        constants = {"s": sizes, "n": np.array(0)}
        yield case(f"a sequence of one part by {name}", steps, {"x": data}, {"z": data}, constants)
    yield case("sizes of another sum", steps, {"x": data}, {"z": data}, {"s": np.array([2]), "n": np.array(0)})
    steps = [onnx.helper.make_node("SplitToSequence", ["x", ""], ["q"], axis=1, keepdims=0), *steps[1:2]]
    yield case("a sequence without sizes", steps, {"x": data}, {"y": data[:, 0]}, {"n": np.array(0)})
    steps = [node("Split", "e s", "a", axis=1), node("Concat", "a x", "y", axis=1)]
    empty = {"e": f32(np.zeros((1, 0))), "s": np.array([0])}
    yield case("one part without elements", steps, {"x": data}, {"y": data}, empty)
    wanted = {"y": np.eye(2, 3, 1)}
    yield case(
        "diagonal of another type", [node("EyeLike", "x", "y", dtype=11, k=1)], {"x": f32(np.ones((2, 3)))}, wanted
    )


def plain_recurrent() -> Iterator[Case]:
    data, start = (f32(RNG.normal(size=shape)) for shape in ((3, 2, 4), (2, 2, 5)))
    held = {
        "w": f32(RNG.normal(size=(2, 5, 4))),
        "r": f32(RNG.normal(size=(2, 5, 5))),
        "b": f32(RNG.normal(size=(2, 10))),
    }
    for name, function in (("Tanh", np.tanh), ("Relu", lambda x: np.maximum(x, 0))):
        state, outputs = start.copy(), np.zeros((3, 2, 2, 5), "float32")
        for way, order in enumerate(((0, 1, 2), (2, 1, 0))):
            for step in order:
                bias = held["b"][way, :5] + held["b"][way, 5:]
                sums = data[step] @ held["w"][way].T + state[way] @ held["r"][way].T + bias
                state[way] = outputs[step, way] = function(sums)
        layer = node("RNN", "x w r b - h", "y z", hidden_size=5, direction="bidirectional", activations=[name, name])
        yield case(f"RNN by {name}", [layer], {"x": data}, {"y": outputs, "z": state}, {**held, "h": start})
    wide = {key: array[:1].astype("float64") for key, array in {**held, "h": start}.items()}
    layer = node("RNN", "x w r b - h", "y z", hidden_size=5)
    sums = data[0] @ wide["w"][0].T + wide["h"][0] @ wide["r"][0].T + wide["b"][0, :5] + wide["b"][0, 5:]
    wanted = {"y": np.tanh(sums)[None, None], "z": np.tanh(sums)[None]}
    yield case("RNN in float64", [layer], {"x": data[:1].astype("float64")}, wanted, wide)


def old_sets() -> Iterator[Case]:
    data, column = f32(RNG.normal(size=(2, 3, 4))), f32([1, 10, 100])
    spread = node("Mul", "x c", "y", broadcast=1, axis=1)
    wanted = {"y": data * column.reshape(3, 1)}
    yield case("spread along an axis", [spread], {"x": data}, wanted, {"c": column}, opset=6)
    last = f32([1, 2, 3, 4])
    yield case("spread along the last axis", [node("Add", "x c", "y", broadcast=1)], {"x": data}, {"y": data + last},
               {"c": last}, opset=6)  # fmt: skip
    yield case("a new axis as an attribute", [node("Unsqueeze", "x", "y", axes=[0])], {"x": data}, {"y": data[None]},
               opset=11)  # fmt: skip


def places() -> Iterator[Case]:
    image = f32(RNG.normal(size=(3, 2, 4)))
    resize = node("Resize", "x - - size", "y", mode="nearest", nearest_mode="floor",
                  coordinate_transformation_mode="asymmetric")  # fmt: skip
    wanted = {"y": np.repeat(image, 2, axis=0)}
    yield case("resize of the first axis", [resize], {"x": image}, wanted, {"size": np.array([6, 2, 4])})
    nodes = [
        node("SequenceConstruct", "x z", "s"),
        node("SequenceInsert", "s x p", "t"),
        node("SequenceAt", "t p", "y"),
    ]
    inputs = {"x": f32([1, 2]), "z": f32([3, 4])}
    yield case("inserted before the last", nodes, inputs, {"y": inputs["z"]}, {"p": np.int64(-1)})
    boxes = f32([[[0, 0, 1, 1], [0, 0, 1, 0.5], [0, 2, 1, 3]]])
    weights = {"m": np.array([3]), "o": f32([0.5])}
    chosen = {"y": np.array([[0, 0, 0], [0, 0, 1], [0, 0, 2]])}
    scores = {"scores": f32([[[0.9, 0.8, -0.7]]])}
    suppress = node("NonMaxSuppression", "boxes scores m o", "y")
    yield case("boxes that overlap as much as allowed", [suppress], {"boxes": boxes, **scores}, chosen, weights)


OWN = (statistics, numbers, halves, sums_of_halves, small_results, chosen, plain_recurrent, old_sets, places)
"""The groups of this dialect."""


def run(path: Path, inputs: Mapping[str, Any]) -> Sequence[Any]:
    module = BRIDGE.load(ModelSource(path=path, format="onnx", inputs={}))
    with tempfile.TemporaryDirectory() as folder:
        artifact = BRIDGE.build(module, BuildOptions(), Path(folder) / "built")
        return BRIDGE.open(artifact, "cpu").run(inputs)


if __name__ == "__main__":
    run_all(run, [*OWN, *GROUPS], every=int(sys.argv[1]))
