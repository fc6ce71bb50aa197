"""Relax modules as files: TVM's JSON, with a parameter file beside it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from passsearch.core import MAIN, DeclaredInput
from passsearch.dialects.constant_table import MAPPED_BYTES
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.entries import function_names, select
from passsearch.dialects.shared import EXTERNAL_BYTES, read_ir_file, require_functions, write_ir_file
from passsearch.errors import UserError
from passsearch.standalone.relax.deployment.network_file import read_network, replace_constants, shortened
from passsearch.standalone.relax.deployment.separate_weights import entries, lift_constants, tensor_bytes


def read(source: ModelSource) -> tvm.IRModule:
    """Return the module of an IR file, its parameters and its open sizes bound; the source's function is ``main``.

    Functions that are not called are left out.

    Raises:
        UserError: The file holds no module with this function, the function takes more than tensors, or a size stays
            open.
    """
    name = source.function or MAIN
    module = _read_bound(source, [name])
    if name != MAIN or len(function_names(module)) > 1:
        module = select([(MAIN, module, name)])
    return module if source.keep_symbolic else _bind_sizes(module, source)


def read_entries(source: ModelSource) -> tvm.IRModule:
    """Return the module of an IR file that has the entry function of every case already."""
    return _read_bound(source, sorted({case.entry for case in source.cases}))


def list_functions(path: Path) -> list[str]:
    """Return the names of the functions in a file that could be tuned."""
    return function_names(read_ir_file(path, ir="Relax", read=read_network)[0])


def _read_bound(source: ModelSource, functions: Sequence[str]) -> tvm.IRModule:
    """Return the module of an IR file, with the parameters of some functions as constants."""
    module, params = read_ir_file(source.path, ir="Relax", read=read_network)
    require_functions(source.path, functions, present=function_names(module))
    for name in functions if params else ():
        own = {str(parameter.name) for parameter in module[name].params}
        module = relax.transform.BindParams(name, {key: params[key] for key in params if key in own})(module)
    return module


def _bind_sizes(module: tvm.IRModule, source: ModelSource) -> tvm.IRModule:
    """Return the module with the sizes that the user gives in place of symbolic ones."""
    variables: dict[str, tvm.tirx.Var] = {}
    declared = []
    for parameter in module[MAIN].params:
        if not isinstance(parameter.ty, relax.TensorType):
            name = source.function or MAIN
            raise UserError(f"`{parameter.name}` of `{name}` is no tensor ({parameter.ty}); tune a function of tensors")
        shape = parameter.ty.shape.values if isinstance(parameter.ty.shape, relax.ShapeExpr) else None
        variables |= {size.name: size for size in shape or () if isinstance(size, tvm.tirx.Var)}
        sizes = None if shape is None else tuple(map(_dimension, shape))
        declared.append(DeclaredInput(str(parameter.name), sizes, str(parameter.ty.dtype)))
    types = source.bind_inputs(declared)
    if not variables:
        return module
    bound = {
        variables[name]: size
        for entry in declared
        for name, size in zip(entry.shape or (), types[entry.name].shape, strict=False)
        if isinstance(name, str)
    }
    return relax.transform.BindSymbolicVars(bound, MAIN)(module)


def _dimension(size: object) -> int | str | None:
    """Return a fixed size, the name of an open one, or ``None`` for one that is computed from others."""
    if isinstance(size, tvm.tirx.IntImm):
        return int(size)
    return str(size.name) if isinstance(size, tvm.tirx.Var) else None


def save(module: object, path: Path, *, params: Mapping[str, object] | None = None) -> None:
    """Write a module to a file that ``read`` can read.

    Args:
        module: An ``IRModule``, or a function that becomes its main.
        path: The JSON file; parameters go to a second file beside it.
        params: Arrays by name, TVM's own or numpy's.

    Raises:
        UserError: ``module`` is neither module nor function, or ``params`` is no mapping of arrays.
    """
    if isinstance(module, relax.Function):
        module = tvm.IRModule({MAIN: module})
    write_ir_file(module, path, params=params, to_tensor=_tensor, ir="Relax")


def save_with_external_weights(module: tvm.IRModule, path: Path) -> None:
    """Write a module whose parameters are bound, large constants of its entries to the parameter file.

    ``read`` and ``read_entries`` bind them.
    """
    values: dict[str, tvm.runtime.Tensor] = {}
    names: dict[int, str] = {}
    lifted = module.clone()
    for entry in entries(module):
        lifted.update_func(entry, lift_constants(module[entry], names, values, least_bytes=EXTERNAL_BYTES))
    save(lifted, path, params=values)


def write_json(module: tvm.IRModule, file: TextIO) -> None:
    """Write TVM's JSON of a module, large constants one after the other: TVM's own writer holds all of them as text."""
    large: dict[str, tvm.runtime.Tensor] = {}

    def placeholder(constant: GenericConst) -> GenericConst:
        values = constant.value
        if tensor_bytes(values) < MAPPED_BYTES:
            short = shortened(values)
            return constant if short is values else GenericConst(short, constant.ty)
        number = tvm.runtime.tensor(np.frombuffer(f"large constant {len(large)}".encode(), "uint8"))
        large[_json_data(number)] = values
        return GenericConst(number, constant.ty)

    text = tvm.ir.save_json(replace_constants(module, placeholder))
    end = 0
    for match in re.finditer("|".join(map(re.escape, large)), text) if large else ():
        file.write(text[end : match.start()])
        file.write(_json_data(shortened(large[match.group()])))
        end = match.end()
    file.write(text[end:])


def _json_data(data: tvm.runtime.Tensor) -> str:
    """Return how TVM's JSON writes the content of an array."""
    return re.search(r'"data":"([^"]*)"', tvm.ir.save_json(data))[1]  # type: ignore[index]


def _tensor(value: object) -> tvm.runtime.Tensor:
    return value if isinstance(value, tvm.runtime.Tensor) else tvm.runtime.tensor(value)
