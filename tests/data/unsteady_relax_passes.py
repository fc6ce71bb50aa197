# ruff: noqa: N805 -- kernels in TVMScript have no `self`
"""Passes of Relax that make a network wrong only after some calls, or in the memory of its input."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir, tirx


@ir.ir_module
class _Kernels:
    @tirx.prim_func
    def stops(
        x: tirx.Buffer((4, 16), "float32"), calls: tirx.Buffer((1,), "int32"), y: tirx.Buffer((4, 16), "float32")
    ):
        tirx.func_attr({"tirx.noalias": True, "global_symbol": "stops"})
        calls[0] = calls[0] + 1
        if calls[0] < 200:
            for i, j in tirx.grid(4, 16):
                y[i, j] = x[i, j] * tirx.float32(2)

    @tirx.prim_func
    def clears(
        x: tirx.Buffer((4, 16), "float32"), calls: tirx.Buffer((1,), "int32"), y: tirx.Buffer((4, 16), "float32")
    ):
        tirx.func_attr({"tirx.noalias": True, "global_symbol": "clears"})
        for i, j in tirx.grid(4, 16):
            y[i, j] = x[i, j] * tirx.float32(2)
        for i, j in tirx.grid(4, 16):
            x[i, j] = tirx.float32(0)


def _replace(kernel: str) -> tvm.ir.transform.Pass:
    @tvm.transform.module_pass(opt_level=0, name=kernel)
    def replace(module: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        (parameter,) = module["main"].params
        x = relax.Var(str(parameter.name), parameter.ty)
        builder = relax.BlockBuilder()
        with builder.function("main", [x]):
            with builder.dataflow():
                function = builder.add_func(_Kernels[kernel], kernel)
                arguments = [x, relax.const(np.zeros(1, "int32"))]
                called = relax.call_tir(function, arguments, relax.TensorType((4, 16), "float32"))
                y = builder.emit_output(builder.emit(called))
            builder.emit_func_output(y)
        return builder.get()

    return replace


def stops() -> tvm.ir.transform.Pass:
    """Return a pass after which the network stops computing after 200 calls."""
    return _replace("stops")


def clears() -> tvm.ir.transform.Pass:
    """Return a pass after which the network overwrites its input."""
    return _replace("clears")
