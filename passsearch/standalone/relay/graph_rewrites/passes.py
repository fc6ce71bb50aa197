"""Relay passes whose TVM constructors take more than plain values. Here they take JSON arguments only."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay.analysis import search_fc_transpose
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard
from tvm.relay.transform import _ffi_api

_LAYOUTS = {
    "NCHW": ("NCHW", "OIHW"),
    "NHWC": ("NHWC", "HWIO"),
    "NCHW8c": ("NCHW8c", "OIHW8i8o"),
    "NCHW16c": ("NCHW16c", "OIHW16i16o"),
}


def ConvertLayout(layout: str = "NHWC") -> Any:  # noqa: N802
    """Return ``relay.transform.ConvertLayout`` for all convolutions, with kernel layouts that fit the data layout."""
    data, kernel = _LAYOUTS[layout]
    layouts = {"nn.conv2d": [data, kernel]}
    if layout in ("NCHW", "NHWC"):
        layouts["nn.conv2d_transpose"] = [data, "default"]
        layouts["qnn.conv2d"] = [data, "default"]
    return relay.transform.ConvertLayout(layouts)


def ToMixedPrecision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> Any:  # noqa: N802
    """Return ``relay.transform.ToMixedPrecision`` on copies of the functions, with outputs of the old types."""
    convert = relay.transform.ToMixedPrecision(mixed_precision_type, missing_op_mode)

    # TVM's pass (0.8 to 0.19) erases the result types of its argument's functions, which other states share.
    def convert_copies(module: Any, _context: Any) -> Any:
        for variable, function in module.functions.items():
            if isinstance(function, relay.Function):
                fields = function.params, function.body, function.ret_type, function.type_params, function.attrs
                module[variable] = relay.Function(*fields)
        typed = relay.transform.InferType()(module)
        converted = relay.transform.InferType()(convert(typed))
        converted["main"] = _with_result_type(converted["main"], typed["main"].body.checked_type)
        return converted

    return tvm.transform.module_pass(convert_copies, opt_level=0, name="ToMixedPrecision")


# TVM has an option for it (relay.ToMixedPrecision.keep_orig_output_dtype, since 0.9). It crashes the process where the
# result is a tuple that an operator makes, such as split's (tried with 0.16).
def _with_result_type(function: Any, result_type: Any) -> Any:
    """Return the function with its result cast to a type of the same structure."""
    body = _cast(function.body, function.body.checked_type, result_type)
    if body is function.body:
        return function
    return relay.Function(function.params, body, None, function.type_params, function.attrs)


def _cast(value: Any, from_type: Any, to_type: Any) -> Any:
    """Return a tensor, or a tuple of tensors, cast to a type; what has the type already stays itself."""
    if tvm.ir.structural_equal(from_type, to_type):
        return value
    if not isinstance(to_type, relay.TupleType):
        return relay.cast(value, to_type.dtype)
    is_written_out = isinstance(value, relay.Tuple)
    fields = value.fields if is_written_out else [relay.TupleGetItem(value, at) for at in range(len(to_type.fields))]
    # No `strict`: an exported script may run on Python 3.8, which lacks it.
    parts = zip(fields, from_type.fields, to_type.fields)
    return relay.Tuple([_cast(*part) for part in parts])


def MergeComposite(patterns: str = "bias_activation") -> Any:  # noqa: N802
    """Return ``relay.transform.MergeComposite`` with the pattern table that ``patterns`` names.

    ``bias_activation`` groups a convolution or dense layer with its bias and activation and marks each group as one
    kernel, because TVM itself builds no composite function. Any other name is that of an external code generator, whose
    own pattern table is used.
    """
    if patterns == "bias_activation":
        return tvm.transform.module_pass(_merge_bias_activation, opt_level=0, name="MergeComposite")
    table = relay.op.contrib.get_pattern_table(patterns)
    if table is None:
        raise ValueError(f"TVM has no pattern table named `{patterns}`")
    return relay.transform.MergeComposite(table)


def _merge_bias_activation(module: Any, _context: Any) -> Any:
    module = relay.transform.MergeComposite(_bias_activation())(module)
    module["main"] = _KernelMarker().visit(module["main"])
    return module


class _KernelMarker(relay.ExprMutator):  # type: ignore[misc]
    """Marks composite functions as primitive, as TVM's fusion marks the groups it makes."""

    def visit_function(self, function: Any) -> Any:
        function = super().visit_function(function)
        if function.attrs is None or "Composite" not in function.attrs.keys():
            return function
        return function.with_attr("Primitive", tvm.tir.IntImm("int32", 1))


