"""Compile a module with ``passsearch.pipeline`` in an interpreter that has TVM: ``compile_by_pipeline.py PACKAGES``."""

import sys
from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

# After the packages of this interpreter, so that TVM keeps its own versions of what both have.
sys.path.append(sys.argv[1])

import passsearch
import passsearch.errors

TARGET = "llvm"
weights = np.random.default_rng(0).standard_normal((64, 48)).astype("float32")
builder = relax.BlockBuilder()
data = relax.Var("data", relax.TensorType((8, 64), "float32"))
with builder.function("main", [data]):
    with builder.dataflow():
        product = builder.emit(relax.op.matmul(data, relax.const(weights)))
        result = builder.emit_output(relax.op.nn.relu(product))
    builder.emit_func_output(result)
module = builder.get()

transform = passsearch.pipeline("schedule-cpu")
with tvm.target.Target(TARGET):
    assert "T.parallel" in transform(module).script(), "ScheduleCPU scheduled nothing"
compiled = tvm.compile(module, TARGET, relax_pipeline=transform)
machine = relax.VirtualMachine(compiled, tvm.cpu())
values = np.random.default_rng(1).standard_normal((8, 64)).astype("float32")
actual = machine["main"](tvm.runtime.tensor(values)).numpy()
np.testing.assert_allclose(actual, np.maximum(values @ weights, 0), rtol=1e-4, atol=1e-4)

written = passsearch.pipeline("LegalizeOps,FuseTIR,StaticPlanBlockMemory")
assert tvm.compile(module, TARGET, relax_pipeline=written) is not None


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except (passsearch.errors.UserError, ValueError) as error:
        return str(error)
    raise AssertionError("nothing was refused")


assert "did you mean `schedule-cpu`?" in refusal(lambda: passsearch.pipeline("schedule-cpuu"))
assert "NoSuchPass" in refusal(lambda: passsearch.pipeline("NoSuchPass,LegalizeOps"))
assert "give tvm.compile its target" in refusal(lambda: transform(module))
