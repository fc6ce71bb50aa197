"""ONNX files: what inputs they declare, and what of it the user has to settle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends.input_spec import format_input

if TYPE_CHECKING:
    import onnx

Dimension: TypeAlias = "int | str | None"
"""A size, the name of an open one, or ``None`` for an open one without a name."""


@dataclass(frozen=True)
class DeclaredInput:
    """One input as the file declares it; ``shape`` is ``None`` where it gives not even the rank."""

    name: str
    shape: tuple[Dimension, ...] | None
    dtype: str

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name}:{self.dtype}[…]"
        return f"{self.name}:{self.dtype}[{','.join('?' if size is None else str(size) for size in self.shape)}]"

    def is_open(self) -> bool:
        """Whether a size is left to the user."""
        return self.shape is None or not all(isinstance(size, int) for size in self.shape)


@dataclass(frozen=True)
class OnnxFile:
    """What of an ONNX file matters before it is imported.

    Attributes:
        inputs: Declared inputs, without those that have an initializer.
        external: Files beside it that hold weights, sorted.
    """

    inputs: tuple[DeclaredInput, ...]
    external: tuple[Path, ...]


def read(path: Path) -> OnnxFile:
    """Read the declarations; weights kept in other files are not loaded.

    Raises:
        UserError: It is not ONNX, holds no operator, or a file with its weights is missing.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"Cannot read `{path}` as ONNX ({reason}); export the network again.") from error
    if not model.graph.node:
        raise UserError(f"Cannot read `{path}` as ONNX (no operator in it); export the network again.")
    external = tuple(sorted({path.parent / name for name in _external(model)}))
    for file in external:
        if not file.is_file():
            raise UserError(f"`{path}` keeps weights in `{file.name}`, which is missing; put it beside the model.")
    return OnnxFile(_declared(model), external)


def serialize(model: onnx.ModelProto) -> bytes:
    """The bytes of an in-memory network, the same for equal networks.

    Raises:
        UserError: It is empty, over 2 GiB, or its weights are in files whose place it does not tell.
    """
    from google.protobuf.message import EncodeError

    if not model.graph.node:
        raise UserError("The ONNX model holds no operator; give one that computes something.")
    if next(_external(model), None) is not None:
        raise UserError("The ONNX model keeps its weights in other files; give the path of its file instead.")
    try:
        return bytes(model.SerializeToString(deterministic=True))
    except (EncodeError, ValueError) as error:
        raise UserError("An ONNX model over 2 GiB needs external data; save it so and give the path.") from error


def bind(
    declared: Sequence[DeclaredInput], *, given: Mapping[str, TensorType], batch: int | None
) -> dict[str, TensorType]:
    """What the importer must be told: the given inputs, and those whose open dimensions are bound.

    A dimension that is open by name is bound wherever its name stands, by ``given`` and by ``batch``.

    Raises:
        UserError: An input is unknown, contradicts the file or another input, or stays open.
    """
    by_name = {each.name: each for each in declared}
    for name, kind in given.items():
        _check(_known(name, by_name), kind)
    sizes = _sizes(by_name, given)
    if batch is not None:
        _bind_batch(declared, given=given, batch=batch, sizes=sizes)
    open_ones = [each for each in declared if each.is_open() and each.name not in given]
    return {**given, **{each.name: _closed(each, sizes=sizes, batch=batch) for each in open_ones}}


def _external(model: onnx.ModelProto) -> Iterator[str]:
    from onnx import TensorProto

    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            yield from (entry.value for entry in tensor.external_data if entry.key == "location")


def _declared(model: onnx.ModelProto) -> tuple[DeclaredInput, ...]:
    filled = {tensor.name for tensor in model.graph.initializer}
    return tuple(_input(value) for value in model.graph.input if value.name not in filled)


