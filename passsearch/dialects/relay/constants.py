"""Constants apart from the graph that uses them: what makes states cheap to identify, to keep and to hand over.

A pass changes little of a network's hundred megabytes of weights, yet TVM's structural hash reads all of them. Here
a constant is digested once, and in the graph, now a *skeleton*, its digest stands in its place. A skeleton of some
hundred operators is hashed in a millisecond and written in a few hundred kilobytes; constants with equal content share
memory.

Two nodes with equal content stay two nodes, in the hash too, which TVM's own does not tell from one node used twice:
FuseOps does tell them apart, so these are two states.
"""

import ctypes
from collections import Counter
from collections.abc import Callable, Collection

import numpy as np
import tvm
from tvm import relay

from passsearch.dialects.constant_table import HeldConstants
from passsearch.dialects.contract import Array

_WITHOUT_CONSTANTS = (relay.Var, relay.GlobalVar, relay.TupleGetItem, tvm.ir.Op)
"""Expressions of which no direct part is a constant."""


class Constants(HeldConstants):
    """The constants of all states of one process, by digest."""

    def strip(self, module: tvm.IRModule) -> tuple[tvm.IRModule, frozenset[str]]:
        """The module with a placeholder for every constant, and the digests of all of them; they are held from now."""
        used = Counter[str]()

        def placeholder(constant: relay.Constant) -> relay.Constant:
            digest = self.digest(constant.data)
            used[digest] += 1
            content = f"{digest} {used[digest]}".encode()
            return relay.Constant(tvm.nd.array(np.frombuffer(content, "uint8")))

        return _replaced(module, placeholder), frozenset(used)

    def fill(self, skeleton: tvm.IRModule) -> tvm.IRModule:
        """The inverse of ``strip``, types inferred; every constant must be held."""
        filled = _replaced(skeleton, lambda placeholder: relay.Constant(self.held(_digest_in(placeholder))))
        return relay.transform.InferType()(filled)

    def address(self, data: tvm.nd.NDArray) -> int:
        """Of its memory."""
        return ctypes.addressof(data.handle.contents)

    def tensor(self, array: Array, dtype: str) -> tvm.nd.NDArray:
        """A copy."""
        data = tvm.nd.empty(array.shape, dtype)
        data.copyfrom(array)
        return data


def constant_uses(module: tvm.IRModule) -> list[list[int]] | None:
    """The constant nodes each expression stands on, numbered as they are met, in one order for equal IRs.

    Far cheaper than ``strip``, as nothing is built. ``None`` where there is anything that may use constants otherwise.
    """
    numbers: dict[relay.Constant, int] = {}
    uses: list[list[int]] = []
    known = all(isinstance(function, relay.Function) for function in module.functions.values())

    def visit(expr: relay.Expr) -> None:
        nonlocal known
        if isinstance(expr, relay.Constant):
            numbers[expr] = len(numbers)
        elif known and not isinstance(expr, _WITHOUT_CONSTANTS):
            parts = _parts(expr)
            known = parts is not None
            uses.append([numbers[part] for part in parts or () if isinstance(part, relay.Constant)])

    for _, function in sorted(module.functions.items(), key=lambda item: item[0].name_hint) if known else ():
        relay.analysis.post_order_visit(function, visit)
    return uses if known else None


def _parts(expr: relay.Expr) -> Collection[relay.Expr] | None:
    """The direct parts of an expression that may be constants; ``None`` of one not known here."""
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


def _replaced(module: tvm.IRModule, replace: Callable[[relay.Constant], relay.Constant]) -> tvm.IRModule:
    replacer = _Replacer(replace)
    fields = ("type_definitions", "attrs", "global_infos")  # what there is grew with TVM's releases
    functions = {
        variable: replacer.visit(function) if isinstance(function, relay.Function) else function
        for variable, function in sorted(module.functions.items(), key=lambda item: item[0].name_hint)
    }
    return tvm.IRModule(functions, *(getattr(module, field) for field in fields if hasattr(module, field)))
