"""Padding of constant weights, so that the columns of matrix products divide into vectors.

A product with 50,257 columns, as that of GPT-2 with its vocabulary, has no width that divides into vectors, so
``ScheduleCPU`` computes it number by number. With columns of zeros it has 50,304, and a slice drops those of the
product. The slice copies every output once, while the product adds up as many numbers for it as the weights have rows.

Imports only TVM and numpy, because an exported deployment holds a copy of this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

LEAST_COLUMNS = 64
"""Columns from which weights are padded. Below, the columns of zeros are a large share of the product."""

LEAST_LANES = 8
"""Columns that are a multiple of it are left as they are: half of the widest vectors fit."""

PADDED_COLUMNS = 64
"""Padded columns are a multiple of it, which several of the widest vectors in a row fit into."""


def PadWeights() -> Any:  # noqa: N802
    """Return a pass that pads the columns of constant weights, the right operands of matrix products, with zeros."""

    def pad(module: Any, _context: Any) -> Any:
        writer = _Writer(module)
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        return writer.builder_.finalize()

    return tvm.transform.module_pass(pad, opt_level=0, name="PadWeights")


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Replaces products by slices of products with padded weights."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, tvm.ir.Op) or call.op.name != "relax.matmul":
            return call
        data, weights = call.args
        if not isinstance(weights, tvm.ir.GenericConst):
            return call
        array = weights.value.numpy()
        *rows, columns = array.shape
        if not rows or columns < LEAST_COLUMNS or columns % LEAST_LANES == 0:
            return call
        zeros = [(0, 0)] * len(rows) + [(0, -columns % PADDED_COLUMNS)]
        product = relax.op.matmul(data, relax.const(np.pad(array, zeros)), call.attrs.out_dtype)
        last = len(call.ty.shape) - 1
        return relax.op.strided_slice(self.builder_.emit(product), axes=[last], begin=[0], end=[columns])
