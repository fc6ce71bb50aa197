"""A pass of one's own: a module that imports TVM and numpy only, and a YAML entry that names it.

Run ``passsearch tune zoo:resnet_tiny --catalog examples/own_pass.yaml --additional MaximumToRelu``.
"""

import tvm
from tvm import relay


class _Rewrite(relay.ExprMutator):
    def visit_call(self, call: relay.Call) -> relay.Expr:
        """max(x, 0) becomes relu(x)."""
        new = super().visit_call(call)
        is_maximum = getattr(call.op, "name", "") == "maximum"
        zero = is_maximum and isinstance(new.args[1], relay.Constant) and not new.args[1].data.numpy().any()
        return relay.nn.relu(new.args[0]) if zero else new


def maximum_to_relu() -> tvm.ir.transform.Pass:
    """The pass the catalog's factory names."""

    @tvm.ir.transform.module_pass(opt_level=0, name="MaximumToRelu")
    def rewrite(module: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        # A new module: the one that came in is a state others still need.
        return tvm.IRModule({"main": _Rewrite().visit(module["main"])})

    return rewrite
