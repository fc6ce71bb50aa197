"""Front end for ONNX files and models in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from passsearch.core import DeclaredInput, Dimension, bind_inputs, strict_limit
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files, save_bytes
from passsearch.frontends.request import ModelRequest
from passsearch.frontends.stand_in import refuse_stand_in

if TYPE_CHECKING:
    import onnx


UNREAD_FORMATS = (
    *("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"),
    *("FLOAT4E2M1", "INT4", "UINT4", "INT2", "UINT2"),
)
"""ONNX's names of the formats of numbers that TVM's importers do not read; this onnx may not know all of them."""


@dataclass(frozen=True)
class OnnxFile:
    """The declarations of an ONNX file.

    Attributes:
        inputs: Declared inputs, without those that have an initializer.
        external: Files beside it that hold weights, sorted.
        dtypes: Dtypes that it computes in: those of its weights, inputs and casts.
        quantizes: True if it rounds floats to integers somewhere.
        empty: Names of the inputs that it declares with a size of 0.
    """

    inputs: tuple[DeclaredInput, ...]
    external: tuple[Path, ...]
    dtypes: frozenset[str] = frozenset()
    quantizes: bool = False
    empty: tuple[str, ...] = ()


def from_path(path: Path, request: ModelRequest, *, name: str | None = None) -> ModelFile:
    """Return an ONNX file with its open dimensions bound.

    Raises:
        UserError: ``read`` refuses the file, or an input is unknown, does not fit or stays open.
    """
    file = read(path)
    _refuse_empty(file, request)
    inputs = bind_inputs(file.inputs, types=request.inputs, batch=request.batch)
    digest = digest_files((path, *file.external))
    limit = strict_limit(file.dtypes, quantizes=file.quantizes)
    return ModelFile(path, "onnx", name or path.stem, request.source, digest, inputs, limit=limit)


def from_proto(model: onnx.ModelProto, request: ModelRequest) -> ModelFile:
    """Save a model in memory under a name made from its content.

    Raises:
        UserError: ``from_path`` refuses the model, it is over 2 GiB, or its weights are in files whose folder is
            unknown.
        EnvironmentFault: The folder cannot be written.
    """
    name = model.graph.name or "network"
    return from_path(save_bytes(request.folder, _serialize(model), name=name, suffix=".onnx"), request, name=name)


def read(path: Path) -> OnnxFile:
    """Read the declarations of an ONNX file; weights in other files are not loaded.

    Raises:
        UserError: The file is not ONNX, holds no operator or an operator set of the future, or a file with its weights
            is missing or in another folder.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"Cannot read `{path}` as ONNX ({reason}); export the network again.") from error
    # Protobuf accepts many files of other kinds, as a model in which every field is empty.
    if not model.graph.node:
        raise UserError(f"Cannot read `{path}` as ONNX (no operator in it); export the network again.")
    _check_opset(model, path)
    _check_number_formats(model, path)
    names = sorted(set(_external_files(model)))
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise UserError(
                f"`{path}` keeps weights in `{name}`, which is not in its folder; export the network again."
            )
    external = tuple(path.parent / name for name in names)
    for file in external:
        if not file.is_file():
            raise UserError(f"`{path}` keeps weights in `{file.name}`, which is missing; put it beside the model.")
        refuse_stand_in(file, str(file))
    inputs = _declared_inputs(model)
    dtypes = _computed_dtypes(model) | {each.dtype for each in inputs}
    quantizes = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    empty = [
        value.name for value in model.graph.input if any(_is_zero(dim) for dim in value.type.tensor_type.shape.dim)
    ]
    return OnnxFile(inputs, external, frozenset(dtypes), quantizes, tuple(empty))


def _refuse_empty(file: OnnxFile, request: ModelRequest) -> None:
    """Refuse inputs with a declared size of 0, unless the user gives sizes in its place."""
    for name in file.empty:
        if name not in request.inputs and request.batch is None:
            raise UserError(
                f"Input `{name}` is declared with a size of 0, and holds nothing; export the network with sizes of 1 "
                f"or more. Where the exporter means an open size, give it, for example: --input {name}:float32[1]"
            )


