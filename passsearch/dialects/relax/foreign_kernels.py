"""The kernels of a Relax module one by one, for the referee that judges what may stand in the place of one."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.script import from_source

from passsearch.dialects.contract import Array, CompileError
from passsearch.dialects.foreign_kernel import KernelCall, KernelDescription, KernelParameter
from passsearch.dialects.relax.bridge import RelaxBridge
from passsearch.dialects.relax.errors import COMPILER_ERRORS
from passsearch.dialects.relax.index_parameters import index_parameters
from passsearch.dialects.relax.isolated_kernels import CALL
from passsearch.dialects.shared import error_line, require_linker
from passsearch.standalone.relax.cpu_schedules import PACKED
from passsearch.standalone.relax.deployment.code_generation import compile_c
from passsearch.standalone.relax.deployment.separate_weights import entries
from passsearch.standalone.relax.graph_rewrites.replace_kernel import kernels_of, prototype

_JUDGED = re.compile(r"bool|(float|u?int)(8|16|32|64)")
"""Types of elements that have values to compare."""

SYMBOL = "judged"
"""Name of the kernel in its library."""

_UNTYPED_BUFFER = re.compile(r'((?:alloc|decl)_buffer\(\((?:[^()]|\([^()]*\))*\))(?!, ")')
"""A buffer without the type of its elements, which is float32 then."""


class RelaxKernels:
    """``passsearch.dialects.foreign_kernel.KernelAccess`` for Relax."""

    def __init__(self, bridge: RelaxBridge) -> None:
        self._target = bridge.target

    def describe(self, module: tvm.IRModule, kernel: str) -> KernelDescription:
        """Return a kernel of fixed sizes that writes its last parameters and no others."""
        names = {name.name_hint.removesuffix(PACKED): name for name in kernels_of(module)}
        # With packed weights it has a suffix, which tables leave out.
        name = names.get(kernel.removesuffix(PACKED))
        if name is None:
            raise CompileError(f"there is no kernel `{kernel}`; the kernels are {', '.join(sorted(names)) or 'none'}")
        function = module[name]
        written = _written(function)
        is_output = [any(each.same_as(other) for other in written) for each in function.params]
        first = is_output.index(True) if True in is_output else 0
        if not first or not all(is_output[first:]) or not all(map(_is_fixed, function.params)):
            raise CompileError(f"`{kernel}` has open sizes or writes what it reads, and only other kernels are judged")
        types = {str(each.dtype) for each in function.params}
        if unknown := sorted(each for each in types if not _JUDGED.fullmatch(each)):
            raise CompileError(f"`{kernel}` has elements of {', '.join(unknown)}, and such kernels cannot be judged")
        parameters = [
            KernelParameter(str(each.name), str(each.dtype), tuple(map(int, each.shape)), is_written, may_be_index)
            for each, is_written, may_be_index in zip(
                function.params, is_output, index_parameters(function), strict=True
            )
        ]
        plain = name.name_hint.removesuffix(PACKED)
        return KernelDescription(name.name_hint, plain, tuple(parameters), prototype(function, plain))

    def constants(self, module: tvm.IRModule, kernel: str) -> Mapping[int, Array]:
        """Return the constants among the arguments of the first call."""
        for entry in entries(module):
            for arguments in _calls(module[entry], kernel):
                return {
                    place: each.value.numpy()
                    for place, each in enumerate(arguments)
                    if isinstance(each, tvm.ir.GenericConst)
                }
        return {}

    def build(self, module: tvm.IRModule, kernel: str, path: Path, *, wide: bool = False) -> None:
        """Write a library with the kernel alone."""
        try:
            function = module[kernel]
            function = (_widened(function) if wide else function).with_attr("global_symbol", SYMBOL)
            cc = require_linker()
            with self._target, TemporaryDirectory() as scratch:
                objects, options = compile_c([function], self._target, Path(scratch), cc=cc)
                built = tirx.build(tvm.IRModule({SYMBOL: function}), target=self._target)
                built.export_library(str(path), addons=objects, cc=cc, **({"options": options} if options else {}))
        except COMPILER_ERRORS as error:
            raise CompileError(error_line(error)) from error

    def open(self, path: Path) -> KernelCall:
        """Load a library."""
        run = tvm.runtime.load_module(str(path))[SYMBOL]

        def call(arrays: Sequence[Array]) -> None:
            run(*map(tvm.runtime.from_dlpack, arrays))

        return call


def _is_fixed(parameter: Any) -> bool:
    return all(isinstance(size, tirx.IntImm) for size in parameter.shape)


def _written(function: tirx.PrimFunc) -> list[Any]:
    """Return the buffers that a function stores to; a function in C writes what it was put in the place of."""
    buffers: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, lambda store: buffers.append(store.buffer)))
    return buffers


def _calls(function: Any, kernel: str) -> list[Sequence[Any]]:
    """Return the arguments of every call of a kernel, before and after memory is planned."""
    found: list[Sequence[Any]] = []

    def visit(call: Any) -> None:
        if isinstance(call.op, tvm.ir.GlobalVar) and call.op.name_hint == kernel:
            found.append(list(call.args))
        elif getattr(call.op, "name", "") == CALL and call.args[0].name_hint == kernel:
            found.append(list(call.args[1].fields))

    tvm_ffi.structural_walk(function, (relax.Call, visit))
    return found


def _widened(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a function that computes with 64 bits wherever this one computes with 32.

    By its text, in which every type has its name: TVM has no such pass.
    """
    text = function.without_attr("global_symbol").script(show_meta=True) if function.attrs else function.script()
    widened = from_source(_UNTYPED_BUFFER.sub(r'\1, "float32"', text).replace("float32", "float64"))
    if not isinstance(widened, tirx.PrimFunc):
        raise RuntimeError("the text of the kernel is no function")
    return widened
