"""Constants among the arguments of the functions of a module."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

PAGED_BYTES = 1 << 24
"""Size of new weights from which they are in temporary files."""

MOST_FILES = 512
"""Number of open files up to which there are more: each mapping keeps its file open, and a process may have 1,024."""


def constant_arguments(module: Any) -> dict[str, dict[int, list[Any]]]:
    """Return for every function the arguments that are constants in all its calls, by place: one for each call."""
    arguments: dict[str, dict[int, list[Any]]] = {}

    def visit(call: Any) -> None:
        """Keep those places of a function that are constant in this call as well."""
        if is_call_tir(call):
            constants = {
                place: value
                for place, value in enumerate(call.args[1].fields)
                if isinstance(value, tvm.ir.GenericConst)
            }
            name = call.args[0].name_hint
            known = arguments.get(name, {place: [] for place in constants})
            arguments[name] = {place: [*known[place], constants[place]] for place in known if place in constants}

    for entry in entries(module):
        tvm_ffi.structural_walk(module[entry], (relax.Call, visit))
    return arguments


def entries(module: Any) -> list[Any]:
    """Return the variables of the entry functions: ``main``, or one ``main_NAME`` for each of several cases."""
    functions = {name.name_hint: name for name, each in module.functions_items() if isinstance(each, relax.Function)}
    names = ["main"] if "main" in functions else sorted(name for name in functions if name.startswith("main_"))
    return [functions[name] for name in names]


def is_call_tir(call: Any) -> bool:
    """Return True for the call of a function of loops."""
    return getattr(call.op, "name", "") == "relax.call_tir"


def replace_functions(
    module: Any, functions: Mapping[str, Any], arguments_of: Callable[[str, int, Any], list[Any]]
) -> Any:
    """Return the module with these functions in place of those of the same names.

    Args:
        module: The module.
        functions: New functions of loops by name.
        arguments_of: Returns what a call has in place of an argument, from the function's name, the argument's place
            and the argument.
    """
    builder = relax.BlockBuilder()
    # New variables, because TVM stores a function's type with the variable that names it.
    names = {name: builder.add_func(function, name) for name, function in functions.items()}
    others = {name: function for name, function in module.functions_items() if name.name_hint not in names}
    result = tvm.IRModule(
        {**others, **dict(builder.get().functions_items())}, attrs=module.attrs, global_infos=module.global_infos
    )

    def replace_call(call: Any) -> Any:
        name = call.args[0].name_hint if is_call_tir(call) else ""
        if name not in names:
            return call
        arguments = [new for at, each in enumerate(call.args[1].fields) for new in arguments_of(name, at, each)]
        return relax.Call(call.op, [names[name], relax.Tuple(arguments), *call.args[2:]], call.attrs, call.ty_args)

    for entry in entries(result):
        result.update_func(entry, tvm_ffi.structural_map(result[entry], (relax.Call, replace_call)))
    return relax.transform.Normalize()(result)  # it finds the types of the new calls


def values_of(data: Any) -> Any:
    """Return an array of TVM's as one of numpy: on the same memory, except for types that numpy lacks."""
    return np.from_dlpack(data) if hasattr(np, str(data.dtype)) else data.numpy()


def tensor(values: Any) -> Any:
    """Return an array of TVM's with these values, which are copied once."""
    # Not by ``relax.const`` of numpy's array, which narrows 64 bits to 32.
    if not hasattr(np, str(values.dtype)):
        return tvm.runtime.tensor(values)
    with contextlib.suppress(OSError):  # no room on the disk, or too many files
        if values.nbytes >= PAGED_BYTES:
            return _paged(values)
    result = tvm.runtime.empty(values.shape, str(values.dtype))
    np.copyto(np.from_dlpack(result), values)
    return result


def _paged(values: Any) -> Any:
    """Return a copy in a temporary file without a name, whose pages need not stay in memory."""
    with tempfile.TemporaryFile() as file:
        if file.fileno() > MOST_FILES:
            raise OSError(errno.EMFILE, "too many weights are in files")
        # Without room for all of it, a later write to the memory would end the process.
        os.posix_fallocate(file.fileno(), 0, values.nbytes)
        pages = mmap.mmap(file.fileno(), values.nbytes)
    array = np.frombuffer(pages, values.dtype).reshape(values.shape)
    np.copyto(array, values)
    pages.madvise(mmap.MADV_DONTNEED)
    return tvm.runtime.from_dlpack(array)


def digest(values: Any) -> bytes:
    """Return a digest of the content of an array."""
    return hashlib.blake2b(np.ascontiguousarray(values).view("uint8").data).digest()
