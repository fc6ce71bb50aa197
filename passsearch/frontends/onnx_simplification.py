"""Constant parts of ONNX networks are evaluated before a compiler imports them.

Exporters write shapes as computations (Shape, Gather, Concat, Reshape), whose results are constants once the sizes of
the inputs are known. TVM's importers refuse many of them or import them as shapes that are known at run time only.
Functions of the file itself, of which TVM's importers know none, are written out where they are called, and so are
operators that ONNX defines by simpler ones and that TVM's importers lack, such as attention.
onnxscript's optimizer evaluates them by ONNX's own reference implementation. It fuses nothing, so a baseline gains
nothing from it. Operators of other domains are not evaluated, so no code of a file runs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from passsearch.frontends.model_file import ModelFile, cache_file_name, save_file

if TYPE_CHECKING:
    import onnx
    import onnx_ir

SHAPE_READERS = frozenset({"Shape", "Size"})
"""Operators whose result is constant as soon as the sizes of their input are."""

ONNX = ("", "ai.onnx")
"""Names of the domain of ONNX's own operators."""

KEPT = frozenset({"ConstantOfShape", "DequantizeLinear", "QuantizeLinear"})
"""Operators that may stand between constants: fills of any size, and quantised weights, which must stay so."""

WRITTEN_OUT = frozenset(
    {"Attention", "CausalConvWithState", "CenterCropPad", "NegativeLogLikelihoodLoss", "RotaryEmbedding"}
    | {"SoftmaxCrossEntropyLoss", "SwiGLU"}
)
"""ONNX's own operators that are written out by their definition in ONNX."""

LARGEST_BYTES = 1 << 31
"""Protobuf's limit of one file."""

LARGEST_FILL = 1 << 26
"""Most elements of a fill that is evaluated; a file of a few bytes can ask for more than the memory holds."""

GROWING = frozenset({"Einsum", "Expand", "EyeLike", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"})
"""Operators whose result may be larger than what they read."""

_log = logging.getLogger(__name__)


def simplify_onnx(file: ModelFile, folder: Path) -> ModelFile:
    """Return a network whose constant parts are evaluated and whose functions are written out, where it has some.

    The record stands for the same network: its path changes, and it keeps the original.

    Args:
        file: An ONNX file with bound inputs.
        folder: Folder for the simplified file.

    Raises:
        EnvironmentFault: The folder cannot be written.
    """
    import onnx

    model = onnx.load(str(file.path), load_external_data=False)
    is_written_out = bool(model.functions) or _has_defined(model.graph)
    if not (is_written_out or _has_constant_part(model.graph)):
        return file
    if _weight_bytes(model.graph) >= LARGEST_BYTES:
        _log.warning("`%s` is imported as it is, because its weights are over 2 GiB.", file.source)
        return file
    identity = [file.sha256, sorted((name, str(kind)) for name, kind in file.inputs.items()), simplifier_version()]
    identity += ["written out"] if is_written_out else []
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    name = cache_file_name(f"{file.name}-simplified", digest, suffix=".onnx")
    try:
        path = save_file(folder, name, write=lambda path: _write_simplified(file, path))
        return replace(file, path=path, original=file.original or file)
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError, MemoryError) as error:
        # The optimizer evaluates whatever the file holds; the importer may still read the file as it is.
        _log.warning("`%s` is imported as it is, because it cannot be simplified (%s)", file.source, error)
        return file


def simplifier_version() -> str:
    """Return the version of the library that simplifies, on which the network that a compiler gets depends."""
    return version("onnxscript")


def _has_constant_part(graph: onnx.GraphProto) -> bool:
    """Return whether an operator reads sizes, or nothing but constants."""
    constants = {weight.name for weight in graph.initializer} - {value.name for value in graph.input} | {""}
    constants |= {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    return any(
        node.op_type in SHAPE_READERS
        or (node.op_type == "Constant" and any(attribute.name != "value" for attribute in node.attribute))
        or (node.input and node.op_type not in KEPT and constants.issuperset(node.input))
        or any(_has_constant_part(branch) for branch in _branches(node))
        for node in graph.node
    )


def _has_defined(graph: onnx.GraphProto) -> bool:
    """Return whether an operator is one of those to write out."""
    return any(
        (node.op_type in WRITTEN_OUT and node.domain in ONNX) or any(map(_has_defined, _branches(node)))
        for node in graph.node
    )


def _branches(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g


def _weight_bytes(graph: onnx.GraphProto) -> int:
    from onnx import helper

    sizes = (helper.tensor_dtype_to_np_dtype(weight.data_type).itemsize for weight in graph.initializer)
    counts = (math.prod(weight.dims) for weight in graph.initializer)
    return sum(size * count for size, count in zip(sizes, counts, strict=True))


def _write_simplified(file: ModelFile, path: Path) -> None:
    import onnx_ir
    from onnx_ir.passes.common import InlinePass, LiftConstantsToInitializersPass, RemoveUnusedNodesPass
    from onnxscript import optimizer

    _log.info("Evaluating the constant parts of `%s`.", file.source)
    model = onnx_ir.load(file.path)
    onnx_ir.external_data.load_to_model(model)
    InlinePass()(model)
    model = _define(model)  # after the functions, which may hold such operators
    for value in model.graph.inputs:
        if kind := file.inputs.get(value.name or ""):
            value.shape = onnx_ir.Shape(kind.shape)
    # A fill of a known shape is a constant too; importers need it as one where it is part of a shape or a mask.
    optimizer.fold_constants(model, onnx_shape_inference=True, should_fold=_folds)
    # TVM reads a constant that is a tensor, and not the numbers and lists that ONNX allows as well.
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    RemoveUnusedNodesPass()(model)
    onnx_ir.save(model, path)


def _define(model: onnx_ir.Model) -> onnx_ir.Model:
    """Return a model in which the operators of ``WRITTEN_OUT`` are replaced by the nodes that define them in ONNX."""
    import onnx_ir
    from onnx import inliner

    proto = onnx_ir.to_proto(model)
    if not _has_defined(proto.graph):
        return model
    names = [(domain, name) for domain in ONNX for name in sorted(WRITTEN_OUT)]
    written = inliner.inline_selected_functions(proto, names, exclude=False, inline_schema_functions=True)
    return onnx_ir.from_proto(written)


def _folds(node: Any) -> bool | None:
    """Return whether a node is evaluated: fills are, huge ones are not; ``None`` leaves it to the optimizer's rule."""
    if node.op_type == "ConstantOfShape":
        return bool(math.prod(node.inputs[0].const_value.numpy().tolist()) <= LARGEST_FILL)
    # The optimizer looks at the size of a result after it has made it.
    known = [value.shape.numpy() for value in node.outputs if value.shape is not None and value.shape.is_static()]
    is_unknown = len(known) < len(node.outputs) and node.op_type in GROWING
    return False if is_unknown or any(math.prod(sizes) > LARGEST_FILL for sizes in known) else None
