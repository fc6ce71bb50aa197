"""Compile an ONNX network and call it in this process, which has the compiler: ``call_networks.py PACKAGES FOLDER``.

PACKAGES is a folder with what passsearch needs, which comes after this interpreter's own packages.
"""

import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path

packages, folder = sys.argv[1:]
sys.path.append(packages)

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import passsearch  # noqa: E402
from passsearch.errors import UserError  # noqa: E402

rng = np.random.default_rng(0)
weight = rng.standard_normal((6, 4), "f4")
LIMIT = 1e-5


def network() -> onnx.ModelProto:
    """A product with an activation; further outputs are an input itself and a weight."""
    nodes = [
        helper.make_node("MatMul", ["left input", "w"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["relu"]),
        helper.make_node("Identity", ["bias"], ["same"]),
        helper.make_node("Identity", ["w"], ["weight"]),
    ]
    inputs = [("left input", [3, 6]), ("bias", [3, 4])]
    outputs = [("relu", [3, 4]), ("same", [3, 4]), ("weight", [6, 4])]
    values = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in each] for each in (inputs, outputs)]
    graph = helper.make_graph(nodes, "small", *values, [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def check(outputs: dict[str, np.ndarray], left: np.ndarray, bias: np.ndarray) -> None:
    assert list(outputs) == ["relu", "same", "weight"]
    assert np.allclose(outputs["relu"], np.maximum(left @ weight + bias, 0), atol=LIMIT)
    assert np.array_equal(outputs["same"], bias) and np.array_equal(outputs["weight"], weight)


def error_of(kind: type[Exception], call: Callable[[], object]) -> str:
    """Return the text of the error that a call raises."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")


def refusal(*arrays: object, **named: object) -> str:
    return error_of(passsearch.InputError, lambda: compiled(*arrays, **named))


left, bias = rng.standard_normal((3, 6), "f4"), rng.standard_normal((3, 4), "f4")
compiled = passsearch.compile(network(), rivals=[])
assert compiled["toolchain"] == "this", compiled["toolchain"]
assert "ScheduleCPU" in compiled.pipeline, compiled
assert compiled.expected["kind"] == "source" and 0 < compiled.expected["tolerance"] < 1e-3, compiled.expected
assert compiled.report.startswith("Compiled by") and repr(compiled) == compiled.report

first = compiled(left, bias)
check(first, left, bias)
check(compiled({"bias": bias, "left input": left}), left, bias)
check(compiled(left, bias=bias), left, bias)

# What is returned belongs to the caller: neither a later call nor a write to it changes anything else.
kept = {name: output.copy() for name, output in first.items()}
for output in compiled(-left, bias * 2).values():
    output += 1
check(first, left, bias)
assert all(np.array_equal(first[name], kept[name]) for name in kept)
check(compiled(left, bias), left, bias)

takes = "; the network takes `left input` float32[3, 6], `bias` float32[3, 4]"
assert refusal(left) == f"`bias` is missing{takes}"
assert refusal(left, bias, bias) == f"3 arrays are too many{takes}"
assert refusal(left, bias=bias, mask=bias).startswith("No input `mask`")
assert refusal(left[:2], bias).startswith("`left input` must be float32[3, 6], and is float32[2, 6]; call it once for")
assert refusal(left.astype("f8"), bias).startswith("`left input` must be float32[3, 6], and is float64[3, 6]; convert")
assert refusal(None, bias).startswith("`left input` must be float32[3, 6], and is None")


def call_often(number: int) -> None:
    for turn in range(50):
        own = left * (number + turn)
        check(compiled(own, bias), own, bias)


failures: list[BaseException] = []
threading.excepthook = lambda each: failures.append(each.exc_value)
threads = [threading.Thread(target=call_often, args=[number]) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures

saved = compiled.save(Path(folder) / "deploy")
again = passsearch.load(saved)
check(again(left, bias), left, bias)
assert again.pipeline == compiled.pipeline and again["folder"] == str(saved)

temporary = Path(compiled["folder"])
assert temporary.exists()
compiled = None
gc.collect()
assert not temporary.exists(), "the temporary folder outlives the network"
check(again(left, bias), left, bias)


def mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


assert mapped(saved)
again = None
gc.collect()
assert not mapped(saved), "the library of a deleted network is still mapped"

with (saved / "built" / "network.so").open("r+b") as file:
    file.seek(4096)
    file.write(b"damaged")
assert "has changed since it was made" in error_of(UserError, lambda: passsearch.load(saved))
