"""Sibling operators: several of one kind that read the same value, which a pass may merge into one."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from passsearch.analysis.graph import Dataflow, is_weighted_matmul, occurrences, root
from passsearch.core import Feature

Groups: TypeAlias = list[tuple[int, ...]]


def features(flow: Dataflow) -> Mapping[str, Feature]:
    """Features of this family by name; counts are of groups."""
    dense = (index for index in _of(flow, "dense", "matmul") if is_weighted_matmul(flow, index))
    return {
        "sibling_conv2d": _feature(flow, _of(flow, "conv2d")),
        "sibling_dense": _feature(flow, dense),
        "sibling_batch_matmul": _feature(flow, _of(flow, "batch_matmul")),
    }


def _of(flow: Dataflow, *kinds: str) -> list[int]:
    return [operator.index for operator in flow.of_kind(kinds)]


def _feature(flow: Dataflow, indices: Iterable[int]) -> Feature:
    groups = _groups(flow, indices)
    return occurrences((group[0] for group in groups), _sizes(groups))


def _groups(flow: Dataflow, indices: Iterable[int]) -> Groups:
    """Operators by the value that their first argument is a rearrangement of."""
    readers: dict[int, list[int]] = {}
    for index in indices:
        source = flow.operators[index].inputs[0]
        if source not in flow.parameters:
            readers.setdefault(root(flow, source), []).append(index)
    return [tuple(group) for group in readers.values() if len(group) > 1]


def _sizes(groups: Groups) -> str:
    distinct = sorted({len(group) for group in groups})
    return "groups of " + " and ".join(map(str, distinct)) if distinct else ""
