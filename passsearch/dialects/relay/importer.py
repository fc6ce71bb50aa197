"""Import model files into Relay, with parameters bound and matrix products in the form that runs fast."""

import functools
import operator
from collections.abc import Mapping, Sequence
from importlib import import_module

import numpy as np
import tvm
from tvm import relay
from tvm.ir.diagnostics import override_renderer
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, rewrite, wildcard

from passsearch.core import TensorType
from passsearch.dialects.contract import Array, ModelSource, SourceNetwork
from passsearch.dialects.refusal import refusal_message
from passsearch.dialects.relay import ir_file
from passsearch.dialects.relay.casts import HalvedTwice, KeptCasts
from passsearch.dialects.relay.errors import IMPORT_ERRORS
from passsearch.errors import UserError

READERS = {
    "onnx": "onnx_graph",
    "torchscript": "torchscript",
    "tensorflow": "tensorflow_graph",
    "tflite": "tflite_model",
    "mxnet": "mxnet_symbol",
}
"""Module of ``importers`` that reads each format."""

_DIAGNOSED = "one or more error diagnostics were emitted, please check diagnostic render for output."

LAYOUT_OPERATORS = frozenset({"broadcast_to", "expand_dims", "reshape", "squeeze", "transpose"})
"""Operators that move or repeat elements and do not change their values."""


def load(source: ModelSource, *, widens: bool = False) -> tvm.IRModule:
    """Return the module of one model file.

    Args:
        source: The file.
        widens: True to compute an ONNX network of 16-bit floats in float32.

    Raises:
        UserError: The file cannot be read, it has an operator that TVM lacks, or an input is missing, unknown or open.
    """
    module = ir_file.read(source) if source.format == "ir" else _import(source, widens=widens)
    module = relay.transform.InferType()(relay.transform.RemoveUnusedFunctions()(module))
    # Layouts first: parallel products share one flattened input only if they already read one node.
    for rewriting in (_RedundantLayout(), _FastMatmul(), HalvedTwice(), KeptCasts()):
        module["main"] = rewrite(rewriting, module["main"])
    return relay.transform.InferType()(module)


def _import(source: ModelSource, *, widens: bool) -> tvm.IRModule:
    reader = import_module(f"{__package__}.importers.{READERS[source.format]}")
    diagnostics: list[str] = []
    # TVM prints what its type checker finds, and its error only says that it did.
    override_renderer(lambda context: diagnostics.extend(str(each.message) for each in context.diagnostics))
    try:
        return ir_file.bind(*reader.read(source, **({"widens": widens} if source.format == "onnx" else {})))
    except IMPORT_ERRORS as error:
        found = diagnostics[-1].strip().splitlines()[-1] if diagnostics else _DIAGNOSED
        raise UserError(refusal_message(source, str(error).replace(_DIAGNOSED, found))) from error
    finally:
        override_renderer(None)


def open_source(source: ModelSource) -> SourceNetwork:
    """Return a model file as its own framework runs it.

    Raises:
        UserError: The framework is not installed, or refuses the file.
    """
    reader = import_module(f"{__package__}.importers.{READERS[source.format]}")
    network: SourceNetwork = reader.open_source(source)
    return network


class _RedundantLayout(DFPatternCallback):  # type: ignore[misc]
    """Rewrites reshape, squeeze or broadcast_to of a value to the shape it already has: returns the value.

    PyTorch's importer puts such calls around every product. They cost copies that no pass of TVM removes. They also
    hide that several products read one value, which CombineParallelDense and its like need to see.
    """

    def __init__(self) -> None:
        super().__init__(require_type=True)
        names = ("broadcast_to", "reshape", "squeeze")
        self.pattern = functools.reduce(operator.or_, (is_op(name)(wildcard()) for name in names))

    def callback(self, pre: relay.Expr, post: relay.Expr, _: Mapping[object, object]) -> relay.Expr:
        """Return the operand of a call that does not change the shape."""
        is_redundant = tvm.ir.structural_equal(pre.checked_type, pre.args[0].checked_type)
        return post.args[0] if is_redundant else post


