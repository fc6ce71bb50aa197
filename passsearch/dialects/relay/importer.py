"""Model files to Relay, with parameters bound and matrix products in the form that runs fast."""

import functools
import operator
from collections.abc import Mapping, Sequence
from importlib import import_module

import numpy as np
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, rewrite, wildcard

from passsearch.core import TensorType
from passsearch.dialects.contract import Array, ModelSource
from passsearch.dialects.relay import ir_file
from passsearch.dialects.relay.refusal import refusal
from passsearch.errors import UserError

READERS = {
    "onnx": "onnx_graph",
    "torchscript": "torchscript",
    "tensorflow": "tensorflow_graph",
    "tflite": "tflite_model",
    "mxnet": "mxnet_symbol",
}
"""Module of ``importers`` by format."""

LAID_OUT = frozenset({"broadcast_to", "expand_dims", "reshape", "squeeze", "transpose"})
"""Operators that move elements and change none."""


def load(source: ModelSource) -> tvm.IRModule:
    """Import one model file.

    Raises:
        UserError: The file cannot be read, has an operator TVM lacks, or an input is missing, unknown or open.
    """
    module = ir_file.read(source) if source.format == "ir" else _import(source)
    module = relay.transform.InferType()(relay.transform.RemoveUnusedFunctions()(module))
    for rewriting in (_IdleLayout(), _QuickMatmul()):
        module["main"] = rewrite(rewriting, module["main"])
    return relay.transform.InferType()(module)


def _import(source: ModelSource) -> tvm.IRModule:
    reader = import_module(f"{__package__}.importers.{READERS[source.format]}")
    try:
        return ir_file.bind(*reader.read(source))
    except (NotImplementedError, tvm.error.OpNotImplemented) as error:
        raise UserError(refusal(source, str(error))) from error


class _IdleLayout(DFPatternCallback):  # type: ignore[misc]
    """reshape, squeeze or broadcast_to of a value to the shape it has → the value.

    PyTorch's importer puts them around every product. They cost copies that no pass of TVM removes, and hide that
    products read one value, which is what combining parallel layers looks for.
    """

    def __init__(self) -> None:
        super().__init__(require_type=True)
        names = ("broadcast_to", "reshape", "squeeze")
        self.pattern = functools.reduce(operator.or_, (is_op(name)(wildcard()) for name in names))

    def callback(self, pre: relay.Expr, post: relay.Expr, _: Mapping[object, object]) -> relay.Expr:
        """Drop one call."""
        idle = tvm.ir.structural_equal(pre.checked_type, pre.args[0].checked_type)
        return post.args[0] if idle else post


class _QuickMatmul(DFPatternCallback):  # type: ignore[misc]
    """batch_matmul(x, constant) → reshape, dense, reshape; batch_matmul(x, y) → batch_matmul(x, transpose(y)ᵀ).

    TVM's importers write a matmul with a constant 2-D weight as nn.batch_matmul (upstream's for PyTorch too) and leave
    its second operand as it lies, for both of which some builds have no schedule worth the name on a CPU: without this
    the baseline would not be an honest one.
    """

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("nn.batch_matmul")(wildcard(), wildcard())
        self._flat: dict[relay.Expr, relay.Expr] = {}

    def callback(self, pre: relay.Expr, post: relay.Expr, _: Mapping[object, object]) -> relay.Expr:
        """Rewrite one call."""
        data, weight = post.args
        left, right = (argument.checked_type for argument in pre.args)
        if pre.attrs.transpose_a or left.dtype != right.dtype:
            return post
        sizes, others = ([_size(size) for size in each.shape] for each in (left, right))
        matrix = _shared_matrix(pre.args[1]) if others[0] in (1, sizes[0]) else None
        if matrix is not None and -1 not in sizes:
            turned = matrix if pre.attrs.transpose_b else matrix.T
            return self._dense(data, turned, sizes=sizes, out_dtype=pre.attrs.out_dtype)
        if pre.attrs.transpose_b:
            return post
        turned = relay.transpose(weight, (0, 2, 1))
        return relay.nn.batch_matmul(data, turned, out_dtype=pre.attrs.out_dtype, transpose_b=True)

    def _dense(self, data: relay.Expr, matrix: Array, *, sizes: Sequence[int], out_dtype: str) -> relay.Expr:
        batch, rows, depth = sizes
        # Once for all layers that read it: they are parallel only if they read the same node.
        flat = self._flat.setdefault(data, relay.reshape(data, (batch * rows, depth)))
        weight = relay.const(np.ascontiguousarray(matrix))
        dense = relay.nn.dense(flat, weight, units=len(matrix), out_dtype=out_dtype)
        return relay.reshape(dense, (batch, rows, len(matrix)))


def _size(size: object) -> int:
    return int(size) if isinstance(size, tvm.tir.IntImm) else -1


def _shared_matrix(expression: relay.Expr) -> Array | None:
    """The one constant matrix that the whole batch is multiplied with; ``None`` where there is none."""
    value = _value(expression)
    return value[0] if value is not None and (value == value[:1]).all() else None


def _value(expression: relay.Expr) -> Array | None:
    """Of a constant that is only laid out anew."""
    if isinstance(expression, relay.Constant):
        return expression.data.numpy()  # type: ignore[no-any-return]
    if not isinstance(expression, relay.Call) or getattr(expression.op, "name", None) not in LAID_OUT:
        return None
    value = _value(expression.args[0])
    if value is None:
        return None
    shape = [int(size) for size in expression.checked_type.shape]
    if expression.op.name == "transpose":
        axes = expression.attrs.axes
        return np.transpose(value, tuple(int(axis) for axis in axes) if axes else None)
    return np.broadcast_to(value, shape) if expression.op.name == "broadcast_to" else value.reshape(shape)


def tensor_type(kind: object) -> TensorType:
    """A Relay tensor type as plain data; a dynamic dimension is ``None``."""
    shape = tuple(int(size) if isinstance(size, tvm.tir.IntImm) else None for size in kind.shape)  # type: ignore[attr-defined]
    return TensorType(shape, str(kind.dtype))  # type: ignore[attr-defined]
