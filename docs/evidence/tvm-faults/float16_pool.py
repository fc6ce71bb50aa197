"""A GlobalAveragePool of float16 adds in float16, whose sums of ones end at 2,048. Needs TVM, onnx and numpy.

Exits with 1 while TVM has the fault, else with 0.
"""

import sys

import numpy as np
import tvm
from onnx import TensorProto, helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

x = np.ones((1, 1, 64, 64), "float16")
node = helper.make_node("GlobalAveragePool", ["x"], ["y"])
graph = helper.make_graph(
    [node],
    "pool",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT16, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [1, 1, 1, 1])],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])

library = tvm.compile(from_onnx(model), tvm.target.Target({"kind": "llvm"}))
got = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
print("expected:", x.mean(dtype="float32"))
print("got:     ", got.item())
sys.exit(int(abs(got.item() - 1) > 0.01))
