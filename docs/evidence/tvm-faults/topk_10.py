"""A TopK of operator set 10, whose number is an input, gives one element only. Needs TVM, onnx and numpy.

Exits with 1 while TVM has the fault, else with 0.
"""

import sys

import numpy as np
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

x = np.array([[3, 1, 2, 5]], "float32")
node = helper.make_node("TopK", ["x", "number"], ["y", "places"])
graph = helper.make_graph(
    [node],
    "top",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3]),
        helper.make_tensor_value_info("places", TensorProto.INT64, [1, 3]),
    ],
    [numpy_helper.from_array(np.array([3], "int64"), "number")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)])

library = tvm.compile(from_onnx(model), tvm.target.Target({"kind": "llvm"}))
got = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(x))[0].numpy()
expected = np.array([[5, 3, 2]], "float32")
print("expected:", expected)
print("got:     ", got)
sys.exit(int(not np.array_equal(got, expected)))
