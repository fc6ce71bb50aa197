"""Relay's constants, stored apart from the graphs that use them.

A pass changes little of a network's hundred megabytes of weights, yet TVM's structural hash reads all of them. Here
every constant is hashed once, and the graph holds its digest instead; such a graph is called a *skeleton*. A skeleton
of some hundred operators is hashed in a millisecond and written in a few hundred kilobytes, and constants with equal
content share memory. This makes states cheap to identify, to store and to send to other workers.

Two constant nodes with equal content remain two nodes in the skeleton. TVM's own hash does not tell them from one node
used twice, but FuseOps treats the two graphs differently, so they are two states.
"""

import ctypes
from collections import Counter
from collections.abc import Callable, Collection

import numpy as np
import tvm
from tvm import relay

from passsearch.dialects.constant_table import BaseConstantTable
from passsearch.dialects.contract import Array

_WITHOUT_CONSTANTS = (relay.Var, relay.GlobalVar, relay.TupleGetItem, tvm.ir.Op)
"""Kinds of expressions without a constant among their direct parts."""


class Constants(BaseConstantTable):
    """The constants of all states of one process, by digest."""

    def strip(self, module: tvm.IRModule) -> tuple[tvm.IRModule, frozenset[str]]:
        """Store the constants of a module; return the module with placeholders for them, and their digests."""
        uses = Counter[str]()

        def placeholder(constant: relay.Constant) -> relay.Constant:
            digest = self.digest(constant.data)
            uses[digest] += 1
            # The number keeps two nodes of equal content different.
            content = f"{digest} {uses[digest]}".encode()
            return relay.Constant(tvm.nd.array(np.frombuffer(content, "uint8")))

        return _replace_constants(module, placeholder), frozenset(uses)

    def fill(self, skeleton: tvm.IRModule) -> tvm.IRModule:
        """Return the module of a skeleton, types inferred; every constant must be in the table."""
        filled = _replace_constants(
            skeleton, lambda placeholder: relay.Constant(self.compiler_tensor(_digest_in(placeholder)))
        )
        return relay.transform.InferType()(filled)

    def address(self, data: tvm.nd.NDArray) -> int:
        """Return the address of the array's C structure."""
        return ctypes.addressof(data.handle.contents)

    def tensor(self, array: Array, dtype: str) -> tvm.nd.NDArray:
        """Return a compiler array with a copy of the values."""
        data = tvm.nd.empty(array.shape, dtype)
        data.copyfrom(array)
        return data

    def view(self, array: Array) -> tvm.nd.NDArray:
        """Return a compiler array on the memory of ``array``."""
        return tvm.nd.from_dlpack(array.__dlpack__())


def constant_uses(module: tvm.IRModule) -> list[list[int]] | None:
    """Return for every expression the numbers of the constant nodes it uses; equal IRs have equal lists.

    Constant nodes are numbered in visiting order. This is far cheaper than ``strip``, because it builds no graph.
    ``None`` if the module has an expression that may use constants in a form this function does not know.
    """
    numbers: dict[relay.Constant, int] = {}
    uses: list[list[int]] = []
    is_complete = all(isinstance(function, relay.Function) for function in module.functions.values())

    def visit(expr: relay.Expr) -> None:
        nonlocal is_complete
        if isinstance(expr, relay.Constant):
            numbers[expr] = len(numbers)
        elif is_complete and not isinstance(expr, _WITHOUT_CONSTANTS):
            parts = _parts(expr)
            is_complete = parts is not None
            uses.append([numbers[part] for part in parts or () if isinstance(part, relay.Constant)])

    # Sorted, so that the functions of equal modules are visited in one order.
    for _, function in sorted(module.functions.items(), key=lambda item: item[0].name_hint) if is_complete else ():
        relay.analysis.post_order_visit(function, visit)
    return uses if is_complete else None


def _parts(expr: relay.Expr) -> Collection[relay.Expr] | None:
    """Return the direct parts of an expression that may be constants; ``None`` for an unknown kind of expression."""
    if isinstance(expr, relay.Call):
        arguments: Collection[relay.Expr] = expr.args
        return arguments
    if isinstance(expr, relay.Tuple):
        fields: Collection[relay.Expr] = expr.fields
        return fields
    if isinstance(expr, relay.Function):
        return (expr.body,)
    return (expr.value, expr.body) if isinstance(expr, relay.Let) else None


def _digest_in(placeholder: relay.Constant) -> str:
    content: bytes = placeholder.data.numpy().tobytes()
    return content.decode().partition(" ")[0]


class _Replacer(relay.ExprMutator):  # type: ignore[misc]
    def __init__(self, replace: Callable[[relay.Constant], relay.Constant]) -> None:
        super().__init__()
        self._replace = replace

    def visit_constant(self, constant: relay.Constant) -> relay.Constant:
        return self._replace(constant)


def _replace_constants(module: tvm.IRModule, replace: Callable[[relay.Constant], relay.Constant]) -> tvm.IRModule:
    replacer = _Replacer(replace)
    fields = ("type_definitions", "attrs", "global_infos")  # later TVM releases have more of these fields
    functions = {
        variable: replacer.visit(function) if isinstance(function, relay.Function) else function
        for variable, function in sorted(module.functions.items(), key=lambda item: item[0].name_hint)
    }
    return tvm.IRModule(functions, *(getattr(module, field) for field in fields if hasattr(module, field)))
