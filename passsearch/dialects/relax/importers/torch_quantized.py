"""Converters of the operators by which PyTorch's ``pt2e`` quantises: they become Relax's quantize and dequantize."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from tvm import relax

from passsearch.dialects.relax.importers.torch_parameters import parameters

op = relax.op

PER_TENSOR, PER_CHANNEL = "per_tensor.default", "per_channel.default"


def quantized_converters(program: Any) -> dict[str, Callable[[Any, Any], Any]]:
    """Return the converters of a program's quantising operators by their names; none if it has no such operator."""
    targets = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    convert = functools.partial(_convert, arrays=parameters(program))
    kinds = [f"{word}_{kind}" for word in ("quantize", "dequantize") for kind in (PER_TENSOR, PER_CHANNEL)]
    return {kind: convert for kind in kinds if f"quantized_decomposed.{kind}" in targets}


def _convert(node: Any, importer: Any, *, arrays: Mapping[str, Any]) -> Any:
    data, bb = importer.env[node.args[0]], importer.block_builder
    scales, zeros, *rest = node.args[1:]
    axis = rest.pop(0) if "per_channel" in str(node.target) else 0
    low, high, kind = rest[:3]
    dtype = str(kind).removeprefix("torch.")
    limits, steps, offsets = torch.iinfo(kind), _array(scales, arrays), _array(zeros, arrays)
    if not (np.isfinite(steps) & (steps > 0)).all():
        raise ValueError(f"{node.name} has a scale that is no positive number")
    if not ((limits.min <= offsets) & (offsets <= limits.max)).all():
        raise ValueError(f"{node.name} has a zero point that {dtype} does not have")
    if node.kwargs.get("out_dtype") not in (None, torch.float32):
        raise ValueError(f"{node.name} returns {node.kwargs['out_dtype']}; float32 is supported")
    # TVM takes constants of the quantised type; in PyTorch they are Python's numbers, or vectors of int64.
    scale, zero = relax.const(steps.astype("float32"), "float32"), relax.const(offsets.astype(dtype), dtype)
    if str(node.target).startswith("quantized_decomposed.dequantize"):
        return bb.emit(op.dequantize(data, scale, zero, axis=axis, out_dtype="float32"))
    result = bb.emit(op.quantize(data, scale, zero, axis=axis, out_dtype=dtype))
    return result if (low, high) == (limits.min, limits.max) else bb.emit(op.clip(result, low, high))


def _array(value: Any, arrays: Mapping[str, Any]) -> Any:
    return arrays[value.name].detach().cpu().numpy() if hasattr(value, "name") else np.asarray(value)
