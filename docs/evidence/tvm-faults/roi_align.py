"""A RoiAlign moves boxes by half a pixel before it scales them, not afterwards. Needs TVM, onnx and numpy.

Exits with 1 while TVM has the fault, else with 0.
"""

import sys

import numpy as np
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

x = np.broadcast_to(np.arange(8, dtype="float32"), (1, 1, 8, 8)).copy()  # each element is its column
boxes, images = np.array([[2, 2, 6, 6]], "float32"), np.array([0], "int64")
node = helper.make_node(
    "RoiAlign",
    ["x", "boxes", "images"],
    ["y"],
    output_height=2,
    output_width=2,
    sampling_ratio=2,
    spatial_scale=0.5,
)
graph = helper.make_graph(
    [node],
    "boxes",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 2, 2])],
    [numpy_helper.from_array(boxes, "boxes"), numpy_helper.from_array(images, "images")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)])

library = tvm.compile(from_onnx(model), tvm.target.Target({"kind": "llvm"}))
got = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
# Columns 2 * 0.5 - 0.5 to 6 * 0.5 - 0.5 in two bins, whose middles are at 1 and 2.
expected = np.array([1, 2], "float32")
print("expected:", expected)
print("got:     ", got[0, 0, 0])
sys.exit(int(not np.allclose(got, expected, atol=1e-5)))