def _input(value: onnx.ValueInfoProto) -> DeclaredInput:
    from onnx import TensorProto

    if not value.type.HasField("tensor_type"):
        raise UserError(f"Input `{value.name}` is not a tensor; export the network with tensor inputs only.")
    tensor = value.type.tensor_type
    kind = TensorProto.DataType.Name(tensor.elem_type).lower()
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    shape = tuple(map(_dimension, tensor.shape.dim)) if tensor.HasField("shape") else None
    return DeclaredInput(value.name, shape, dtype)


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    # Some exporters write 0 or -1 where they mean "open".
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    return dim.dim_param or None


def _known(name: str, declared: Mapping[str, DeclaredInput]) -> DeclaredInput:
    if name in declared:
        return declared[name]
    near = get_close_matches(name, declared, n=1)
    hint = f"did you mean `{near[0]}`? The" if near else "the"
    raise UserError(f"Unknown input `{name}`; {hint} inputs are: {', '.join(map(str, declared.values()))}.")


def _check(declared: DeclaredInput, kind: TensorType) -> None:
    got = format_input(declared.name, kind)
    if kind.dtype != declared.dtype:
        raise UserError(f"Wrong dtype in `{got}`; the network declares `{declared}`. Give {declared.dtype}.")
    if declared.shape is None:
        return
    if len(kind.shape) != len(declared.shape):
        raise UserError(f"Wrong number of dimensions in `{got}`; the network declares `{declared}`.")
    for axis, (size, fixed) in enumerate(zip(kind.shape, declared.shape, strict=True)):
        if isinstance(fixed, int) and size != fixed:
            raise UserError(
                f"Dimension {axis} is fixed in the network: `{got}` must have {fixed} there (`{declared}`)."
            )


def _sizes(declared: Mapping[str, DeclaredInput], given: Mapping[str, TensorType]) -> dict[str, int]:
    """Sizes of the named open dimensions that the given inputs settle."""
    sizes: dict[str, int] = {}
    for name, kind in given.items():
        for symbol, size in zip(declared[name].shape or (), kind.shape, strict=False):
            if isinstance(symbol, str) and size is not None:
                _settle(symbol, size, sizes=sizes)
    return sizes


def _settle(symbol: str, size: int, *, sizes: dict[str, int]) -> None:
    if sizes.setdefault(symbol, size) != size:
        raise UserError(f"Dimension `{symbol}` cannot be both {sizes[symbol]} and {size}; give one size.")


def _bind_batch(
    declared: Sequence[DeclaredInput], *, given: Mapping[str, TensorType], batch: int, sizes: dict[str, int]
) -> None:
    """Add what the batch size settles to ``sizes``; refuse a batch that no input can have."""
    firsts = [_first(each, given) for each in declared]
    if any(first is None or isinstance(first, str) for first in firsts):
        for first in firsts:
            if isinstance(first, str):
                _settle(first, batch, sizes=sizes)
    elif batch not in firsts:
        inputs = ", ".join(
            format_input(each.name, given[each.name]) if each.name in given else str(each) for each in declared
        )
        raise UserError(f"Batch {batch} does not fit inputs of fixed size ({inputs}); leave it out or export for it.")


def _first(declared: DeclaredInput, given: Mapping[str, TensorType]) -> Dimension:
    shape = given[declared.name].shape if declared.name in given else declared.shape
    if shape is None:
        return None
    return shape[0] if shape else 0


def _closed(declared: DeclaredInput, *, sizes: Mapping[str, int], batch: int | None) -> TensorType:
    shape = [sizes.get(size, size) if isinstance(size, str) else size for size in declared.shape or ()]
    if shape and shape[0] is None:
        shape[0] = batch
    closed = tuple(size for size in shape if isinstance(size, int))
    if declared.shape is None or len(closed) < len(shape):
        example = format_input(
            declared.name,
            TensorType(tuple(size if isinstance(size, int) else 1 for size in shape), declared.dtype),
        )
        raise UserError(f"Input `{declared}` has open dimensions; give its sizes, for example: --input {example}")
    return TensorType(closed, declared.dtype)
