"""A Resize by scales of height and width before the channels resizes the last two axes. Needs TVM, onnx and numpy.

Exits with 1 while TVM has the fault, else with 0.
"""

import sys

import numpy as np
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

x = np.arange(2 * 2 * 3, dtype="float32").reshape(1, 2, 2, 3)
scales = np.array([1, 2, 2, 1], "float32")
node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")
graph = helper.make_graph(
    [node],
    "resize",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 4, 3])],
    [numpy_helper.from_array(scales, "scales")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])

library = tvm.compile(from_onnx(model), tvm.target.Target({"kind": "llvm"}))
got = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
expected = x.repeat(2, axis=1).repeat(2, axis=2)
print("expected: an output of shape", expected.shape)
print("got:      an output of shape", got.shape)
sys.exit(int(got.shape != expected.shape or not np.array_equal(got, expected)))
