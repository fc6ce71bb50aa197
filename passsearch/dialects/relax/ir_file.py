"""Relax modules as files: TVM's JSON, with a parameter file beside it."""

from collections.abc import Mapping
from pathlib import Path

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.shared import EXTERNAL_BYTES, read_ir_file, write_ir_file


def read(source: ModelSource) -> tvm.IRModule:
    """Return the module of an IR file, its parameters bound.

    Raises:
        UserError: The file holds an object that is no module.
    """
    module, params = read_ir_file(source.path, ir="Relax")
    return relax.transform.BindParams("main", dict(params))(module) if params else module


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
