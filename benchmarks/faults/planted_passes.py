"""Passes of Relax with a fault each, for ``reduced_faults.py``."""

import ctypes
from collections.abc import Callable

import tvm
from tvm import relax


def refuses(operator: str = "relax.nn.softmax") -> tvm.ir.transform.Pass:
    """Return a pass that refuses a network with an operator."""

    def refuse(call: relax.Call) -> relax.Expr:
        raise ValueError(f"no rule for {operator}")

    return _at(operator, refuse)


def crashes(operator: str = "relax.nn.conv2d") -> tvm.ir.transform.Pass:
    """Return a pass that reads memory at address 0 where a convolution has groups."""

    def crash(call: relax.Call) -> relax.Expr:
        return call if int(call.attrs.groups) == 1 else ctypes.string_at(0)

    return _at(operator, crash)


def drops(operator: str = "relax.nn.relu") -> tvm.ir.transform.Pass:
    """Return a pass that replaces an operator by its first operand."""
    return _at(operator, lambda call: call.args[0])


def swaps(operator: str = "relax.subtract") -> tvm.ir.transform.Pass:
    """Return a pass that swaps the operands of an operator where their types are equal."""

    def swap(call: relax.Call) -> relax.Expr:
        first, second = call.args
        return relax.Call(call.op, [second, first])

    return _at(operator, swap)


def repeats(operator: str = "relax.nn.relu") -> tvm.ir.transform.Pass:
    """Return a pass after which every activation goes through thirty sines first; its share of the result is 0."""

    def repeat(call: relax.Call) -> relax.Expr:
        value = call.args[0]
        for _ in range(30):
            value = relax.op.sin(value)
        nothing = relax.op.multiply(value, relax.const(0.0, "float32"))
        return relax.Call(call.op, [relax.op.add(call.args[0], nothing)])

    return _at(operator, repeat)


def _at(operator: str, change: Callable[[relax.Call], relax.Expr]) -> tvm.ir.transform.Pass:
    """Return a pass that changes every call of an operator."""

    @relax.expr_functor.mutator
    class Change(relax.PyExprMutator):
        def visit_call_(self, call: relax.Call) -> relax.Expr:
            new = self.visit_expr_post_order(call)
            return change(new) if getattr(new.op, "name", "") == operator else new

    def run(module: tvm.IRModule, _: object) -> tvm.IRModule:
        # The importer may have made kernels already.
        changed = tvm.IRModule(dict(module.functions.items()))
        changed.update_func(module.get_global_var("main"), Change().visit_expr(module["main"]))
        return changed

    return tvm.ir.transform.module_pass(run, opt_level=0, name="Planted")
