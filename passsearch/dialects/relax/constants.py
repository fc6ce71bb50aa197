"""Relax's constants, stored apart from the modules that use them; ``dialects/relay/constants.py`` says why.

TVM's structural map does the walk in C++, so stripping a module of a thousand bindings takes a millisecond.
"""

from collections import Counter

import numpy as np
import tvm
import tvm_ffi
from tvm.ir import GenericConst

from passsearch.dialects.constant_table import BaseConstantTable
from passsearch.dialects.contract import Array
from passsearch.standalone.relax.deployment.network_file import replace_constants


class Constants(BaseConstantTable):
    """The constants of all states of one process, by digest."""

    def strip(self, module: tvm.IRModule) -> tuple[tvm.IRModule, frozenset[str]]:
        """Store the constants of a module; return the module with placeholders for them, and their digests."""
        uses = Counter[str]()

        def placeholder(constant: GenericConst) -> GenericConst:
            digest = self.digest(constant.value)
            uses[digest] += 1
            # The number keeps two nodes of equal content different.
            content = f"{digest} {uses[digest]}".encode()
            return GenericConst(tvm.runtime.tensor(np.frombuffer(content, "uint8")), constant.ty)

        return replace_constants(module, placeholder), frozenset(uses)

    def fill(self, skeleton: tvm.IRModule) -> tvm.IRModule:
        """Return the module of a skeleton; every constant must be in the table."""

        def constant(placeholder: GenericConst) -> GenericConst:
            return GenericConst(self.compiler_tensor(_digest_in(placeholder)), placeholder.ty)

        return replace_constants(skeleton, constant)

    def address(self, data: tvm.runtime.Tensor) -> int:
        """Return the address of the object whose references TVM counts."""
        return int(data.__chandle__())

    def tensor(self, array: Array, dtype: str) -> tvm.runtime.Tensor:
        """Return a compiler array with a copy of the values."""
        data = tvm.runtime.empty(array.shape, dtype)
        data.copyfrom(array)
        return data

    def view(self, array: Array) -> tvm.runtime.Tensor:
        """Return a compiler array on the memory of ``array``."""
        return tvm.runtime.from_dlpack(array)


def constant_uses(module: tvm.IRModule) -> list[int]:
    """Return the numbers of the constant nodes in visiting order; equal IRs have equal lists."""
    numbers: dict[int, int] = {}
    uses: list[int] = []

    def visit(constant: GenericConst) -> None:
        uses.append(numbers.setdefault(constant.__chandle__(), len(numbers)))

    for _, function in module.functions_items():
        tvm_ffi.structural_walk(function, (GenericConst, visit))
    return uses


def _digest_in(placeholder: GenericConst) -> str:
    content: bytes = placeholder.value.numpy().tobytes()
    return content.decode().partition(" ")[0]