def _bias_activation() -> list[tuple[str, Any]]:
    table = []
    for operator in ("nn.conv2d", "nn.dense"):
        biased = is_op(operator)(wildcard(), is_constant())
        biased = is_op("add")(biased, is_constant()) | is_op("nn.bias_add")(biased, is_constant())
        name = operator.replace("nn.", "passsearch.")
        table.append((f"{name}_bias_relu", is_op("nn.relu")(biased)))
        table.append((f"{name}_bias_clip", is_op("clip")(biased)))
        table.append((f"{name}_bias", biased))
    return table


def SimplifyFCTranspose() -> Any:  # noqa: N802
    """Return ``relay.transform.SimplifyFCTranspose`` for all constant weights that a dense layer reads transposed.

    TVM's pass works on weights that are inputs. Here constants become inputs, are rewritten and bound again, as
    ``relay/data_dep_optimization/simplify_fc_transpose.py`` does with a parameter dictionary.
    """
    return tvm.transform.module_pass(_simplify_fc_transpose, opt_level=4, name="SimplifyFCTranspose")


def _simplify_fc_transpose(module: Any, _context: Any) -> Any:
    main = module["main"]
    # TVM's analysis finds weights by the names of variables.
    lifter = _WeightLifter()
    body = lifter.visit(main.body)
    lifted = relay.Function([*main.params, *lifter.variables], body)
    # The analysis also finds inputs of the user's, which have no value to transpose.
    names = [name for name in search_fc_transpose(lifted) if name in lifter.weights]
    if not names:
        return module
    rewritten = relay.transform.SimplifyFCTranspose(names)(tvm.IRModule.from_expr(lifted))["main"]
    transposed = {f"{name}.T": np.ascontiguousarray(lifter.weights[name].T) for name in names}
    values = {**lifter.weights, **transposed}
    constants = {param: relay.const(values[param.name_hint]) for param in rewritten.params if param.name_hint in values}
    body = relay.bind(rewritten.body, constants)
    # TVM may replace, reorder and drop parameters, so they are matched by name.
    by_name = {param.name_hint: param for param in rewritten.params}
    params = [by_name.get(param.name_hint, param) for param in main.params]
    result = tvm.IRModule(module.functions, module.type_definitions)
    result["main"] = relay.Function(params, body, main.ret_type, main.type_params, main.attrs)
    return result


class _WeightLifter(relay.ExprMutator):  # type: ignore[misc]
    """Replaces constants in ``dense(x, transpose(constant))`` by variables and records their values."""

    def __init__(self) -> None:
        super().__init__()
        self.variables: list[Any] = []
        self.weights: dict[str, Any] = {}

    def visit_call(self, call: Any) -> Any:
        call = super().visit_call(call)
        if call.op != relay.op.get("nn.dense") or not _is_transposed_constant(call.args[1]):
            return call
        transpose = call.args[1]
        weight = relay.Call(transpose.op, [self._variable(transpose.args[0])], transpose.attrs)
        return relay.Call(call.op, [call.args[0], weight], call.attrs)

    def _variable(self, constant: Any) -> Any:
        name = f"passsearch_fc_{len(self.variables)}"
        value = constant.data.numpy()
        variable = relay.var(name, shape=value.shape, dtype=str(value.dtype))
        self.variables.append(variable)
        self.weights[name] = value
        return variable


def _is_transposed_constant(weight: Any) -> bool:
    return (
        isinstance(weight, relay.Call)
        and weight.op == relay.op.get("transpose")
        and isinstance(weight.args[0], relay.Constant)
    )


