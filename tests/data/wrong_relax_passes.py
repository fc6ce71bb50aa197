"""Passes of Relax that make a network wrong where a check of few ordinary inputs does not see it."""

# ruff: noqa: N805

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I  # noqa: N812
from tvm.script import tirx as T  # noqa: N812


def _rewrite(name, operator, change):
    """Return a pass that puts what ``change`` returns in the place of each call of an operator."""

    @relax.expr_functor.mutator
    class Rewrite(relax.PyExprMutator):
        def visit_call_(self, call):
            new = super().visit_call_(call)
            return change(self.builder_, new) if getattr(new.op, "name", "") == operator else new

    def run(module, _):
        changed = Rewrite(module)
        changed.builder_.update_func(module.get_global_var("main"), changed.visit_expr(module["main"]))
        return changed.builder_.get()

    return tvm.transform.module_pass(run, opt_level=0, name=name)


def _number(value, like):
    return relax.const(value, str(like.ty.dtype).removeprefix("T."))


def no_scores():
    """Zeros in place of the last part of each concatenation: a detector without its class head."""

    def change(_, call):
        *kept, lost = call.args[0]
        return relax.op.concat([*kept, relax.op.multiply(lost, _number(0, lost))], axis=int(call.attrs.axis))

    return _rewrite("NoScores", "relax.concat", change)


def signed():
    """Bytes read with a sign."""
    return _rewrite(
        "Signed", "relax.astype", lambda _, call: relax.op.astype(relax.op.astype(call.args[0], "int8"), "float32")
    )


def louder():
    """All values 5 % too large."""
    return _rewrite("Louder", "relax.add", lambda _, call: relax.op.multiply(call, _number(1.05, call)))


def _once(change, place):
    """Return a function that changes the call of this number, and leaves all others as they are."""
    seen = []

    def change_one(builder, call):
        seen.append(call)
        return change(call) if len(seen) == place + 1 else call

    return change_one


def heavy_weight():
    """The weights of the second product 2 % too large."""

    def change(call):
        data, weight = call.args
        values = (weight.value.numpy().astype("float32") * 1.02).astype(str(weight.value.dtype))
        return relax.op.matmul(data, relax.const(values))

    return _rewrite("HeavyWeight", "relax.matmul", _once(change, 1))


def shifted_zero():
    """The zero point of one layer's data off by one."""

    def change(call):
        data, scale, zero = call.args
        moved = relax.const(zero.value.numpy() + np.array(1, str(zero.value.dtype)))
        return relax.op.dequantize(data, scale, moved, axis=call.attrs.axis, out_dtype="float32")

    return _rewrite("ShiftedZero", "relax.dequantize", _once(change, 2))


def wide_scale():
    """The scale of one layer's data 2 % too large."""

    def change(call):
        data, scale, zero = call.args
        wide = relax.const(scale.value.numpy() * np.float32(1.02))
        return relax.op.dequantize(data, wide, zero, axis=call.attrs.axis, out_dtype="float32")

    return _rewrite("WideScale", "relax.dequantize", _once(change, 2))


def few_rows():
    """A table of which two rows are read."""

    def change(_, call):
        table, ids = call.args
        return relax.op.take(table, relax.op.minimum(ids, _number(1, ids)), axis=0)

    return _rewrite("FewRows", "relax.take", change)


@I.ir_module
class _Kernels:
    @T.prim_func
    def stopping(x: T.Buffer((16, 128), "float32"), count: T.Buffer((1,), "int32"), y: T.Buffer((16, 128), "float32")):
        T.func_attr({"tirx.noalias": True, "global_symbol": "stopping"})
        count[0] = count[0] + 1
        if count[0] < 40:
            for i, j in T.grid(16, 128):
                y[i, j] = -x[i, j]

    @T.prim_func
    def eating(x: T.Buffer((16, 128), "float32"), count: T.Buffer((1,), "int32"), y: T.Buffer((16, 128), "float32")):
        T.func_attr({"tirx.noalias": True, "global_symbol": "eating"})
        count[0] = count[0] + 1
        for i, j in T.grid(16, 128):
            y[i, j] = -x[i, j]
        for i, j in T.grid(16, 128):
            x[i, j] = T.float32(0)


def _kernel(name):
    def change(builder, call):
        place = builder.add_func(_Kernels[name.lower()], name.lower())
        arguments = [call.args[0], relax.const(np.zeros(1, "int32"))]
        return relax.call_tir(place, arguments, relax.TensorType((16, 128), "float32"))

    return _rewrite(name, "relax.negative", change)


def stopping():
    """A kernel that computes nothing any more after some calls."""
    return _kernel("Stopping")


def eating():
    """A kernel that clears its input."""
    return _kernel("Eating")