def _is_zero(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return dim.HasField("dim_value") and dim.dim_value == 0


def _check_opset(model: onnx.ModelProto, path: Path) -> None:
    import onnx

    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        # Operators may have changed their meaning; importers read them as those that they know, without an error.
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            raise UserError(
                f"`{path}` needs operator set {opset.version}; onnx {onnx.__version__} here knows 1 to {newest}. "
                f"Export the network for one of those, or install a newer onnx."
            )


def _computed_dtypes(model: onnx.ModelProto) -> set[str]:
    from onnx import helper

    known = {*helper.get_all_tensor_dtypes()}
    nodes = [*model.graph.node, *_nodes_of_functions(model)]
    numbers = {weight.data_type for weight in _tensors(model.graph.initializer, nodes)}
    numbers |= {each.i for node in nodes if node.op_type == "Cast" for each in node.attribute if each.name == "to"}
    # A damaged file may have a number of no type.
    return {str(helper.tensor_dtype_to_np_dtype(number)) for number in numbers & known if number}


def _check_number_formats(model: onnx.ModelProto, path: Path) -> None:
    """Refuse weights and inputs in formats that no importer of TVM reads."""
    from onnx import TensorProto

    weights = _tensors(model.graph.initializer, [*model.graph.node, *_nodes_of_functions(model)])
    formats = [(weight.name, weight.data_type) for weight in weights]
    formats += [(value.name, value.type.tensor_type.elem_type) for value in model.graph.input]
    names = list(TensorProto.DataType.keys())
    unread = {TensorProto.DataType.Value(name) for name in UNREAD_FORMATS if name in names}
    for name, number in formats:
        if number in unread:
            raise UserError(
                f"`{path}` has `{name}` in {TensorProto.DataType.Name(number).lower()}, which TVM does not import from "
                f"ONNX; convert the network to float32 or float16 and export it again."
            )


def _serialize(model: onnx.ModelProto) -> bytes:
    """Return the bytes of a model in memory; equal models give equal bytes."""
    from google.protobuf.message import EncodeError

    if not model.graph.node:
        raise UserError("The ONNX model holds no operator; give one that computes something.")
    if next(_external_files(model), None) is not None:
        raise UserError("The ONNX model keeps its weights in other files; give the path of its file instead.")
    try:
        return bytes(model.SerializeToString(deterministic=True))
    except (EncodeError, ValueError) as error:
        raise UserError("An ONNX model over 2 GiB needs external data; save it so and give the path.") from error


def _external_files(model: onnx.ModelProto) -> Iterator[str]:
    """Yield the names of the files that hold weights, relative to the model's folder."""
    from onnx import TensorProto

    for tensor in _tensors(model.graph.initializer, [*model.graph.node, *_nodes_of_functions(model)]):
        if tensor.data_location == TensorProto.EXTERNAL:
            yield from (entry.value for entry in tensor.external_data if entry.key == "location")


def _tensors(weights: Iterable[onnx.TensorProto], nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    """Yield weights, and the tensors in the attributes of operators, those of loops and branches included."""
    yield from weights
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
            yield from _tensors(graph.initializer, graph.node)


def _nodes_of_functions(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    yield from (node for function in model.functions for node in function.node)


def _declared_inputs(model: onnx.ModelProto) -> tuple[DeclaredInput, ...]:
    # Before IR version 4 a weight had to be listed among the inputs as well.
    weights = {tensor.name for tensor in model.graph.initializer}
    return tuple(_declared_input(value) for value in model.graph.input if value.name not in weights)


def _declared_input(value: onnx.ValueInfoProto) -> DeclaredInput:
    from onnx import TensorProto

    if not value.type.HasField("tensor_type"):
        raise UserError(f"Input `{value.name}` is not a tensor; export the network with tensor inputs only.")
    tensor = value.type.tensor_type
    kind = TensorProto.DataType.Name(tensor.elem_type).lower()
    # numpy has no bfloat16; the import casts float32 to it.
    dtype = {"float": "float32", "double": "float64", "bfloat16": "float32"}.get(kind, kind)
    shape = tuple(map(_dimension, tensor.shape.dim)) if tensor.HasField("shape") else None
    return DeclaredInput(value.name, shape, dtype)


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    # Some exporters write 0 or -1 for an open dimension.
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    return dim.dim_param or None
