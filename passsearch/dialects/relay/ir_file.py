"""Relay modules as files: TVM's JSON, with parameters beside it."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tvm
from tvm import relay

from passsearch.dialects.contract import ModelSource
from passsearch.errors import UserError

APART_BYTES = 1024
"""Constants from this size on are written apart from the graph, as parameters: TVM reads its own JSON slowly."""


def read(source: ModelSource) -> tvm.IRModule:
    """The module, its parameters bound.

    Raises:
        UserError: It holds something else.
    """
    module = tvm.ir.load_json(source.path.read_text())
    if not isinstance(module, tvm.IRModule):
        raise UserError(f"`{source.path}` holds a {type(module).__name__}; a Relay module is needed.")
    params_file = parameters_beside(source.path)
    params: Mapping[str, tvm.nd.NDArray] = {}
    if params_file.exists():
        params = tvm.runtime.load_param_dict(params_file.read_bytes())
    return bind(module, params)


def save(module: object, path: Path, *, params: Mapping[str, object] | None = None) -> None:
    """Write a module so that ``load`` reads it back; the inverse for modules in memory.

    Args:
        module: An ``IRModule``, or a function that becomes its main.
        path: The JSON file; parameters go beside it.
        params: Arrays by name, TVM's own or numpy's.

    Raises:
        UserError: It is neither module nor function, or ``params`` is no mapping of arrays.
    """
    if isinstance(module, relay.Function):
        module = tvm.IRModule.from_expr(module)
    if not isinstance(module, tvm.IRModule):
        raise UserError(f"A Relay module is needed, got `{type(module).__name__}`; give a tvm.IRModule.")
    if params is not None and not isinstance(params, Mapping):
        raise UserError(f"Parameters are arrays by name, got `{type(params).__name__}`; give a dict.")
    if params:
        arrays = {name: _array(value) for name, value in params.items()}
        parameters_beside(path).write_bytes(tvm.runtime.save_param_dict(arrays))
    path.write_text(tvm.ir.save_json(module))


def save_with_external_weights(module: tvm.IRModule, path: Path) -> None:
    """As ``save`` of a module whose parameters are bound: large constants go beside it, and ``read`` binds them."""
    lifter = _Lifter()
    main = lifter.visit(module["main"])
    main = relay.Function([*main.params, *lifter.values], main.body, main.ret_type, main.type_params, main.attrs)
    others = {variable: function for variable, function in module.functions.items() if variable.name_hint != "main"}
    lifted = tvm.IRModule({**others, module.get_global_var("main"): main}, module.type_definitions)
    save(lifted, path, params={variable.name_hint: value for variable, value in lifter.values.items()})


class _Lifter(relay.ExprMutator):  # type: ignore[misc]
    """Puts a variable in the place of every large constant, one for a constant that many share."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[relay.Var, tvm.nd.NDArray] = {}

    def visit_constant(self, constant: relay.Constant) -> relay.Expr:
        """A variable, or the constant itself if it is small."""
        data = constant.data
        if math.prod(data.shape) * np.dtype(data.dtype).itemsize < APART_BYTES:
            return constant
        variable = relay.Var(f"constant:{len(self.values)}", relay.TensorType(data.shape, data.dtype))
        self.values[variable] = data
        return variable


def _array(value: object) -> tvm.nd.NDArray:
    return value if isinstance(value, tvm.nd.NDArray) else tvm.nd.array(value)


def parameters_beside(path: Path) -> Path:
    """The parameter file that belongs to an IR file: same name, suffix ``.params``."""
    return path.with_suffix(".params")


def bind(module: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray]) -> tvm.IRModule:
    """Parameters as constants, types inferred."""
    if params:
        module["main"] = relay.build_module.bind_params_by_name(module["main"], dict(params))
    return relay.transform.InferType()(module)
