"""Ranges of values that make sense for a network's inputs, from its dataflow graph and the inputs' names and dtypes."""

import math
from collections.abc import Iterator, Mapping

from passsearch.core import DTYPE, MASK, TABLE, UNKNOWN, InputRange, ModuleSummary, Operator, TensorType

SAME_VALUES = frozenset(
    {"cast", "reshape", "expand_dims", "squeeze", "transpose", "broadcast_to", "copy", "identity", "flatten"}
    | {"strided_slice", "split", "concatenate", "stack", "tile", "repeat", "batch_flatten", "collapse_sum_like"}
)
"""Operators whose results are values of their arguments."""

CHOICES = frozenset({"where", "minimum", "maximum", "clip", "if"})
"""Operators that choose values. Importers correct negative indices by ``where(index < 0, index + size, index)``."""

BYTES: Mapping[str, tuple[int, int]] = {"uint8": (0, 255), "int8": (-128, 127)}
"""Ends of the dtypes that hold pixels and quantized values; of wider ones nobody uses the whole range."""

_TAKES = {"take": "axis", "embedding": "", "gather": "axis", "gather_elements": "axis", "index_tensor": ""}
"""Operators whose second argument indexes the first one, with the attribute that names the axis."""


def input_ranges(summary: ModuleSummary, types: Mapping[str, TensorType]) -> dict[str, InputRange]:
    """Return a range by name for every input of integers, and for inputs of floats that are masks by their name.

    Args:
        summary: The graph.
        types: Types by input name.
    """
    found = {name: _range(name, kind, _tables(summary, name)) for name, kind in types.items()}
    return {name: range_ for name, range_ in found.items() if range_ is not None}


def _range(name: str, kind: TensorType, sizes: list[int]) -> InputRange | None:
    is_mask = "mask" in name.lower()
    if kind.dtype.startswith(("float", "bfloat")):
        return InputRange(0, 1, MASK) if is_mask else None
    if kind.dtype == "bool":
        return None
    if sizes:
        return InputRange(0, max(min(sizes) - 1, 0), TABLE)
    if is_mask:
        return InputRange(0, 1, MASK)
    if kind.dtype in BYTES:
        return InputRange(*BYTES[kind.dtype], DTYPE)
    return InputRange(0, 1, UNKNOWN)


def _tables(summary: ModuleSummary, name: str) -> list[int]:
    """Return how many values an input may have for each table that it indexes."""
    operators = summary.operators
    # How much larger than the input the values of an operator are; only operators that follow from the input alone.
    offsets: dict[int, int] = {
        entry.index: 0 for entry in operators if entry.kind in ("input", "variable") and entry.op == name
    }
    sizes: list[int] = []
    for operator in operators:
        sizes += _indexed(operator, offsets, operators)
        offset = _offset(operator, offsets, operators)
        if offset is not None:
            offsets[operator.index] = offset
    return sizes


def _offset(operator: Operator, offsets: Mapping[int, int], operators: tuple[Operator, ...]) -> int | None:
    followed = [offsets[source] for source in operator.inputs if source in offsets]
    if not followed or operator.index in offsets:
        return None
    if operator.kind in SAME_VALUES | CHOICES:
        return min(followed)
    if operator.kind in ("add", "subtract") and len(operator.inputs) == 2:
        value = operators[operator.inputs[1]].value
        if operator.inputs[0] in offsets and value is not None and math.isfinite(value):
            return followed[0] + int(value if operator.kind == "add" else -value)
    return None


def _indexed(operator: Operator, offsets: Mapping[int, int], operators: tuple[Operator, ...]) -> Iterator[int]:
    """Yield the number of values that the input may have, where an operator uses it as an index."""
    if operator.kind == "one_hot" and operator.inputs and operator.inputs[0] in offsets:
        depth = operator.attributes.get("depth")
        yield from [int(depth) - offsets[operator.inputs[0]]] if isinstance(depth, int) else []
        return
    if len(operator.inputs) < 2 or operator.inputs[1] not in offsets or not operators[operator.inputs[0]].outputs:
        return
    shape = operators[operator.inputs[0]].outputs[0].shape
    offset = offsets[operator.inputs[1]]
    if operator.kind == "gather_nd":
        # The last dimension of the indices runs over the first axes of the table.
        known = [size for size in shape[: _depth(operator, operators)] if size]
        yield from [min(known) - offset] if known else []
    elif operator.kind in _TAKES:
        axis = operator.attributes.get(_TAKES[operator.kind] or "axis", 0)
        if axis is None:
            yield math.prod(size or 1 for size in shape) - offset
        elif isinstance(axis, int) and -len(shape) <= axis < len(shape) and shape[axis]:
            yield int(shape[axis] or 1) - offset


def _depth(operator: Operator, operators: tuple[Operator, ...]) -> int:
    shapes = operators[operator.inputs[1]].outputs
    # One dialect has these indices in the first axis, the other in the last; the smaller is a depth in practice.
    ends = (shapes[0].shape[0], shapes[0].shape[-1]) if shapes and shapes[0].shape else (1,)
    return min(size or 1 for size in ends)
