"""Inputs of a network: the forms in which a user gives their types, and the binding of open dimensions."""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from passsearch.core.messages import suggest_name
from passsearch.core.rules import short_repr
from passsearch.core.summary import TensorType
from passsearch.errors import UserError

# Without bfloat16, which numpy does not have: random inputs cannot be made of it, nor outputs compared.
DTYPES = (
    *("float32", "float16", "float64"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"),
)

Dimension: TypeAlias = int | str | None
"""A fixed size, the name of an open dimension, or ``None`` for an open dimension without a name."""

InputTypes: TypeAlias = Mapping[str, object] | Sequence[str] | str
"""Types of inputs as users give them: texts ``name:dtype[shape]``, or a mapping from the name of an input to the text
``dtype[shape]``, to a pair of shape and dtype, or to a tensor or array whose shape and dtype count."""

# The name may contain colons and brackets, as TensorFlow's `image:0` does, so the last colon and bracket pair count.
_SPEC = re.compile(r"(?P<name>.+):(?P<dtype>[^:\[\]]+)\[(?P<shape>[^\[\]]*)\]")


@dataclass(frozen=True)
class DeclaredInput:
    """One input as the model file declares it.

    Attributes:
        name: The input's name in the file.
        shape: Its dimensions; ``None`` if the file does not even declare their number.
        dtype: Its element type.
    """

    name: str
    shape: tuple[Dimension, ...] | None
    dtype: str

    def __str__(self) -> str:
        return _format(self.name, self.shape, dtype=self.dtype)

    def is_open(self) -> bool:
        """Return whether the user has to choose a size."""
        return self.shape is None or not all(isinstance(size, int) for size in self.shape)


def parse_input(text: str) -> tuple[str, TensorType]:
    """Read the text form of one input; ``format_input`` is the inverse.

    Raises:
        UserError: The text is not of that form, the dtype is unknown or a dimension is not a positive number.
    """
    parts = _SPEC.fullmatch(text.strip())
    if parts is None:
        raise UserError(
            f"An input reads name:dtype[shape]; got `{text}`. For example: --input image:float32[1,3,224,224]"
        )
    return parts["name"], TensorType(_parse_shape(parts["shape"], text), _known_dtype(parts["dtype"], text))


def read_inputs(inputs: InputTypes | None) -> dict[str, TensorType]:
    """Return the types of inputs by name, from any of the forms that users may give.

    Raises:
        UserError: A value has none of these forms, or contains an unknown dtype or an impossible size.
    """
    if isinstance(inputs, Mapping):
        return {str(name): _read_type(str(name), value) for name, value in inputs.items()}
    texts = () if inputs is None else [inputs] if isinstance(inputs, str) else inputs
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise UserError(
            f"`inputs` is a mapping by input name, or a list of texts name:dtype[shape]; got {short_repr(inputs)}. "
            f"For example: {_EXAMPLE}"
        )
    types: dict[str, TensorType] = {}
    for name, type_ in map(parse_input, texts):
        if name in types:
            raise UserError(f"Input `{name}` is given twice; give it once, or several sizes with --sizes (sizes=).")
        types[name] = type_
    return types


_EXAMPLE = 'inputs={"ids": "int64[1,128]"}'


def _read_type(name: str, value: object) -> TensorType:
    if isinstance(value, TensorType):
        return value
    if isinstance(value, str):
        # Users also repeat the name that is the key.
        return parse_input(value if value.startswith(f"{name}:") else f"{name}:{value}")[1]
    pair = value if isinstance(value, tuple) else (getattr(value, "shape", None), getattr(value, "dtype", None))
    # TensorFlow's shapes can be iterated over, and are no sequences.
    if len(pair) != 2 or not isinstance(pair[0], Iterable) or isinstance(pair[0], str) or pair[1] is None:
        raise UserError(
            f"Input `{name}` is a text dtype[shape], a pair (shape, dtype) or a tensor; got {short_repr(value)}. "
            f"For example: {_EXAMPLE}"
        )
    # As text, so that sizes and dtypes meet the same rules in every form.
    return parse_input(f"{name}:{_dtype_name(pair[1])}[{','.join(map(str, pair[0]))}]")[1]


def _dtype_name(dtype: object) -> str:
    # numpy and TensorFlow have names, classes such as `numpy.float32` have `__name__`, PyTorch prints `torch.float32`.
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype
    return str(name).rpartition(".")[2]


def _known_dtype(dtype: str, text: str) -> str:
    if dtype not in DTYPES:
        raise UserError(f"Unknown dtype `{dtype}` in `{text}`; choose from: {', '.join(DTYPES)}.")
    return dtype


def format_input(name: str, kind: TensorType) -> str:
    """Return the text form of one input; an open dimension is ``?``."""
    return _format(name, kind.shape, dtype=kind.dtype)


def bind_inputs(
    declared: Sequence[DeclaredInput], *, types: Mapping[str, TensorType], batch: int | None
) -> dict[str, TensorType]:
    """Return the types that an importer needs: those from the user, and those of inputs with open dimensions.

    An open dimension with a name has one size in all inputs. The size comes from ``types`` or from ``batch``.

    Args:
        declared: The inputs of the model file.
        types: Types that the user sets, by input name.
        batch: Size of every open first dimension; ``None`` if the user sets none.

    Raises:
        UserError: An input is unknown, contradicts the file or another input, has a dtype that no compiler takes, or
            does not fit into memory, or a dimension stays open.
    """
    by_name = {entry.name: entry for entry in declared}
    # Sizes alone (`--sizes`) leave the dtype to the network.
    types = {
        name: TensorType(kind.shape, kind.dtype or _find_input(name, by_name).dtype) for name, kind in types.items()
    }
    for name, kind in types.items():
        _check_type(_find_input(name, by_name), kind)
    for entry in declared:
        _check_dtype(entry)
    sizes = _named_sizes(by_name, types)
    if batch is not None:
        _bind_batch(declared, types=types, batch=batch, sizes=sizes)
    closed = {entry.name: _close(entry, sizes=sizes, batch=batch) for entry in declared if entry.name not in types}
    _check_size({**types, **closed})
    return {**types, **{name: kind for name, kind in closed.items() if by_name[name].is_open()}}


def resolve_inputs(
    declared: Sequence[DeclaredInput], *, types: Mapping[str, TensorType], batch: int | None
) -> dict[str, TensorType]:
    """Return the type of every declared input, in order, with open dimensions bound as by ``bind_inputs``.

    Raises:
        UserError: An input is unknown, contradicts the file or another input, or a dimension stays open.
    """
    bound = bind_inputs(declared, types=types, batch=batch)
    # `bind_inputs` leaves out inputs whose sizes are all fixed in the file.
    return {entry.name: bound.get(entry.name) or _close(entry, sizes={}, batch=None) for entry in declared}


def leading_batch(types: Mapping[str, TensorType]) -> int:
    """Return the number of samples of an inference: the size of the first dimension, where that is a batch; else 1.

    It is a batch only if all inputs of two dimensions or more have the same first one, and if no input is a sequence of
    steps of one sample: three dimensions, of which the second is 1. That is how recurrent networks take 60 steps of one
    sample, beside states with a first dimension of their own.

    Args:
        types: The inputs.
    """
    shapes = [kind.shape for kind in types.values() if len(kind.shape) > 1]
    sizes = {int(shape[0] or 1) for shape in shapes}
    has_steps = any(len(shape) == 3 and shape[1] == 1 and shape[0] != 1 for shape in shapes)
    return sizes.pop() if len(sizes) == 1 and not has_steps else 1


def _format(name: str, shape: Sequence[Dimension] | None, *, dtype: str) -> str:
    sizes = "…" if shape is None else ",".join("?" if size is None else str(size) for size in shape)
    return f"{name}:{dtype}[{sizes}]"


def _parse_shape(text: str, whole: str) -> tuple[int, ...]:
    if not text.strip():
        return ()
    sizes = [size.strip() for size in text.split(",")]
    for size in sizes:
        # `isdigit` accepts superscripts such as `²`, which `int` then refuses.
        if not (size.isascii() and size.isdigit() and int(size) > 0):
            raise UserError(f"Dimensions are whole numbers from 1 on; got `{size}` in `{whole}`.")
    return tuple(map(int, sizes))


def _find_input(name: str, declared: Mapping[str, DeclaredInput]) -> DeclaredInput:
    if name in declared:
        return declared[name]
    suggestion = suggest_name(name, declared)
    rule = f"{suggestion} The" if suggestion else "the"
    raise UserError(f"Unknown input `{name}`; {rule} inputs are: {', '.join(map(str, declared.values()))}.")


def _check_type(declared: DeclaredInput, kind: TensorType) -> None:
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


def _check_dtype(declared: DeclaredInput) -> None:
    if declared.dtype not in DTYPES:
        raise UserError(
            f"Input `{declared}` has a dtype that passsearch does not support; supported are: {', '.join(DTYPES)}. "
            "Export the network with a cast to one of them, or without the operators that read it."
        )


def _check_size(types: Mapping[str, TensorType]) -> None:
    """Refuse inputs that this machine cannot hold, which otherwise fail deep inside the compiler."""
    size_bytes = sum(math.prod(size or 1 for size in kind.shape) * _itemsize(kind.dtype) for kind in types.values())
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size_bytes > memory_bytes:
        inputs = ", ".join(format_input(name, kind) for name, kind in types.items())
        raise UserError(
            f"The inputs of one inference take {size_bytes / 1e9:.3g} GB, and this machine has "
            f"{memory_bytes / 1e9:.3g} GB of memory: {inputs}. Give a smaller batch or shape."
        )


def _itemsize(dtype: str) -> int:
    return int(re.sub(r"\D", "", dtype) or 8) // 8


def _named_sizes(declared: Mapping[str, DeclaredInput], types: Mapping[str, TensorType]) -> dict[str, int]:
    """Return the sizes of named open dimensions that follow from the user's types."""
    sizes: dict[str, int] = {}
    for name, kind in types.items():
        # Not strict: without a declared rank there are no names to bind. `_check_type` has compared all other ranks.
        for symbol, size in zip(declared[name].shape or (), kind.shape, strict=False):
            if isinstance(symbol, str) and size is not None:
                _set_size(symbol, size, sizes=sizes)
    return sizes


def _set_size(symbol: str, size: int, *, sizes: dict[str, int]) -> None:
    if sizes.setdefault(symbol, size) != size:
        raise UserError(f"Dimension `{symbol}` cannot be both {sizes[symbol]} and {size}; give one size.")


def _bind_batch(
    declared: Sequence[DeclaredInput], *, types: Mapping[str, TensorType], batch: int, sizes: dict[str, int]
) -> None:
    """Add the named dimensions that the batch size binds to ``sizes``; refuse a batch size that fits no input."""
    firsts = [_first_dimension(entry, types) for entry in declared]
    if any(first is None or isinstance(first, str) for first in firsts):
        for first in firsts:
            if isinstance(first, str):
                _set_size(first, batch, sizes=sizes)
    # One fitting input is enough: networks also take inputs without a batch axis, such as a scale.
    elif batch not in firsts:
        inputs = ", ".join(
            format_input(entry.name, types[entry.name]) if entry.name in types else str(entry) for entry in declared
        )
        raise UserError(f"Batch {batch} does not fit inputs of fixed size ({inputs}); leave it out or export for it.")


def _first_dimension(declared: DeclaredInput, types: Mapping[str, TensorType]) -> Dimension:
    shape = types[declared.name].shape if declared.name in types else declared.shape
    if shape is None:
        return None
    # A scalar has no first dimension; 0 equals no batch size.
    return shape[0] if shape else 0


def _close(declared: DeclaredInput, *, sizes: Mapping[str, int], batch: int | None) -> TensorType:
    """Return the type of an input once its open dimensions are bound."""
    shape = [sizes.get(size, size) if isinstance(size, str) else size for size in declared.shape or ()]
    if shape and shape[0] is None:
        shape[0] = batch
    closed = tuple(size for size in shape if isinstance(size, int))
    if declared.shape is None or len(closed) < len(shape):
        # Without a declared rank the example shows an image, the most frequent case.
        example_shape = tuple(size if isinstance(size, int) else 1 for size in shape) or (1, 3, 224, 224)
        example = f"--input {format_input(declared.name, TensorType(example_shape, declared.dtype))}"
        if batch is None and shape and not isinstance(shape[0], int) and len(closed) == len(shape) - 1:
            example = f"--batch 1, or {example}"
        raise UserError(f"Input `{declared}` has open dimensions; give its sizes, for example: {example}")
    return TensorType(closed, declared.dtype)
