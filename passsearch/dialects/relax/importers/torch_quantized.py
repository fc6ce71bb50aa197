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
    if kind.is_floating_point:
        raise _refusal(node, f"{dtype} is not supported; quantise to integers")
    limits = torch.iinfo(kind)
    scale = _array(node, scales, arrays).astype("float32")
    zero = np.zeros(scale.shape) if zeros is None else _array(node, zeros, arrays)
    if (wrong := scale[~(np.isfinite(scale) & (scale > 0))]).size:
        raise _refusal(node, f"the scale {wrong[0]:g} is not supported; quantise with positive numbers")
    if (wrong := zero[(zero < limits.min) | (zero > limits.max) | (zero != np.rint(zero))]).size:
        allowed = f"use integers from {limits.min} to {limits.max}"
        raise _refusal(node, f"the zero point {wrong[0]:g} is no {dtype}; {allowed}")
    # TVM takes constants of the quantised type; in PyTorch they are Python's numbers, or vectors of int64.
    constants = relax.const(scale, "float32"), relax.const(zero.astype(dtype), dtype)
    if str(node.target).startswith("quantized_decomposed.dequantize"):
        result = bb.emit(op.dequantize(data, *constants, axis=axis, out_dtype="float32"))
        out_dtype = str(node.kwargs.get("out_dtype") or "float32").removeprefix("torch.")
        return result if out_dtype == "float32" else bb.emit(op.astype(result, out_dtype))
    result = bb.emit(op.quantize(data, *constants, axis=axis, out_dtype=dtype))
    return result if (low, high) == (limits.min, limits.max) else bb.emit(op.clip(result, low, high))


def _array(node: Any, value: Any, arrays: Mapping[str, Any]) -> Any:
    """Return an argument of a node as an array of numpy, whether it is a number or a tensor of the program."""
    if not hasattr(value, "name"):
        return np.asarray(value)
    while str(value.target) == "aten.clone.default":  # PyTorch copies the tensors that a module's code makes
        value = value.args[0]
    if value.name not in arrays:
        raise _refusal(node, f"`{value.name}`, which it takes, is known at run time only; make it a buffer")
    return arrays[value.name].detach().cpu().double().numpy()


def _refusal(node: Any, reason: str) -> NotImplementedError:
    operator = str(node.target).split(".")[1]
    return NotImplementedError(f"Operator {operator} `{node.name}`: {reason}")
