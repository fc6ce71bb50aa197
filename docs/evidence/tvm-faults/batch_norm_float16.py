"""A BatchNormalization of float16 has an output of float32, which a Conv of float16 refuses. Needs TVM, onnx and numpy.

Exits with 1 while TVM has the fault, else with 0.
"""

import sys

import numpy as np
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm.relax.frontend.onnx import from_onnx

values = {
    **{name: np.ones(2, "float16") for name in ("scale", "shift", "mean", "variance")},
    "kernel": np.ones((2, 2, 1, 1), "float16"),
}
nodes = [
    helper.make_node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["norm"]),
    helper.make_node("Conv", ["norm", "kernel"], ["y"]),
]
graph = helper.make_graph(
    nodes,
    "norm",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 2, 3, 3])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [1, 2, 3, 3])],
    [numpy_helper.from_array(value, name) for name, value in values.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])

print("expected: a library")
try:
    tvm.compile(from_onnx(model), tvm.target.Target({"kind": "llvm"}))
except TypeError as error:
    print(f"got:      {type(error).__name__}: {str(error).strip().splitlines()[-1][:300]}")
    sys.exit(1)
print("got:      a library")
