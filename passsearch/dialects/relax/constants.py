"""Constants apart from the module that uses them; see ``dialects/relay/constants.py`` for what that is good for.

TVM's own structural map does the walking, so a module of a thousand bindings is stripped in a millisecond.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from passsearch.dialects.constant_table import HeldConstants
from passsearch.dialects.contract import Array


class Constants(HeldConstants):
    """The constants of all states of one process, by digest."""

    def strip(self, module: tvm.IRModule) -> tuple[tvm.IRModule, frozenset[str]]:
        """The module with a placeholder for every constant, and the digests of all of them; they are held from now."""
        used = Counter[str]()

        def placeholder(constant: GenericConst) -> GenericConst:
            digest = self.digest(constant.value)
            used[digest] += 1
            content = f"{digest} {used[digest]}".encode()
            return GenericConst(tvm.runtime.tensor(np.frombuffer(content, "uint8")), constant.ty)

        return replaced(module, placeholder), frozenset(used)

    def fill(self, skeleton: tvm.IRModule) -> tvm.IRModule:
        """The inverse of ``strip``; every constant must be held."""
        return replaced(skeleton, lambda placeholder: GenericConst(self.held(_digest_in(placeholder)), placeholder.ty))

    def address(self, data: tvm.runtime.Tensor) -> int:
        """Of the object that TVM counts references to."""
        return int(data.__chandle__())

    def tensor(self, array: Array, dtype: str) -> tvm.runtime.Tensor:
        """A copy."""
        data = tvm.runtime.empty(array.shape, dtype)
        data.copyfrom(array)
        return data


def constant_uses(module: tvm.IRModule) -> list[int]:
    """The constant nodes as they are met, numbered, in one order for equal IRs."""
    numbers: dict[int, int] = {}
    uses: list[int] = []

    def visit(constant: GenericConst) -> None:
        uses.append(numbers.setdefault(constant.__chandle__(), len(numbers)))

    for _, function in module.functions_items():
        tvm_ffi.structural_walk(function, (GenericConst, visit))
    return uses


def replaced(module: tvm.IRModule, replace: Callable[[GenericConst], GenericConst]) -> tvm.IRModule:
    """The module with every array among its constants replaced, one that is used twice by one."""
    known: dict[int, GenericConst] = {}

    def once(constant: GenericConst) -> GenericConst:
        if not isinstance(constant.value, tvm.runtime.Tensor):
            return constant
        node = constant.__chandle__()
        if node not in known:
            known[node] = replace(constant)
        return known[node]

    result = module.clone()
    for name, function in module.functions_items():
        if isinstance(function, relax.Function):
            result.update_func(name, tvm_ffi.structural_map(function, (GenericConst, once)))
    return result


def _digest_in(placeholder: GenericConst) -> str:
    content: bytes = placeholder.value.numpy().tobytes()
    return content.decode().partition(" ")[0]
