"""Relax modules as files: TVM's JSON, with a parameter file beside it."""

from collections.abc import Mapping
from pathlib import Path

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from passsearch.core import DeclaredInput
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.shared import EXTERNAL_BYTES, read_ir_file, write_ir_file
from passsearch.errors import UserError


def read(source: ModelSource) -> tvm.IRModule:
    """Return the module of an IR file, its parameters and its open sizes bound.

    Raises:
        UserError: The file holds no module with a main, main takes more than tensors, or a size stays open.
    """
    module, params = read_ir_file(source.path, ir="Relax")
    if params:
        module = relax.transform.BindParams("main", dict(params))(module)
    return _bind_sizes(module, source)


def _bind_sizes(module: tvm.IRModule, source: ModelSource) -> tvm.IRModule:
    """Return the module with the sizes that the user gives in place of symbolic ones."""
    variables: dict[str, tvm.tirx.Var] = {}
    declared = []
    for parameter in module["main"].params:
        if not isinstance(parameter.ty, relax.TensorType):
            raise UserError(f"`{parameter.name}` of `main` is no tensor ({parameter.ty}); tune a main of tensors")
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
    return relax.transform.BindSymbolicVars(bound, "main")(module)


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
        module = tvm.IRModule({"main": module})
    write_ir_file(module, path, params=params, to_tensor=_tensor, ir="Relax")


def save_with_external_weights(module: tvm.IRModule, path: Path) -> None:
    """Write a module whose parameters are bound, large constants of main to the parameter file; ``read`` binds them."""
    values: dict[str, tvm.runtime.Tensor] = {}
    variables: dict[int, relax.Var] = {}

    def lift(constant: GenericConst) -> relax.Expr:
        data = constant.value
        if not isinstance(data, tvm.runtime.Tensor) or data.numpy().nbytes < EXTERNAL_BYTES:
            return constant
        # By node and not by value: a constant that is used twice gets one variable, two equal constants get two.
        node = constant.__chandle__()
        if node not in variables:
            variables[node] = relax.Var(f"constant:{len(values)}", constant.ty)
            values[variables[node].name] = data
        return variables[node]

    main = module["main"]
    body = tvm_ffi.structural_map(main.body, (GenericConst, lift))
    lifted = module.clone()
    params = [*main.params, *variables.values()]
    function = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    lifted.update_func(module.get_global_var("main"), function)
    save(lifted, path, params=values)


def _tensor(value: object) -> tvm.runtime.Tensor:
    return value if isinstance(value, tvm.runtime.Tensor) else tvm.runtime.tensor(value)
