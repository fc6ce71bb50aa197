"""What is known of the tensors of a network at two sizes, the larger one being the smaller one padded.

Every value here keeps one promise: at the larger size, its part within the smaller shape is the value at the smaller
size. An operator that cannot keep it raises ``Unproven``. The *fill* of an axis is the number of all elements beyond
the smaller shape in this axis and within it in the others, where they are one number; other elements there are finite.
A fill that hides keeps padded positions out of a softmax, and a fill of zero keeps them out of a sum.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
Shape: TypeAlias = tuple[int, ...]

HIDES = -1e4
"""Largest number that, added to a score, makes its share of a softmax zero: exp(-104) is zero in float32."""

MOST_KNOWN = 1 << 20
"""Elements of the largest array that is computed."""


class Unproven(Exception):
    """Padding may change a result. The text says at which operator and why."""


@dataclass(frozen=True)
class Value:
    """A tensor at two sizes.

    Attributes:
        small: Its shape at the smaller size.
        large: Its shape at the larger size.
        known: The tensor at both sizes, where it follows from the sizes alone; it need not keep the promise.
        fill: By axis, the number of all elements beyond the smaller shape.
        inputs: Names of the inputs that it is computed from.
        masks: Names of the inputs whose zeros hide.
        is_masked: True once a mask was added to it.
    """

    small: Shape
    large: Shape
    known: tuple[Array, Array] | None = None
    fill: Mapping[int, float] = field(default_factory=dict)
    inputs: frozenset[str] = frozenset()
    masks: frozenset[str] = frozenset()
    is_masked: bool = False

    @property
    def padded(self) -> list[int]:
        """The axes in which the sizes differ."""
        return [axis for axis, pair in enumerate(zip(self.small, self.large, strict=True)) if pair[0] != pair[1]]

    @property
    def promised(self) -> "Value":
        """This value, once the promise of a known one is checked."""
        if self.known is None:
            return self
        small, large = self.known
        within = [slice(size) for size in self.small]
        if not _is_same(large[tuple(within)], small):
            raise Unproven("a number that is computed from the size takes part")
        fill = {}
        for axis in self.padded:
            places = (*within[:axis], slice(self.small[axis], None), *within[axis + 1 :])
            beyond = large[places]
            if beyond.size and (beyond == beyond.flat[0]).all():
                fill[axis] = float(beyond.flat[0])
        return replace(self, fill=fill)


def _is_same(one: Array, other: Array) -> bool:
    """Return whether arrays are equal, but for the order in which floats were summed."""
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    return np.allclose(
        one, other, rtol=1e-6, atol=1e-6 * float(np.abs(other).max(initial=0.0, where=np.isfinite(other)))
    )


def from_arrays(pair: Iterable[Array], *of: Value) -> Value:
    """Return a tensor that is known at the smaller and the larger size, and was computed from some values."""
    small, large = map(np.asarray, pair)
    inputs, masks = (frozenset[str]().union(*sets) for sets in ([v.inputs for v in of], [v.masks for v in of]))
    return Value(small.shape, large.shape, (small, large), {}, inputs, masks)


def _joined(values: Sequence[Value], small: Shape, large: Shape, fill: Mapping[int, float]) -> Value:
    inputs = frozenset[str]().union(*(value.inputs for value in values))
    masks = frozenset[str]().union(*(value.masks for value in values))
    padded = {axis for axis, pair in enumerate(zip(small, large, strict=True)) if pair[0] != pair[1]}
    own = {axis: number for axis, number in fill.items() if axis in padded}
    return Value(small, large, None, own, inputs, masks, any(value.is_masked for value in values))


def computed(function: Callable[..., Array], values: Sequence[Value]) -> Value | None:
    """Return the result of known values; ``None`` if one is unknown or the result is large."""
    pairs = [value.known for value in values if value.known is not None]
    if len(pairs) < len(values):
        return None
    with np.errstate(all="ignore"):
        small, large = (np.asarray(function(*arrays)) for arrays in zip(*pairs, strict=True))
    return from_arrays((small, large), *values) if large.size <= MOST_KNOWN else None


def elementwise(name: str, function: Callable[..., Array] | None, values: Sequence[Value]) -> Value:
    """Return the result of an operator whose elements depend on the elements in the same place.

    Args:
        name: Name of the operator, which decides where one operand alone gives the fill.
        function: The operator on arrays of numpy; ``None`` where fills are not followed through it.
        values: The operands, which are broadcast.
    """
    if function is not None and (result := computed(function, values)) is not None:
        return result
    values = [value.promised for value in values]
    small = np.broadcast_shapes(*(value.small for value in values))
    large = np.broadcast_shapes(*(value.large for value in values))
    fill, masks, is_masked = {}, frozenset[str](), False
    for axis in range(len(large)):
        places = [axis - len(large) + len(value.large) for value in values]
        fills = [_fill_at(value, place) for value, place in zip(values, places, strict=True)]
        if small[axis] == large[axis]:
            continue
        number = _fill_of(name, function, fills)
        # What a mask was added to is only about as small as the mask.
        is_about = any(value.is_masked and _hides(own) for value, own in zip(values, fills, strict=True))
        if number is None or (is_about and number > HIDES and name != "exp"):
            continue
        fill[axis] = number
        if number <= HIDES and name in ("add", "where"):
            # Padded positions would be hidden no more than others in a row of which both together leave nothing.
            if name == "where" and any(value.is_masked and value.known is None for value in values):
                raise Unproven("a mask is applied to scores that have one, so that no position may be left")
            is_masked = True
            for value, place, own in zip(values[:1] if name == "where" else values, places, fills, strict=False):
                hides = name == "where" or (_hides(own) and not value.is_masked)
                if hides and place >= 0 and place in value.padded:
                    _require_shown(value, place, is_condition=name == "where")
                    masks |= value.inputs
    result = _joined(values, small, large, fill)
    return replace(result, masks=result.masks | masks, is_masked=result.is_masked or is_masked)


def _require_shown(mask: Value, axis: int, *, is_condition: bool) -> None:
    """Raise an error if a mask may hide all positions of a row: its softmax would be another one at another size."""
    if mask.known is None:
        return
    shown = mask.known[0] if is_condition else mask.known[0] > HIDES
    if not (shown.all() if mask.inputs else shown.any(axis).all()):
        raise Unproven("besides the positions that the inputs mask, others are hidden, so that none may be left")


def _fill_at(value: Value, axis: int) -> float | None:
    """Return the fill of an operand, which may be broadcast along the axis."""
    if axis >= 0 and value.small[axis] != value.large[axis]:
        return value.fill.get(axis)
    if value.known is not None and value.known[1].size and (value.known[1] == value.known[1].flat[0]).all():
        return float(value.known[1].flat[0])
    return None


def _hides(fill: float | None) -> bool:
    return fill is not None and fill <= HIDES


def _fill_of(name: str, function: Callable[..., Array] | None, fills: Sequence[float | None]) -> float | None:
    if name == "where":
        return None if fills[0] is None else fills[1 if fills[0] else 2]
    if function is not None and None not in fills:
        with np.errstate(all="ignore"):
            number = float(function(*map(np.float64, fills)))
        if math.isnan(number):
            raise Unproven("padded positions are no numbers")
        return number
    if name == "divide" and fills[1] == 0.0:
        raise Unproven("padded positions are divided by zero")
    zero = {"multiply": 0.0, "logical_and": 0.0}
    if name in zero and 0.0 in fills:
        return 0.0
    if name == "logical_or" and 1.0 in fills:
        return 1.0
    # A score beside which it is large.
    hidden = [number for number in fills if number is not None and _hides(number)]
    return hidden[0] if name == "add" and hidden else None


def softmax(value: Value, axis: int) -> Value:
    """Return a softmax; along a padded axis the scores of padded positions must be hidden."""
    value, axis = value.promised, axis % len(value.large)
    fill = {}
    if axis in value.padded:
        if value.fill.get(axis, 0.0) > HIDES:
            raise Unproven("padded positions are not masked before a softmax over them")
        fill[axis] = 0.0
    if any(math.isinf(number) for place, number in value.fill.items() if place != axis):
        raise Unproven("all scores of padded rows are infinite, and their softmax is no number")
    return _joined([value], value.small, value.large, fill)


def product(left: Value, right: Value) -> Value:
    """Return a product of matrices; over a padded axis one factor must be zero at padded positions."""
    if (result := computed(np.matmul, [left, right])) is not None:
        return result
    left, right = left.promised, right.promised
    inner = (len(left.large) - 1, max(len(right.large) - 2, 0))
    if inner[0] in left.padded and left.fill.get(inner[0]) != 0.0 and right.fill.get(inner[1]) != 0.0:
        raise Unproven("padded positions are not zero in a product that sums over them")
    if any(map(math.isinf, (left.fill.get(inner[0], 0.0), right.fill.get(inner[1], 0.0)))):
        raise Unproven("padded positions are infinite in a product that sums over them")
    small, large = (_product_shape(*pair) for pair in ((left.small, right.small), (left.large, right.large)))
    fill = {}
    if inner[0] not in left.padded:
        if len(left.large) > 1 and left.fill.get(len(left.large) - 2) == 0.0:
            fill[len(large) - (2 if len(right.large) > 1 else 1)] = 0.0
        if len(right.large) > 1 and right.fill.get(len(right.large) - 1) == 0.0:
            fill[len(large) - 1] = 0.0
    return _joined([left, right], small, large, fill)


def _product_shape(left: Shape, right: Shape) -> Shape:
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


REDUCTIONS: Mapping[str, Callable[..., Array]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "variance": np.var,
    "std": np.std,
}


def reduced(name: str, value: Value, axes: Sequence[int] | None, *, keeps: bool) -> Value:
    """Return a reduction; only a sum goes over a padded axis, whose padded positions must be zero."""
    rank = len(value.large)
    axes = tuple(range(rank)) if axes is None else tuple(axis % rank for axis in axes)
    function = REDUCTIONS[name]
    if (result := computed(lambda array: function(array, axis=axes, keepdims=keeps), [value])) is not None:
        return result
    value = value.promised
    for axis in axes:
        if axis in value.padded and not (name == "sum" and value.fill.get(axis) == 0.0):
            raise Unproven(f"padded positions take part in a {name} over all positions")
    kept = [axis for axis in range(rank) if axis not in axes]
    shapes = [
        tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keeps or axis not in axes)
        for shape in (value.small, value.large)
    ]
    places = {axis: axis if keeps else kept.index(axis) for axis in kept}
    is_kept = not set(axes) & set(value.padded)
    same = {axis for axis, n in value.fill.items() if is_kept and (n == 0.0 or name in ("mean", "max", "min"))}
    fill = {places[axis]: value.fill[axis] for axis in same if axis in places}
    return _joined([value], shapes[0], shapes[1], fill)


def moved(value: Value, axes: Sequence[int | None]) -> Value:
    """Return a value with other axes: each is one of its own, or ``None`` for a new one of size 1."""

    def move(array: Array) -> Array:
        old = [axis for axis in axes if axis is not None]
        left = [axis for axis in range(array.ndim) if axis not in old]
        array = np.squeeze(array.transpose(*old, *left), tuple(range(len(old), array.ndim)))
        return np.expand_dims(array, tuple(place for place, axis in enumerate(axes) if axis is None))

    if (result := computed(move, [value])) is not None:
        return result
    value = value.promised
    small, large = (tuple(1 if axis is None else shape[axis] for axis in axes) for shape in (value.small, value.large))
    fill = {place: value.fill[axis] for place, axis in enumerate(axes) if axis is not None and axis in value.fill}
    return _joined([value], small, large, fill)


def reshaped(value: Value, small: Shape, large: Shape) -> Value:
    """Return a value in other shapes, in which every padded axis must be one of its own."""
    if value.known is not None:
        return from_arrays((value.known[0].reshape(small), value.known[1].reshape(large)), value)
    value = value.promised
    places = {}
    for axis in value.padded:
        begin = (math.prod(value.small[:axis]), math.prod(value.large[:axis]))
        sizes = (value.small[axis], value.large[axis])
        found = [
            place
            for place in range(len(large))
            if (math.prod(small[:place]), math.prod(large[:place])) == begin and (small[place], large[place]) == sizes
        ]
        if not found:
            raise Unproven("a reshape joins padded positions with others")
        places[axis] = found[0]
    if sum(one != other for one, other in zip(small, large, strict=True)) != len(places):
        raise Unproven("a reshape joins padded positions with others")
    return _joined([value], small, large, {places[axis]: number for axis, number in value.fill.items()})


def taken(value: Value, places: Value, axis: int) -> Value:
    """Return the elements of a value at some places of an axis."""
    axis %= len(value.large)
    if (result := computed(lambda array, at: np.take(array, at, axis, mode="wrap"), [value, places])) is not None:
        return result
    value, rank = value.promised, len(places.large)
    fill = {(at if at < axis else at + rank - 1): number for at, number in value.fill.items() if at != axis}
    if axis in value.padded:
        if places.known is None:
            raise Unproven("the positions that are taken depend on the inputs")
        # A place that is counted from the end is another one at the larger size.
        sizes = (value.small[axis], value.large[axis])
        places = from_arrays((array % size for array, size in zip(places.known, sizes, strict=True)), places).promised
        for at in places.padded:
            beyond = np.take(places.known[1], range(places.small[at], places.large[at]), at)  # type: ignore[index]
            if axis in value.fill and (beyond >= value.small[axis]).all():
                fill[axis + at] = value.fill[axis]
    places = places.promised
    small, large = (
        (*own[:axis], *other, *own[axis + 1 :])
        for own, other in ((value.small, places.small), (value.large, places.large))
    )
    return _joined([value, places], small, large, fill)


def sliced(value: Value, ranges: Mapping[int, tuple[tuple[int, int, int], tuple[int, int, int]]]) -> Value:
    """Return a part of a value; ``ranges`` has begin, end and step at both sizes by axis."""

    def cut(array: Array, world: int) -> Array:
        return array[_slices(array.shape, ranges, world)]

    if value.known is not None:
        return from_arrays((cut(value.known[0], 0), cut(value.known[1], 1)), value)
    value = value.promised
    shapes = [list(value.small), list(value.large)]
    fill = dict(value.fill)
    for axis in ranges:
        pair = [range(shape[axis])[_slices(tuple(shape), ranges, world)[axis]] for world, shape in enumerate(shapes)]
        if list(pair[1][: len(pair[0])]) != list(pair[0]):
            raise Unproven("a slice takes other positions at another size")
        if len(pair[1]) != shapes[1][axis]:
            fill.pop(axis, None)
        shapes[0][axis], shapes[1][axis] = len(pair[0]), len(pair[1])
    return _joined([value], tuple(shapes[0]), tuple(shapes[1]), fill)


def _slices(shape: Shape, ranges: Mapping[int, Any], world: int) -> tuple[slice, ...]:
    return tuple(slice(*ranges[axis][world]) if axis in ranges else slice(None) for axis in range(len(shape)))


def broadcast(value: Value, small: Shape, large: Shape) -> Value:
    """Return a value in larger shapes."""
    if value.known is not None and math.prod(large) <= MOST_KNOWN:
        return from_arrays((np.broadcast_to(value.known[0], small), np.broadcast_to(value.known[1], large)), value)
    value, shift = value.promised, len(large) - len(value.large)
    fill = {axis + shift: number for axis, number in value.fill.items()}
    for axis in range(len(large)):
        number = _fill_at(value, axis - shift)
        fill |= {axis: number} if number is not None else {}
    return _joined([value], small, large, fill)


def joined(values: Sequence[Value], axis: int) -> Value:
    """Return values one after the other along an axis that is not padded."""
    axis %= len(values[0].large)
    if (result := computed(lambda *arrays: np.concatenate(arrays, axis), values)) is not None:
        return result
    values = [value.promised for value in values]
    if any(axis in value.padded for value in values):
        raise Unproven("padded positions are joined with others")
    small, large = (
        tuple(sum(shape[at] for shape in shapes) if at == axis else size for at, size in enumerate(shapes[0]))
        for shapes in ([value.small for value in values], [value.large for value in values])
    )
    first = values[0].fill
    fill = {at: number for at, number in first.items() if all(value.fill.get(at) == number for value in values)}
    return _joined(values, small, large, fill)


def normalized(values: Sequence[Value], axes: Sequence[int]) -> Value:
    """Return a normalization of the first value over axes that are not padded."""
    value = values[0].promised
    if any(axis % len(value.large) in value.padded for axis in axes):
        raise Unproven("padded positions take part in a normalization")
    return _joined([each.promised for each in values], value.small, value.large, {})


def summed_up(value: Value, axis: int) -> Value:
    """Return running sums along an axis: they do not depend on later positions."""
    if (result := computed(lambda array: np.cumsum(array, axis), [value])) is not None:
        return result
    value = value.promised
    return _joined(
        [value], value.small, value.large, {at: 0.0 for at, n in value.fill.items() if n == 0.0 and at != axis}
    )


def unchanged(values: Sequence[Value], small: Shape, large: Shape) -> Value:
    """Return the result of any operator whose operands and result are the same at both sizes."""
    values = [value.promised for value in values]
    if small != large or any(value.padded for value in values):
        raise Unproven("no rule says how padded positions take part")
    return _joined(values, small, large, {})
