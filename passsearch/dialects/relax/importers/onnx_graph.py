"""Importer of ONNX files that preserves Clip and Pad as operators.

TVM's importer writes Clip and Pad as loops at once. Then no pass for operators and no feature of the analyzer sees a
ReLU6 or an explicit padding. Here both become Relax operators where Relax has one, for the baselines too.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import from_onnx, onnx_frontend

from passsearch.core import TensorType
from passsearch.dialects import onnx_weights
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.onnx_blocks import write_blocks
from passsearch.dialects.onnx_nodes import checked, name_nodes, write_tensors
from passsearch.dialects.onnx_scales import check_scales
from passsearch.dialects.onnx_widening import must_widen, widen
from passsearch.dialects.relax.errors import COMPILER_ERRORS
from passsearch.dialects.relax.importers.onnx_attention import ATTENTION
from passsearch.dialects.relax.importers.onnx_converters import CONVERTERS
from passsearch.dialects.relax.importers.onnx_integers import INTEGERS
from passsearch.dialects.relax.importers.onnx_ranges import RANGES
from passsearch.standalone.relax.deployment.machine import ALIGNMENT_BYTES


def read(source: ModelSource, *, widens: bool = False) -> tvm.IRModule:
    """Return the graph, its weights as constants; that of 16-bit floats computes in float32 if it ``widens``."""
    shapes = {name: list(kind.shape) for name, kind in source.inputs.items()}
    types = {name: kind.dtype for name, kind in source.inputs.items()}
    own = {**CONVERTERS, **ATTENTION, **INTEGERS, **RANGES, "Clip": _Clip, "Pad": _Pad}
    converters = {**onnx_frontend._get_convert_map(), **own}
    # TVM has no interface to replace a converter, so its table is patched during the import. TVM also calls ONNX's
    # checker, which writes out the whole network with its weights, and only warns; so it is left out.
    importer, model = onnx_frontend.ONNXGraphImporter, onnx_weights.load(source.path)
    if must_widen(model, is_cpu=widens):
        widen(model, source.path.parent)
    write_tensors(model)
    write_blocks(model, source.path.parent)
    nodes = name_nodes(model, source.inputs)
    check_scales(model, nodes, source.inputs, folder=source.path.parent)
    convert = checked(importer._convert_operator, nodes=nodes, types_of=_types, errors=COMPILER_ERRORS)
    with (
        patch.object(onnx_frontend, "_get_convert_map", lambda: converters),
        patch.object(importer, "_convert_operator", convert),
        patch.object(importer, "_parse_array", _reads_files(importer._parse_array, source.path.parent)),
        patch.object(onnx.checker, "check_model", lambda *_, **__: None),
    ):
        module = from_onnx(
            model,
            shape_dict=shapes or None,
            dtype_dict=types or "float32",
            sanitize_input_names=False,  # else `input.1` becomes another name than the user's
        )
    _refuse_other_shapes(module, model)
    return module


def _reads_files(parse: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """Return an importer's method that makes an array of a tensor, which may be in a file of this folder."""

    def parse_array(importer: object, tensor: onnx.TensorProto) -> Any:
        if not onnx_weights.is_mapped(tensor):
            return parse(importer, tensor)
        array = onnx_weights.mapped_array(tensor, folder)
        is_aligned = array.ctypes.data % ALIGNMENT_BYTES == 0
        return tvm.runtime.from_dlpack(array) if is_aligned else tvm.runtime.tensor(array)

    return parse_array


def _refuse_other_shapes(module: tvm.IRModule, model: onnx.ModelProto) -> None:
    """Raise an error for a branch whose two results have other shapes, which TVM's build says in its own terms."""

    def check(branch: Any) -> None:
        kinds = branch.ty.fields if isinstance(branch.ty, relax.TupleType) else [branch.ty]
        if any(_tensor_type(kind) is None for kind in kinds):
            names = [node.name or node.output[0] for node in model.graph.node if node.op_type == "If"]
            raise NotImplementedError(
                f"Operator If `{'`, `'.join(names)}`: the branches give values of other shapes; export the network "
                "with a constant condition, as tracing does"
            )

    tvm_ffi.structural_walk(module["main"], (relax.If, check))


