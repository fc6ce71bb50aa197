"""A user's own pass: a module that imports only TVM and numpy, and a YAML entry that refers to it.

It is a pass of Relay. Run it with
``passsearch tune zoo:resnet_tiny --toolchain relay --catalog examples/own_pass.yaml --additional MaximumToRelu``.
"""

import tvm
from tvm import relay


class _Rewrite(relay.ExprMutator):
    def visit_call(self, call: relay.Call) -> relay.Expr:
        """Replace max(x, 0) by relu(x)."""
        new = super().visit_call(call)
        is_maximum = getattr(call.op, "name", "") == "maximum"
        zero = is_maximum and isinstance(new.args[1], relay.Constant) and not new.args[1].data.numpy().any()
        return relay.nn.relu(new.args[0]) if zero else new


def maximum_to_relu() -> tvm.ir.transform.Pass:
    """Return the pass; the field `factory` in own_pass.yaml names this function."""

    @tvm.ir.transform.module_pass(opt_level=0, name="MaximumToRelu")
    def rewrite(module: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        # Return a new module and leave the argument unchanged: other candidates continue from it.
        return tvm.IRModule({"main": _Rewrite().visit(module["main"])})

    return rewrite
