"""Padding of constant weights where sizes are open, so that columns of products and channels divide into vectors.

Where all sizes are known, ``ScheduleCPU`` finds vectors for any number of columns, of which the last ones may overlap.
Where the number of rows is open, it computes a product with 50,257 columns, as that of GPT-2 with its vocabulary,
number by number. With columns of zeros it has 50,304, and a slice drops those of the product. The slice copies every
output once, while the product adds up as many numbers for it as the weights have rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

LEAST_COLUMNS = 64
"""Columns from which weights are padded. Below, the columns of zeros are a large share of the product."""

LEAST_LANES = 8
"""Columns that are a multiple of it are left as they are: half of the widest vectors fit."""

PADDED_COLUMNS, FEW_PADDED_COLUMNS = 64, 32
"""Padded columns are a multiple of the first, into which four of the widest vectors in a row fit, or of the second."""

LARGEST_SHARE = 1 / 16
"""Zeros as part of the columns up to which there may be as many as the first multiple takes."""


def PadWeights() -> Any:  # noqa: N802
    """Return a pass that pads columns and output channels of constant weights with zeros where results are open."""

    def pad(module: Any, _context: Any) -> Any:
        writer = _Writer(module)
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        return writer.builder_.finalize()

    return tvm.transform.module_pass(pad, opt_level=0, name="PadWeights")


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Replaces products and convolutions by slices of those with padded weights."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        columns = _columns(call)
        if columns is None:
            return call
        data, weights = call.args
        array = weights.value.numpy()
        count = array.shape[columns.of_weights]
        if count < LEAST_COLUMNS or count % LEAST_LANES == 0:
            return call
        zeros = [(0, 0)] * array.ndim
        is_small_share = -count % PADDED_COLUMNS <= LARGEST_SHARE * count
        zeros[columns.of_weights] = (0, -count % (PADDED_COLUMNS if is_small_share else FEW_PADDED_COLUMNS))
        # Without a type, TVM narrows 64 bits to 32.
        constant = relax.const(np.pad(array, zeros), str(array.dtype))
        padded = relax.Call(call.op, [data, constant], call.attrs)
        return relax.op.strided_slice(self.builder_.emit(padded), axes=[columns.of_result], begin=[0], end=[count])


@dataclass(frozen=True)
class _Columns:
    """Dimensions of the columns: in the weights of a product or a convolution, and in its result."""

    of_weights: int
    of_result: int


def _columns(call: Any) -> _Columns | None:
    """Return the columns of a product with constant weights, or the channels of a convolution.

    ``None`` for other calls, and for those of which all sizes are known.
    """
    name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
    if name not in ("relax.matmul", "relax.nn.conv2d") or not isinstance(call.args[1], tvm.ir.GenericConst):
        return None
    sizes = call.ty.shape.values if isinstance(call.ty.shape, relax.ShapeExpr) else (None,)
    if all(isinstance(size, tirx.IntImm) for size in sizes):
        return None
    if name == "relax.matmul":
        rank = len(call.args[1].ty.shape)
        return _Columns(rank - 1, call.ty.ndim - 1) if rank > 1 else None
    kernel_layout, result_layout = str(call.attrs.kernel_layout), str(call.attrs.out_layout)
    is_known = sorted(kernel_layout) == sorted("OIHW") and sorted(result_layout) == sorted("NCHW")
    if not is_known or int(call.attrs.groups) > 1:
        return None
    return _Columns(kernel_layout.index("O"), result_layout.index("C"))
