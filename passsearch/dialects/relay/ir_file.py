"""Relay modules as files: TVM's JSON, with a parameter file beside it."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tvm
from tvm import relay

from passsearch.core import MAIN, DeclaredInput
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.shared import EXTERNAL_BYTES, read_ir_file, require_functions, write_ir_file
from passsearch.errors import UserError


def read(source: ModelSource) -> tvm.IRModule:
    """Return the module of an IR file, its parameters and its open sizes bound; the source's function is ``main``.

    Raises:
        UserError: The file holds no module with this function, the function takes more than tensors, or a size stays
            open.
    """
    name = source.function or MAIN
    module, params = read_ir_file(source.path, ir="Relay")
    require_functions(source.path, [name], present=_function_names(module))
    module = bind(_with_main(module, name), params)
    main = module[MAIN]
    declared = []
    for parameter in main.params:
        kind = parameter.checked_type
        if not isinstance(kind, relay.TensorType):
            raise UserError(f"`{parameter.name_hint}` of `{name}` is no tensor ({kind}); tune a function of tensors")
        sizes = tuple(int(size) if isinstance(size, tvm.tir.IntImm) else None for size in kind.shape)
        declared.append(DeclaredInput(parameter.name_hint, sizes, kind.dtype))
    types = source.bind_inputs(declared)
    if not any(entry.is_open() for entry in declared):
        return module
    closed = {
        old: relay.var(old.name_hint, shape=types[old.name_hint].shape, dtype=old.checked_type.dtype)
        for old in main.params
    }
    module["main"] = relay.Function(
        [*closed.values()], relay.bind(main.body, closed), None, main.type_params, main.attrs
    )
    return relay.transform.InferType()(module)


def _with_main(module: tvm.IRModule, name: str) -> tvm.IRModule:
    """Return the module with one of its functions as ``main``, in place of another ``main``."""
    if name == MAIN:
        return module
    others = {variable: each for variable, each in module.functions.items() if variable.name_hint not in (name, MAIN)}
    main = module[name].with_attr("global_symbol", MAIN) if module[name].attrs else module[name]
    return tvm.IRModule({**others, relay.GlobalVar(MAIN): main}, module.type_definitions)


def list_functions(path: Path) -> list[str]:
    """Return the names of the functions in a file that could be tuned."""
    return _function_names(read_ir_file(path, ir="Relay")[0])


def _function_names(module: tvm.IRModule) -> list[str]:
    """Return the names of ``main`` and of the functions that no other function calls, by name."""
    called: set[str] = set()

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.GlobalVar):
            called.add(expression.name_hint)

    functions = {name.name_hint: each for name, each in module.functions.items() if isinstance(each, relay.Function)}
    for function in functions.values():
        relay.analysis.post_order_visit(function, visit)
    return sorted(functions.keys() - (called - {MAIN}))


def save(module: object, path: Path, *, params: Mapping[str, object] | None = None) -> None:
    """Write a module to a file that ``read`` can read.

    Args:
        module: An ``IRModule``, or a function that becomes its main.
        path: The JSON file; parameters go to a second file beside it.
        params: Arrays by name, TVM's own or numpy's.

    Raises:
        UserError: ``module`` is neither module nor function, or ``params`` is no mapping of arrays.
    """
    if isinstance(module, relay.Function):
        module = tvm.IRModule.from_expr(module)
    write_ir_file(module, path, params=params, to_tensor=_tensor, ir="Relay")


def save_with_external_weights(module: tvm.IRModule, path: Path) -> None:
    """Write a module whose parameters are bound, its large constants to the parameter file; ``read`` binds them."""
    # Only main can have parameters that ``read`` binds, so constants of other functions stay in the JSON.
    lifter = _ConstantLifter()
    main = lifter.visit(module["main"])
    main = relay.Function([*main.params, *lifter.values], main.body, main.ret_type, main.type_params, main.attrs)
    others = {variable: function for variable, function in module.functions.items() if variable.name_hint != "main"}
    lifted = tvm.IRModule({**others, module.get_global_var("main"): main}, module.type_definitions)
    save(lifted, path, params={variable.name_hint: value for variable, value in lifter.values.items()})


class _ConstantLifter(relay.ExprMutator):  # type: ignore[misc]
    """Replaces every large constant by a variable; all uses of one constant get one variable."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[relay.Var, tvm.nd.NDArray] = {}

    def visit_constant(self, constant: relay.Constant) -> relay.Expr:
        """Return a variable, or the constant itself if it is small."""
        data = constant.data
        if math.prod(data.shape) * np.dtype(data.dtype).itemsize < EXTERNAL_BYTES:
            return constant
        variable = relay.Var(f"constant:{len(self.values)}", relay.TensorType(data.shape, data.dtype))
        self.values[variable] = data
        return variable


def _tensor(value: object) -> tvm.nd.NDArray:
    return value if isinstance(value, tvm.nd.NDArray) else tvm.nd.array(value)


def bind(module: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray]) -> tvm.IRModule:
    """Return the module with its parameters as constants, types inferred."""
    if params:
        module["main"] = relay.build_module.bind_params_by_name(module["main"], dict(params))
    return relay.transform.InferType()(module)
