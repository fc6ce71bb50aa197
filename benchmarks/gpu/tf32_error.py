"""Prints how far outputs move when factors are rounded to TF32: ``python -m benchmarks.gpu.tf32_error bert_base gpt2``.

numpy computes the network in float32 by ONNX's reference evaluator, as it is and with the factors of all products and
convolutions rounded to 10 bits after the point. Its own sums have errors of 1e-6. No TVM and no device are needed.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv import Conv as ReferenceConv

from benchmarks.common import options
from passsearch.frontends import resolve

NETWORKS = ("bert_tiny", "resnet_tiny", "bert_base", "mobilenet_v2", "gpt2", "resnet50")
TOKENS = 90
"""Token ids are below; masks and types of tokens are 0 or 1."""


def main() -> None:
    """Print the largest and the mean deviation of each network's outputs."""
    for name in options(__doc__, ("networks", NETWORKS)).networks:
        with tempfile.TemporaryDirectory() as folder:
            model = onnx.load(str(resolve(f"zoo:{name}", folder=Path(folder)).path))
            values = inputs(model)
            exact = ReferenceEvaluator(model).run(None, values)
            found = ReferenceEvaluator(model, new_ops=[MatMul, Gemm, Conv]).run(None, values)
        pairs = [(np.float64(own), np.float64(other)) for own, other in zip(found, exact, strict=True)]
        largest = max(abs(own - other).max() / abs(other).max() for own, other in pairs)
        mean = max(abs(own - other).mean() / abs(other).mean() for own, other in pairs)
        print(f"{name}: {largest:.2e} of the largest value, {mean:.2e} of the mean magnitude on average", flush=True)


def rounded(factors: Any) -> Any:
    """Return factors as TF32, the nearer ones, ties away from zero."""
    if factors.dtype != np.float32:
        return factors
    words = np.ascontiguousarray(factors).view(np.uint32) + 0x1000
    return (words & 0xFFFFE000).astype(np.uint32).view(np.float32)


def inputs(model: onnx.ModelProto) -> dict[str, Any]:
    random, values = np.random.default_rng(0), {}
    weights = {each.name for each in model.graph.initializer}
    for each in (each for each in model.graph.input if each.name not in weights):
        kind = each.type.tensor_type
        shape = [size.dim_value for size in kind.shape.dim]
        if kind.elem_type == onnx.TensorProto.FLOAT:
            values[each.name] = random.standard_normal(shape).astype(np.float32)
        else:
            most = 2 if "mask" in each.name or "type" in each.name else TOKENS
            values[each.name] = random.integers(0, most, shape)
    return values


class MatMul(OpRun):
    op_domain = ""

    def _run(self, left: Any, right: Any) -> Any:
        return (np.matmul(rounded(left), rounded(right)),)


class Gemm(OpRun):
    op_domain = ""

    def _run(
        self,
        left: Any,
        right: Any,
        bias: Any = None,
        alpha: float = 1.0,
        beta: float = 1.0,
        transA: int = 0,  # noqa: N803 -- names of ONNX
        transB: int = 0,  # noqa: N803
    ) -> Any:
        left, right = left.T if transA else left, right.T if transB else right
        product = np.float32(alpha) * (rounded(left) @ rounded(right))
        return (product if bias is None else product + np.float32(beta) * bias,)


class Conv(ReferenceConv):  # type: ignore[misc]
    op_domain = ""

    def _run(self, data: Any, weights: Any, *others: Any, **attributes: Any) -> Any:
        return super()._run(rounded(data), rounded(weights), *others, **attributes)


if __name__ == "__main__":
    main()
