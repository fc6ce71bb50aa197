"""Converters of ONNX Runtime's attention, in floats and with integers in its first product."""

from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from passsearch.dialects.relax.importers.onnx_integers import all_inputs, constants, floats

op = relax.op

MASKED = -10000.0
"""What ONNX Runtime adds to the scores of tokens that a mask leaves out, unless the node says otherwise."""

_WITHOUT = ("unidirectional", "past_present_share_buffer", "do_rotary")
"""Attributes that TVM's converter refuses, whatever their value."""


class Attention(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of Attention of ``com.microsoft``: TVM's own, but for masks, which that does not broadcast."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = [*all_inputs(inputs), *[None] * 7][:7]
        mask, bias = given[3], given[5]
        kept = {name: value for name, value in attr.items() if name not in _WITHOUT or value}
        if mask is not None:
            added = _bias(bb, mask, float(kept.pop("mask_filter_value", MASKED)))
            bias = added if bias is None else bb.emit(op.add(bias, added))
        return onnx_frontend.Attention._impl_v1(bb, [*given[:3], None, given[4], bias, given[6]], kept, params)


def _bias(bb: Any, mask: Any, filtered: float) -> Any:
    """Return what is added to the scores of shape (batch, heads, queries, keys)."""
    sizes = list(mask.ty.shape)
    if len(sizes) not in (2, 3):
        raise NotImplementedError(f"a mask of {len(sizes)} dimensions is not supported, only those of 2 and 3")
    sizes = [sizes[0], 1, *([1] if len(sizes) == 2 else []), *sizes[1:]]
    left_out = op.subtract(relax.const(1.0, "float32"), op.astype(mask, "float32"))
    return bb.emit(op.reshape(bb.emit(op.multiply(left_out, relax.const(filtered, "float32"))), sizes))


class QAttention(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of QAttention: queries, keys and values are a product of integers; the rest, and the result, floats."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = [*constants(inputs, params), *[None] * 9][:9]
        data, weights, bias, data_scale, weights_scale, mask, data_zero, weights_zero, past = given
        products = floats(bb, (data, data_scale, data_zero), 0), floats(bb, (weights, weights_scale, weights_zero), 1)
        return Attention._impl_v1(bb, [*products, bias, mask, past], attr, params).fields[0]


ATTENTION = {each.__name__: each for each in (Attention, QAttention)}
"""Converters by operator."""
