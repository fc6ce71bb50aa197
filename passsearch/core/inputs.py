"""Inputs as people type them, ``name:dtype[1,3,224,224]``, and as files declare them, sizes left open."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from passsearch.core.summary import TensorType
from passsearch.errors import UserError

DTYPES = (
    *("float32", "float16", "bfloat16", "float64"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"),
)

Dimension: TypeAlias = int | str | None
"""A size, the name of an open one, or ``None`` for an open one without a name."""

# The name may hold colons and brackets itself, as TensorFlow's `image:0` does: the last ones count.
_SPEC = re.compile(r"(?P<name>.+):(?P<dtype>[^:\[\]]+)\[(?P<shape>[^\[\]]*)\]")


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


def parse_input(text: str) -> tuple[str, TensorType]:
    """Read one input; ``format_input`` is the inverse.

    Raises:
        UserError: The text is not of that form, the dtype is unknown or a dimension is not a positive number.
    """
    parts = _SPEC.fullmatch(text.strip())
    if parts is None:
        raise UserError(
            f"An input reads name:dtype[shape]; got `{text}`. For example: --input image:float32[1,3,224,224]"
        )
    if parts["dtype"] not in DTYPES:
        raise UserError(f"Unknown dtype `{parts['dtype']}` in `{text}`; choose from: {', '.join(DTYPES)}.")
    return parts["name"], TensorType(_shape(parts["shape"], text), parts["dtype"])


def format_input(name: str, kind: TensorType) -> str:
    """Write one input; a dimension that is open is ``?``."""
    shape = ",".join("?" if size is None else str(size) for size in kind.shape)
    return f"{name}:{kind.dtype}[{shape}]"


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


def settle(
    declared: Sequence[DeclaredInput], *, given: Mapping[str, TensorType], batch: int | None
) -> dict[str, TensorType]:
    """Every declared input in order, with its open dimensions bound.

    Raises:
        UserError: As ``bind``.
    """
    bound = bind(declared, given=given, batch=batch)
    return {each.name: bound.get(each.name) or _fixed(each) for each in declared}


def _fixed(declared: DeclaredInput) -> TensorType:
    return TensorType(tuple(size for size in declared.shape or () if isinstance(size, int)), declared.dtype)


def _shape(text: str, whole: str) -> tuple[int, ...]:
    if not text.strip():
        return ()
    sizes = [size.strip() for size in text.split(",")]
    for size in sizes:
        if not (size.isascii() and size.isdigit() and int(size) > 0):
            raise UserError(f"Dimensions are whole numbers from 1 on; got `{size}` in `{whole}`.")
    return tuple(map(int, sizes))


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
        given = tuple(size if isinstance(size, int) else 1 for size in shape) or (1, 3, 224, 224)
        example = format_input(declared.name, TensorType(given, declared.dtype))
        raise UserError(f"Input `{declared}` has open dimensions; give its sizes, for example: --input {example}")
    return TensorType(closed, declared.dtype)