def _types(converted: Any) -> Sequence[TensorType | None]:
    """Return the types of what the conversion of a node returns, ``None`` for one that is no tensor."""
    kinds = converted.ty.fields if isinstance(converted.ty, relax.TupleType) else [converted.ty]
    return [_tensor_type(kind) for kind in kinds]


def _tensor_type(kind: Any) -> TensorType | None:
    if not isinstance(kind, relax.TensorType) or kind.ndim < 0 or not isinstance(kind.shape, relax.ShapeExpr):
        return None
    sizes = (int(size) if isinstance(size, tirx.IntImm) else None for size in kind.shape.values)
    return TensorType(tuple(sizes), str(kind.dtype))


class _Clip(onnx_frontend.Clip):  # type: ignore[misc]
    """Converter of Clip; floats with constant bounds become ``relax.clip``."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        lowest, highest = _extremes(str(inputs[0].ty.dtype))
        return relax.op.clip(inputs[0], float(attr.get("min", lowest)), float(attr.get("max", highest)))

    @classmethod
    def _impl_v13(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        data, *bounds = inputs[0], inputs[1], inputs[2]
        dtype = str(data.ty.dtype)
        if "float" not in dtype:
            return cls._between(bb, data, *bounds)
        pairs = zip(bounds, _extremes(dtype), strict=True)
        bounds = [relax.const(extreme, dtype) if bound is None else bound for bound, extreme in pairs]
        low, high = (_bound(bound, params) for bound in bounds)
        if low is None or high is None:
            return cls._between(bb, data, *bounds)
        return relax.op.clip(data, min(low, high), high)  # ONNX takes the upper bound if the bounds are exchanged

    @classmethod
    def _between(cls, bb: Any, data: Any, low: Any, high: Any) -> Any:
        """Return data between bounds that are known at run time; a bound that is not a number does not bound."""
        for bound, extreme in ((low, relax.op.maximum), (high, relax.op.minimum)):
            if bound is not None:
                number = cls._sanitize_nan_clip_bound(bb, bound, for_min=bound is low)
                data = bb.emit(extreme(data, number))
        return data


def _extremes(dtype: str) -> tuple[float, float]:
    """Return the bounds of a Clip without bounds, which also bound infinities."""
    return tirx.min_value(dtype).value, tirx.max_value(dtype).value


def _bound(value: Any, params: Any) -> float | None:
    """Return a constant bound; ``None`` for a bound that is computed or NaN."""
    constant = onnx_frontend.get_constant(value, params)
    if not isinstance(constant, GenericConst):
        return None
    bound = float(constant.value.numpy().item())
    return None if np.isnan(bound) else bound


class _Pad(onnx_frontend.Pad):  # type: ignore[misc]
    """Converter of Pad; a border of one constant number becomes ``relax.nn.pad``."""

    @classmethod
    def _impl_v2(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("mode", b"constant") != b"constant":
            return super()._impl_v2(bb, inputs, attr, params)
        before, after = np.split(np.array(attr["pads"]), 2)
        return _pad(inputs[0], before.tolist(), after.tolist(), float(attr.get("value", 0.0)))

    @classmethod
    def _lower_pad(cls, bb: Any, inputs: Any, attr: Any, params: Any, allowed_modes: Any) -> Any:
        before, after, value = cls._parse_pads_and_axes(inputs, params)
        # A negative width removes elements, for which Relax has no operator.
        is_crop = min((*before, *after), default=0) < 0
        if is_crop or attr.get("mode", b"constant") != b"constant":
            return super()._lower_pad(bb, inputs, attr, params, allowed_modes)
        return _pad(inputs[0], before, after, value)


def _pad(data: Any, before: Sequence[int], after: Sequence[int], value: float) -> Any:
    widths = [int(width) for pair in zip(before, after, strict=True) for width in pair]
    return relax.op.nn.pad(data, widths, pad_value=value)
