"""Constants apart from the graph that uses them: what makes states cheap to identify, to keep and to hand over.

A pass changes little of a network's hundred megabytes of weights, yet TVM's structural hash reads all of them. Here
a constant is digested once, and in the graph, now a *skeleton*, its digest stands in its place. A skeleton of some
hundred operators is hashed in a millisecond and written in a few hundred kilobytes; constants with equal content share
memory.

Two nodes with equal content stay two nodes, in the hash too, which TVM's own does not tell from one node used twice:
FuseOps does tell them apart, so these are two states.
"""

import ctypes
import hashlib
from collections import Counter
from collections.abc import Callable, Collection

import numpy as np
import tvm
from tvm import relay

from passsearch.dialects.contract import Array

DIGEST_BYTES = 16

_WITHOUT_CONSTANTS = (relay.Var, relay.GlobalVar, relay.TupleGetItem, tvm.ir.Op)
"""Expressions of which no direct part is a constant."""


class Constants:
    """The constants of all states of one process, by digest."""

    def __init__(self) -> None:
        self._held: dict[str, tvm.nd.NDArray] = {}
        self._digests: dict[int, str] = {}  # by the address of a held constant, which stays its own

    def strip(self, module: tvm.IRModule) -> tuple[tvm.IRModule, frozenset[str]]:
        """The module with a placeholder for every constant, and the digests of all of them; they are held from now."""
        used = Counter[str]()

        def placeholder(constant: relay.Constant) -> relay.Constant:
            digest = self._digest(constant.data)
            used[digest] += 1
            content = f"{digest} {used[digest]}".encode()
            return relay.Constant(tvm.nd.array(np.frombuffer(content, "uint8")))

        return _replaced(module, placeholder), frozenset(used)

    def fill(self, skeleton: tvm.IRModule) -> tvm.IRModule:
        """The inverse of ``strip``, types inferred; every constant must be held."""
        filled = _replaced(skeleton, lambda placeholder: relay.Constant(self._held[_digest_in(placeholder)]))
        return relay.transform.InferType()(filled)

    def missing(self, digests: Collection[str]) -> list[str]:
        """Those that are not held."""
        return [digest for digest in digests if digest not in self._held]

    def array(self, digest: str) -> Array:
        """The value of a held constant."""
        value: Array = self._held[digest].numpy()
        return value

    def put(self, digest: str, array: Array) -> None:
        """Hold a constant; numpy lacks some of TVM's types, so the digest names it."""
        if digest not in self._held:
            data = tvm.nd.empty(array.shape, digest.partition("-")[2])
            data.copyfrom(array)
            self._hold(digest, data)

    def keep(self, digests: Collection[str]) -> None:
        """Let all others go."""
        self._held = {digest: data for digest, data in self._held.items() if digest in digests}
        self._digests = {_address(data): digest for digest, data in self._held.items()}

    def _digest(self, data: tvm.nd.NDArray) -> str:
        known = self._digests.get(_address(data))
        if known is not None:
            return known
        array = data.numpy()
        hasher = hashlib.blake2b(f"{data.dtype}{array.shape}".encode(), digest_size=DIGEST_BYTES)
        hasher.update(np.ascontiguousarray(array).data)
        digest = f"{hasher.hexdigest()}-{data.dtype}"
        if digest not in self._held:
            self._hold(digest, data)
        return digest

    def _hold(self, digest: str, data: tvm.nd.NDArray) -> None:
        self._held[digest] = data
        self._digests[_address(data)] = digest


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


def _address(data: tvm.nd.NDArray) -> int:
    return ctypes.addressof(data.handle.contents)


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
