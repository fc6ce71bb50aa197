"""A Tile of rows of 8 elements reads beyond each row. Needs TVM, onnx and numpy.

Exits with 1 while TVM has the fault, else with 0.
"""

import sys
from pathlib import Path

import numpy as np
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

if "avx2" not in Path("/proc/cpuinfo").read_text():
    sys.exit("The fault is in code for AVX2, which this processor lacks.")

x = np.arange(5 * 8, dtype="float32").reshape(5, 8)
times = np.array([4, 6], "int64")
node = helper.make_node("Tile", ["x", "times"], ["y"])
graph = helper.make_graph(
    [node],
    "tile",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [20, 48])],
    [numpy_helper.from_array(times, "times")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])

library = tvm.compile(from_onnx(model), tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"}))
got = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
expected = np.tile(x, times)
print("expected:", expected[0, :20].astype(int))
print("got:     ", got[0, :20].astype(int))
print(f"{np.mean(got != expected):.0%} of the elements are wrong")
sys.exit(int(not np.array_equal(got, expected)))
