"""Buckets: sizes that are compiled one by one, with a function of open sizes for those between them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from passsearch.core.cases import OPEN, Calls, Case
from passsearch.core.summary import TensorType
from passsearch.errors import UserError

Sizes = Mapping[str, tuple[int, ...]]
"""Sizes of inputs by name."""

_EXAMPLE = "Write them in order: --sizes ids=1x64,1x128"


def with_open_sizes(calls: Calls) -> Calls:
    """Return calls at several sizes with a function of open sizes, which is checked at a size below each of them."""
    require_increasing(calls.cases)
    below: list[Case | None] = [None, *calls.cases]
    between = [_between(*pair, growing_axes(calls.cases)) for pair in zip(below, calls.cases, strict=False)]
    return replace(calls, cases=(*calls.cases, *(case for case in between if case is not None)))


def require_increasing(cases: Sequence[Case]) -> None:
    """Refuse sizes that do not grow from each to the next.

    Raises:
        UserError: With the sizes.
    """
    for smaller, larger in pairwise(cases):
        pairs = []
        for name, kind in smaller.inputs.items():
            other = larger.inputs[name]
            if len(kind.shape) != len(other.shape):
                raise UserError(
                    f"Sizes of `{name}` have one number of dimensions; got {_text(kind)} and {_text(other)}. {_EXAMPLE}"
                )
            pairs += [*zip(kind.shape, other.shape, strict=True)]
        if any((one or 0) > (two or 0) for one, two in pairs) or all(one == two for one, two in pairs):
            raise UserError(f"Sizes grow from each to the next; {larger.name} follows {smaller.name}. {_EXAMPLE}")


def growing_axes(cases: Sequence[Case]) -> dict[str, list[int]]:
    """Return by input the axes in which increasing sizes differ."""
    first, last = cases[0].inputs, cases[-1].inputs
    return {
        name: [axis for axis, size in enumerate(kind.shape) if size != last[name].shape[axis]]
        for name, kind in first.items()
    }


def sizes_below(smaller: Sizes | None, larger: Sizes, growing: Mapping[str, Sequence[int]]) -> list[Sizes]:
    """Return sizes that are padded to the larger one: the smallest, one between, and the largest."""
    found: list[Sizes] = []
    for choose in (_next, _middle, _last):
        shapes = {}
        for name, shape in larger.items():
            low = smaller[name] if smaller else (0,) * len(shape)
            grows = growing.get(name, ())
            shapes[name] = tuple(choose(low[axis], size) if axis in grows else size for axis, size in enumerate(shape))
        if shapes not in (*found, larger, smaller):
            found.append(shapes)
    return found


def _next(low: int, high: int) -> int:
    return min(low + 1, high)


def _middle(low: int, high: int) -> int:
    # An odd size, which leaves a rest in every tile of a schedule.
    return min(max((low + high) // 2 | 1, low), high)


def _last(low: int, high: int) -> int:
    return max(high - 1, low, 1)


def _between(smaller: Case | None, larger: Case, growing: Mapping[str, Sequence[int]]) -> Case | None:
    """Return a call of the open function at a size between two; ``None`` where there is none."""
    inputs = {}
    for name, kind in larger.inputs.items():
        low = smaller.inputs[name].shape if smaller else (0,) * len(kind.shape)
        shape = [
            _middle(low[axis] or 0, size or 0) if axis in growing[name] else size
            for axis, size in enumerate(kind.shape)
        ]
        inputs[name] = replace(kind, shape=tuple(shape))
    if inputs == dict(larger.inputs) or (smaller is not None and inputs == dict(smaller.inputs)):
        return None
    named = next(name for name, kind in larger.inputs.items() if growing[name])
    return Case(_text(inputs[named]), 0.0, larger.function, OPEN, inputs)


def _text(kind: TensorType) -> str:
    return "x".join(map(str, kind.shape))
