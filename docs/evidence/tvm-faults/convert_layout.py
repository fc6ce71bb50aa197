"""After FoldBatchnormToConv2D, ConvertLayout ends the process by SIGSEGV. Needs TVM, onnx and numpy.

Exits with 1 while TVM has the fault, else with 0.
"""

import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tvm.relax import transform
from tvm.relax.frontend.onnx import from_onnx

values = {
    **{name: np.ones(2, "float32") for name in ("scale", "shift", "mean", "variance")},
    "kernel": np.ones((2, 2, 1, 1), "float32"),
}
nodes = [
    helper.make_node("Conv", ["x", "kernel"], ["sums"]),
    helper.make_node("BatchNormalization", ["sums", "scale", "shift", "mean", "variance"], ["y"]),
]
graph = helper.make_graph(
    nodes,
    "norm",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 3])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 3, 3])],
    [numpy_helper.from_array(value, name) for name, value in values.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])

child = os.fork()  # so that a crash ends the child alone
if child == 0:
    folded = transform.FoldBatchnormToConv2D()(from_onnx(model))
    transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "HWIO"]})(folded)
    os._exit(0)
status = os.waitpid(child, 0)[1]
print("expected: a network in NHWC")
print("got:     ", f"signal {status}" if status else "a network in NHWC")
sys.exit(int(status != 0))
