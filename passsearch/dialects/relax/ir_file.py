"""Relax modules as files: TVM's JSON, with parameters beside it."""

from collections.abc import Mapping
from pathlib import Path

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from passsearch.dialects.contract import ModelSource
from passsearch.errors import UserError

APART_BYTES = 1024
"""Constants from this size on are written apart from the graph, as parameters."""


def read(source: ModelSource) -> tvm.IRModule:
    """The module, its parameters bound.

    Raises:
        UserError: It holds something else.
    """
    module = tvm.ir.load_json(source.path.read_text())
    if not isinstance(module, tvm.IRModule):
        raise UserError(f"`{source.path}` holds a {type(module).__name__}; a Relax module is needed.")
    beside = parameters_beside(source.path)
    params = tvm.runtime.load_param_dict(beside.read_bytes()) if beside.exists() else {}
    return relax.transform.BindParams("main", dict(params))(module) if params else module


def save(module: object, path: Path, *, params: Mapping[str, object] | None = None) -> None:
    """Write a module so that ``load`` reads it back; the inverse for modules in memory.

    Args:
        module: An ``IRModule``, or a function that becomes its main.
        path: The JSON file; parameters go beside it.
        params: Arrays by name, TVM's own or numpy's.

    Raises:
        UserError: It is neither module nor function, or ``params`` is no mapping of arrays.
    """
    if isinstance(module, relax.Function):
        module = tvm.IRModule({"main": module})
    if not isinstance(module, tvm.IRModule):
        raise UserError(f"A Relax module is needed, got `{type(module).__name__}`; give a tvm.IRModule.")
    if params is not None and not isinstance(params, Mapping):
        raise UserError(f"Parameters are arrays by name, got `{type(params).__name__}`; give a dict.")
    if params:
        arrays = {name: _array(value) for name, value in params.items()}
        parameters_beside(path).write_bytes(tvm.runtime.save_param_dict(arrays))
    path.write_text(tvm.ir.save_json(module))


def save_with_external_weights(module: tvm.IRModule, path: Path) -> None:
    """As ``save`` of a module whose parameters are bound: large constants of main go beside it, ``read`` binds them."""
    values: dict[str, tvm.runtime.Tensor] = {}
    variables: dict[int, relax.Var] = {}

    def lift(constant: GenericConst) -> relax.Expr:
        data = constant.value
        if not isinstance(data, tvm.runtime.Tensor) or data.numpy().nbytes < APART_BYTES:
            return constant
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


def _array(value: object) -> tvm.runtime.Tensor:
    return value if isinstance(value, tvm.runtime.Tensor) else tvm.runtime.tensor(value)


def parameters_beside(path: Path) -> Path:
    """The parameter file that belongs to an IR file: same name, suffix ``.params``."""
    return path.with_suffix(".params")
