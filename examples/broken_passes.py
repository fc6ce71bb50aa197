"""Passes of Relax that go wrong on purpose, each in another way; docs/guide/debugging.md finds out how.

Run one with
``passsearch apply zoo:resnet_tiny --toolchain relax --catalog examples/broken_passes.yaml --pipeline Raises``.
"""

import ctypes
import time

import tvm
from tvm import relax


def raises() -> tvm.ir.transform.Pass:
    """Return a pass that raises an exception."""
    return _module_pass("Raises", lambda module: {"NCHW": module}["NHWC"])


def crashes() -> tvm.ir.transform.Pass:
    """Return a pass that reads memory at address 0."""
    return _module_pass("Crashes", lambda module: ctypes.string_at(0) and module)


def hangs() -> tvm.ir.transform.Pass:
    """Return a pass that does not end."""
    return _module_pass("Hangs", lambda module: time.sleep(1e6) or module)


def forgets() -> tvm.ir.transform.Pass:
    """Return a pass that makes wrong outputs: it takes away all activations."""
    return _module_pass("Forgets", lambda module: tvm.IRModule({"main": _Forget().visit_expr(module["main"])}))


@relax.expr_functor.mutator
class _Forget(relax.PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Replace relu(x) by x."""
        new = self.visit_expr_post_order(call)
        return new.args[0] if getattr(new.op, "name", "") == "relax.nn.relu" else new


def _module_pass(name: str, rewrite: object) -> tvm.ir.transform.Pass:
    return tvm.ir.transform.module_pass(lambda module, _: rewrite(module), opt_level=0, name=name)
