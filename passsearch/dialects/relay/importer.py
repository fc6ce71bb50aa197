"""Model files to Relay, with parameters bound and constant-weight batch_matmul written as dense."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_constant, is_op, rewrite, wildcard

from passsearch.core import TensorType
from passsearch.dialects.contract import Array, ModelSource
from passsearch.errors import UserError


def load(source: ModelSource) -> tvm.IRModule:
    """Import one model file.

    Raises:
        UserError: The file cannot be read, or an input is missing, unknown or not bound.
    """
    module = {"onnx": _load_onnx, "torchscript": _load_torchscript, "ir": _load_ir}[source.format](source)
    module = relay.transform.InferType()(relay.transform.RemoveUnusedFunctions()(module))
    module["main"] = rewrite(_ConstantBatchMatmul(), module["main"])
    return relay.transform.InferType()(module)


def _load_onnx(source: ModelSource) -> tvm.IRModule:
    import onnx

    try:
        model = onnx.load(str(source.path))
    except Exception as error:  # onnx raises protobuf's own, unnamed here
        raise UserError(f"Cannot read `{source.path}` as ONNX: {_first_line(error)}") from error
    shapes = {name: list(kind.shape) for name, kind in source.inputs.items()}
    types = {name: kind.dtype for name, kind in source.inputs.items()}
    module, params = relay.frontend.from_onnx(model, shape=shapes, dtype=types or "float32", freeze_params=True)
    return _bind(module, params)


def _load_torchscript(source: ModelSource) -> tvm.IRModule:
    try:
        import torch
    except ImportError as error:
        raise UserError(
            f"`{source.path}` is TorchScript, and this toolchain has no torch; export the network to ONNX instead."
        ) from error
    if not source.inputs:
        raise UserError("TorchScript does not name its inputs; give each as --input name:dtype[shape].")
    scripted = torch.jit.load(str(source.path), map_location="cpu").eval()
    shapes = [(name, (list(kind.shape), kind.dtype)) for name, kind in source.inputs.items()]
    module, params = relay.frontend.from_pytorch(scripted, shapes)
    return _bind(module, params)


def _load_ir(source: ModelSource) -> tvm.IRModule:
    module = tvm.ir.load_json(source.path.read_text())
    if not isinstance(module, tvm.IRModule):
        raise UserError(f"`{source.path}` holds a {type(module).__name__}; a Relay module is needed.")
    params_file = parameters_beside(source.path)
    params: Mapping[str, tvm.nd.NDArray] = {}
    if params_file.exists():
        params = tvm.runtime.load_param_dict(params_file.read_bytes())
    return _bind(module, params)


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


def _array(value: object) -> tvm.nd.NDArray:
    return value if isinstance(value, tvm.nd.NDArray) else tvm.nd.array(value)


def parameters_beside(path: Path) -> Path:
    """The parameter file that belongs to an IR file: same name, suffix ``.params``."""
    return path.with_suffix(".params")


def _bind(module: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray]) -> tvm.IRModule:
    if params:
        module["main"] = relay.build_module.bind_params_by_name(module["main"], dict(params))
    return relay.transform.InferType()(module)


class _ConstantBatchMatmul(DFPatternCallback):  # type: ignore[misc]
    """batch_matmul(x, constant) → reshape, dense, reshape.

    The importers of some TVM builds turn a matmul with a constant 2-D weight into nn.batch_matmul where upstream
    emits nn.dense, which runs up to 80 times faster: without this the baseline would not be an honest one.
    """

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.data = wildcard()
        weight = is_constant()
        for name in ("reshape", "expand_dims", "squeeze", "transpose"):
            weight = weight | is_op(name)(is_constant())
        self.weight = weight
        self.pattern = is_op("nn.batch_matmul")(self.data, self.weight)

    def callback(self, pre: relay.Expr, post: relay.Expr, node_map: Mapping[object, object]) -> relay.Expr:
        """Rewrite one call if its weight is shared by the whole batch."""
        left, right = pre.args[0].checked_type, pre.args[1].checked_type
        weight = _evaluate(node_map[self.weight][0])  # type: ignore[index]
        sizes = [int(size) if isinstance(size, tvm.tir.IntImm) else -1 for size in left.shape]
        if weight.shape[0] != 1 or pre.attrs.transpose_a or left.dtype != right.dtype:
            return post
        batch, rows, _ = sizes
        if -1 in sizes:
            return post
        matrix = weight[0] if pre.attrs.transpose_b else weight[0].T
        units, depth = matrix.shape
        flat = relay.reshape(node_map[self.data][0], (batch * rows, depth))  # type: ignore[index]
        dense = relay.nn.dense(
            flat, relay.const(np.ascontiguousarray(matrix)), units=units, out_dtype=pre.attrs.out_dtype
        )
        return relay.reshape(dense, (batch, rows, units))


def _evaluate(expression: relay.Expr) -> Array:
    if isinstance(expression, relay.Constant):
        return expression.data.numpy()  # type: ignore[no-any-return]
    value, attrs = expression.args[0].data.numpy(), expression.attrs
    if expression.op.name == "transpose":
        axes = tuple(int(axis) for axis in attrs.axes) if attrs.axes else None
        return np.transpose(value, axes)
    return value.reshape([int(size) for size in expression.checked_type.shape])  # type: ignore[no-any-return]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def tensor_type(kind: object) -> TensorType:
    """A Relay tensor type as plain data; a dynamic dimension is ``None``."""
    shape = tuple(int(size) if isinstance(size, tvm.tir.IntImm) else None for size in kind.shape)  # type: ignore[attr-defined]
    return TensorType(shape, str(kind.dtype))  # type: ignore[attr-defined]