def InlineCompilerFunctionsBoundTo(names: list[str]) -> Any:  # noqa: N802
    """Return ``relay.transform.InlineCompilerFunctionsBoundTo`` for the global functions with these names."""

    def inline(module: Any, _context: Any) -> Any:
        variables = [module.get_global_var(name) for name in names]
        return relay.transform.InlineCompilerFunctionsBoundTo(variables)(module)

    return tvm.transform.module_pass(inline, opt_level=0, name="InlineCompilerFunctionsBoundTo")


def ChangeBatch(axes: dict[str, int], batch_size: int = 16) -> Any:  # noqa: N802
    """Return ``relay.transform.ChangeBatch``; ``axes`` is the batch axis by input name."""

    def set_batch(module: Any, _context: Any) -> Any:
        data = {param: axes[param.name_hint] for param in module["main"].params if param.name_hint in axes}
        return relay.transform.ChangeBatch(data, batch_size)(module)

    return tvm.transform.module_pass(set_batch, opt_level=1, name="ChangeBatch")


def FlexibleShapeDispatch(buckets: list[int], axis: int = 0) -> Any:  # noqa: N802
    """Return ``relay.transform.FlexibleShapeDispatch`` as a module pass."""
    dispatch = relay.transform.FlexibleShapeDispatch(buckets, axis)
    return tvm.transform.module_pass(
        lambda module, _context: dispatch(module), opt_level=0, name="FlexibleShapeDispatch"
    )


def Recast(dtype: str, out_dtype: str, ops: list[str] | None = None) -> Any:  # noqa: N802
    """Return ``relay.transform.recast`` as a module pass."""
    return tvm.transform.module_pass(
        lambda module, _context: relay.transform.recast(module, dtype, out_dtype, ops),
        opt_level=0,
        name="Recast",
    )


def Gradient() -> Any:  # noqa: N802
    """Return the higher-order ``relay.transform.gradient`` of ``main`` as a module pass."""
    return tvm.transform.module_pass(_gradient, opt_level=0, name="Gradient")


def _gradient(module: Any, _context: Any) -> Any:
    return tvm.IRModule.from_expr(relay.transform.gradient(module["main"], module))


def Defunctionalization() -> Any:  # noqa: N802
    """Return ``relay.transform.Defunctionalization`` of ``main`` as a module pass."""
    return tvm.transform.module_pass(_defunctionalize, opt_level=0, name="Defunctionalization")


def _defunctionalize(module: Any, _context: Any) -> Any:
    module["main"] = relay.transform.Defunctionalization(module["main"], module)
    return module


def PlanDevices() -> Any:  # noqa: N802
    """Return TVM's ``PlanDevices`` for the target in scope."""
    # TVM's Python wrapper in 0.16 refers to an unbound name, so the C++ function is called.
    return _ffi_api.PlanDevices(_compilation_config())


def CollagePartition(max_depth: int = 2) -> Any:  # noqa: N802
    """Return ``relay.transform.CollagePartition`` for the target in scope, with TVM's own cost estimator.

    Args:
        max_depth: Most operators in a partition.
    """

    def partition(module: Any, _context: Any) -> Any:
        # The pass reads the depth from the context, not from an argument.
        depths = {f"relay.collage.{kind}_max_depth": max_depth for kind in ("tvm", "byoc")}
        with tvm.transform.PassContext(opt_level=4, config=depths):
            return relay.transform.CollagePartition(_compilation_config())(module)

    return tvm.transform.module_pass(partition, opt_level=0, name="CollagePartition")


def _compilation_config() -> Any:
    return tvm.target.make_compilation_config(tvm.transform.PassContext.current(), tvm.target.Target.current())


def CombineParallelOpBatch(op_name: str, batch_op_name: str, min_num_branches: int = 3) -> Any:  # noqa: N802
    """Return TVM's ``CombineParallelOpBatch``, from the operator ``op_name`` to the operator ``batch_op_name``."""
    return _ffi_api.CombineParallelOpBatch(op_name, batch_op_name, min_num_branches)


def ManifestAlloc() -> Any:  # noqa: N802
    """Return TVM's ``ManifestAlloc`` with the host's memory on the CPU."""
    host = tvm.target.VirtualDevice(tvm.cpu(), tvm.target.Target.current())
    return tvm.get_global_func("relay.transform.ManifestAlloc")(host)