class _FastMatmul(DFPatternCallback):  # type: ignore[misc]
    """Rewrites batch_matmul(x, constant) to reshape, dense, reshape, and batch_matmul(x, y) to read y transposed.

    TVM's importers write a matmul with a constant 2-D weight as nn.batch_matmul (upstream's importer of PyTorch too)
    and do not transpose its second operand. Some builds have no good CPU schedule for either form: BERT with two layers
    took 28 s an inference, and 0.44 s after this rewriting. Without it, the baseline would be unfairly slow.
    """

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("nn.batch_matmul")(wildcard(), wildcard())
        self._flat_inputs: dict[relay.Expr, relay.Expr] = {}

    def callback(self, pre: relay.Expr, post: relay.Expr, _: Mapping[object, object]) -> relay.Expr:
        """Return the fast form of one call."""
        data, weight = post.args
        left, right = (argument.checked_type for argument in pre.args)
        if pre.attrs.transpose_a or left.dtype != right.dtype:
            return post
        sizes, others = ([_size(size) for size in kind.shape] for kind in (left, right))
        # One matrix for the whole batch: only then is the product a dense layer.
        matrix = _shared_matrix(pre.args[1]) if others[0] in (1, sizes[0]) else None
        if matrix is not None and -1 not in sizes:
            transposed = matrix if pre.attrs.transpose_b else matrix.T
            return self._dense(data, transposed, sizes=sizes, out_dtype=pre.attrs.out_dtype)
        if pre.attrs.transpose_b:
            return post
        transposed = relay.transpose(weight, (0, 2, 1))
        return relay.nn.batch_matmul(data, transposed, out_dtype=pre.attrs.out_dtype, transpose_b=True)

    def _dense(self, data: relay.Expr, matrix: Array, *, sizes: Sequence[int], out_dtype: str) -> relay.Expr:
        batch, rows, depth = sizes
        # One reshape for all layers that read the value: TVM combines parallel layers only if they read one node.
        flat = self._flat_inputs.setdefault(data, relay.reshape(data, (batch * rows, depth)))
        weight = relay.const(np.ascontiguousarray(matrix))
        dense = relay.nn.dense(flat, weight, units=len(matrix), out_dtype=out_dtype)
        return relay.reshape(dense, (batch, rows, len(matrix)))


def _size(size: object) -> int:
    """Return a dimension's size, -1 for a dynamic one."""
    return int(size) if isinstance(size, tvm.tir.IntImm) else -1


def _shared_matrix(expression: relay.Expr) -> Array | None:
    """Return the constant matrix that the whole batch is multiplied with; ``None`` if there is no such matrix."""
    value = _constant_value(expression)
    return value[0] if value is not None and (value == value[:1]).all() else None


def _constant_value(expression: relay.Expr) -> Array | None:
    """Return the value of a constant, or of a constant behind layout operators; else ``None``."""
    if isinstance(expression, relay.Constant):
        return expression.data.numpy()  # type: ignore[no-any-return]
    if not isinstance(expression, relay.Call) or getattr(expression.op, "name", None) not in LAYOUT_OPERATORS:
        return None
    value = _constant_value(expression.args[0])
    if value is None:
        return None
    shape = [int(size) for size in expression.checked_type.shape]
    if expression.op.name == "transpose":
        axes = expression.attrs.axes
        return np.transpose(value, tuple(int(axis) for axis in axes) if axes else None)
    return np.broadcast_to(value, shape) if expression.op.name == "broadcast_to" else value.reshape(shape)


def tensor_type(kind: object) -> TensorType:
    """Return a Relay tensor type as plain data; a dynamic dimension is ``None``."""
    shape = tuple(int(size) if isinstance(size, tvm.tir.IntImm) else None for size in kind.shape)  # type: ignore[attr-defined]
    return TensorType(shape, str(kind.dtype))  # type: ignore[attr-defined]
