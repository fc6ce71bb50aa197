"""Sibling operators: several operators of one kind that read the same value, which a pass may merge into one."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from passsearch.analysis.graph import Dataflow, is_weighted_matmul, make_feature, unwrap_layouts
from passsearch.core import Feature

Groups: TypeAlias = list[tuple[int, ...]]


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the sibling features by name; they count groups, not operators."""
    # A product of two computed values, as in attention, has no weight that a merge could join.
    dense = (index for index in _of_kind(flow, "dense", "matmul") if is_weighted_matmul(flow, index))
    return {
        "sibling_conv2d": _feature(flow, _of_kind(flow, "conv2d")),
        "sibling_dense": _feature(flow, dense),
        "sibling_batch_matmul": _feature(flow, _of_kind(flow, "batch_matmul")),
    }


def _of_kind(flow: Dataflow, *kinds: str) -> list[int]:
    return [operator.index for operator in flow.of_kind(kinds)]


def _feature(flow: Dataflow, indices: Iterable[int]) -> Feature:
    groups = _groups(flow, indices)
    return make_feature((group[0] for group in groups), _sizes(groups))


def _groups(flow: Dataflow, indices: Iterable[int]) -> Groups:
    """Return the groups of operators whose first arguments are rearrangements of one value."""
    readers: dict[int, list[int]] = {}
    for index in indices:
        source = flow.operators[index].inputs[0]
        if source not in flow.parameters:
            readers.setdefault(unwrap_layouts(flow, source), []).append(index)
    return [tuple(group) for group in readers.values() if len(group) > 1]


def _sizes(groups: Groups) -> str:
    distinct = sorted({len(group) for group in groups})
    return "groups of " + " and ".join(map(str, distinct)) if distinct else ""
