"""A Relu makes 0 of NaN, so that an output looks sound. Needs TVM, onnx and numpy.

Exits with 1 while TVM has the fault, else with 0.
"""

import sys

import numpy as np
import tvm
from onnx import TensorProto, helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

x = np.array([-1, 4], "float32")
nodes = [helper.make_node("Sqrt", ["x"], ["root"]), helper.make_node("Relu", ["root"], ["y"])]
graph = helper.make_graph(
    nodes,
    "relu",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])

library = tvm.compile(from_onnx(model), tvm.target.Target({"kind": "llvm"}))
got = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
expected = np.array([np.nan, 2], "float32")
print("expected:", expected)
print("got:     ", got)
sys.exit(int(not np.array_equal(got, expected, equal_nan=True)))
