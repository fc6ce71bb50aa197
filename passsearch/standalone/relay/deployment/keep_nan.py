"""The pass over lowered kernels that makes ReLU and clip keep what is not a number.

TVM computes the larger of two floats as ``a > b ? a : b``, so of ``max(x, 0)`` it makes 0 where x is not a number.
PyTorch, ONNX Runtime and TensorFlow do not do that. With the constant on the left, the same instruction keeps it. The
network's operators stay as they are, so that passes recognise them.
"""

from __future__ import annotations

from typing import Any

import tvm

LOWER_PASSES = "tir.add_lower_pass"
"""TVM's option of a build with passes over each kernel, each with the phase after which it runs."""

LAST_PHASE = 3


def keep_nan(config: dict[str, Any]) -> dict[str, Any]:
    """Return options of a build with the pass added."""
    return {**config, LOWER_PASSES: [*config.get(LOWER_PASSES, ()), (LAST_PHASE, _constants_first())]}


def _constants_first() -> Any:
    def exchange(function: Any, module: Any, context: Any) -> Any:
        body = tvm.tir.stmt_functor.ir_transform(function.body, None, _exchange, ["tir.Max", "tir.Min"])
        return function.with_body(body)

    return tvm.tir.transform.prim_func_pass(exchange, opt_level=0, name="KeepNaN")


def _exchange(node: Any) -> Any:
    """Return a maximum or minimum with its constant on the left; ``None``, which changes nothing, for others."""
    if "float" not in node.dtype or not _is_constant(node.b) or _is_constant(node.a):
        return None
    return type(node)(node.b, node.a)


def _is_constant(value: Any) -> bool:
    return isinstance(value.value if isinstance(value, tvm.tir.Broadcast) else value, tvm.tir.FloatImm)
