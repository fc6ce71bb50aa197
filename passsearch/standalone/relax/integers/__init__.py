"""Integer networks: products of quantised tensors as integer products, and 8 bits in memory between operators.

A network in ONNX's QDQ form computes ``quantize(operator(dequantize(q), ...))`` with operators of float32, where
``dequantize(q) = scale * (q - zero)``. A convolution or product of two such operands is ::

    scale_data * scale_weights[o] * (sum(q_data * q_weights) - zero_data * sum(q_weights)[o])

with sums that int32 holds exactly; the second is a constant. Numbers with a sign that the network makes of floats are
moved by 128, and their zero point with them, since processors multiply unsigned data by signed weights; inputs stay as
they are. Operators that only move elements, and the maximum of windows, move the integers. All others compute in
float32 between elementwise operators that take numbers of 8 bits and leave such, which are fused with them. (Jacob et
al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference", 2018; there the
factors are integers as well.)

``IntegerOperators`` (``integer_operators.py``) moves integers through the graph and replaces products
(``products.py``); then the conversions that are left are written out (``arithmetic.py``). ``PairProducts`` makes the
sums fast.
"""

from .integer_operators import NOTES, IntegerOperators

__all__ = ["NOTES", "IntegerOperators"]
