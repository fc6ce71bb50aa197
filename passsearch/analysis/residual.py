"""Residual adds: two paths that part at one value and meet again at an add."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from passsearch.analysis.convolution import is_depthwise, is_pointwise, is_spatial
from passsearch.analysis.graph import Dataflow, is_data_matmul, occurrences
from passsearch.analysis.kinds import ACTIVATIONS, CONVOLUTIONS, HEAVY, MATMULS, RESAMPLES, SOFTMAXES
from passsearch.core import Feature, Operator

# How many values may lie between the fork and the add: a Swin block has about 150, a skip over a stage more.
_WINDOW = 300
_NONLINEAR = ACTIVATIONS | SOFTMAXES


@dataclass(frozen=True)
class Residual:
    """One residual add.

    Attributes:
        add: Index of the add.
        fork: Index of the value at which the two paths part.
        shortcut: Operators on the short path.
        branch: Operators on the other.
        projected: Whether the short path has a weighted operator of its own.
    """

    add: int
    fork: int
    shortcut: frozenset[int]
    branch: frozenset[int]
    projected: bool


def features(flow: Dataflow) -> Mapping[str, Feature]:
    """Features of this family by name."""
    found = residuals(flow)
    spatial = [residual for residual in found if _is_spatial(flow, residual)]
    return {
        "residual_add": occurrences((residual.add for residual in found), _shortcuts(found)),
        "residual_convolution": occurrences((residual.add for residual in spatial), _shortcuts(spatial)),
        "convolution_in_residual": occurrences(_convolutions_in(flow, spatial)),
        "inverted_residual": occurrences(residual.add for residual in found if _is_inverted(flow, residual)),
        "residual_dense": occurrences(residual.add for residual in found if _is_dense(flow, residual)),
    }


def residuals(flow: Dataflow) -> list[Residual]:
    """Every residual add of a network, in order."""
    found = (_residual(flow, add) for add in flow.of_kind({"add"}))
    return [residual for residual in found if residual is not None]


def _residual(flow: Dataflow, add: Operator) -> Residual | None:
    arguments = flow.arguments(add.index)
    if len(arguments) != 2 or arguments[0] == arguments[1] or flow.shape(add.index) == ():
        return None
    meeting = _fork(flow, left=arguments[0], right=arguments[1])
    if meeting is None:
        return None
    fork, left, right = meeting
    if _count(flow, left) > _count(flow, right):
        left, right = right, left
    if not _is_shortcut(flow, left) or not _is_branch(flow, right, beside=left):
        return None
    return Residual(add.index, fork, left, right, _count(flow, left) > 0)


def _fork(flow: Dataflow, *, left: int, right: int) -> tuple[int, frozenset[int], frozenset[int]] | None:
    """The latest common ancestor of two values, and what lies on either side between it and them.

    Values leave a heap latest first, so the first one that both sides reach is the nearest.
    """
    sides = {left: 1, right: 2}
    heap = [-left, -right]
    between: list[int] = []
    heapq.heapify(heap)
    while heap and len(between) < _WINDOW:
        index = -heapq.heappop(heap)
        if sides[index] == 3:
            return index, *_sides(flow, between, fork=index, sides=sides)
        between.append(index)
        for source in dict.fromkeys(flow.arguments(index)):
            if source not in sides:
                heapq.heappush(heap, -source)
            sides[source] = sides.get(source, 0) | sides[index]
    return None


def _sides(
    flow: Dataflow, between: Iterable[int], *, fork: int, sides: Mapping[int, int]
) -> tuple[frozenset[int], frozenset[int]]:
    reached = {fork}
    for index in sorted(between):
        if any(source in reached for source in flow.arguments(index)):
            reached.add(index)
    reached.discard(fork)
    left = frozenset(index for index in reached if sides[index] == 1)
    return left, frozenset(reached) - left


def _count(flow: Dataflow, side: Iterable[int]) -> int:
    return sum(flow.kind(index) in HEAVY for index in side)


def _is_shortcut(flow: Dataflow, side: frozenset[int]) -> bool:
    """Whether a side is the identity or one linear convolution, which gates and sums in LSTM cells are not."""
    heavy = [flow.operators[index] for index in side if flow.kind(index) in HEAVY]
    if not heavy:
        return not any(_is_gate(flow, index) for index in side)
    linear = not any(flow.kind(index) in _NONLINEAR for index in side)
    return len(heavy) == 1 and linear and heavy[0].kind in CONVOLUTIONS


def _is_gate(flow: Dataflow, index: int) -> bool:
    return flow.kind(index) == "multiply" and len(flow.arguments(index)) > 1


def _is_branch(flow: Dataflow, side: frozenset[int], *, beside: frozenset[int]) -> bool:
    if any(flow.kind(index) in RESAMPLES for index in side | beside):
        return False
    return _count(flow, side) > _count(flow, beside)


def _has(flow: Dataflow, side: Iterable[int], *, what: str) -> bool:
    test = {"spatial": is_spatial, "depthwise": is_depthwise}[what]
    return any(test(flow, flow.operators[index]) for index in side if flow.kind(index) in CONVOLUTIONS)


def _is_inverted(flow: Dataflow, residual: Residual) -> bool:
    operators = [flow.operators[index] for index in residual.branch if flow.kind(index) in CONVOLUTIONS]
    narrow = sum(is_pointwise(flow, operator) for operator in operators)
    return narrow >= 2 and _has(flow, residual.branch, what="depthwise") and not residual.projected


def _is_dense(flow: Dataflow, residual: Residual) -> bool:
    """Around dense layers; a convolution that shrinks the keys of an attention, as in PVT, does not matter."""
    kinds = {flow.kind(index) for index in residual.branch}
    return bool(kinds & MATMULS) and (not kinds & CONVOLUTIONS or _has_attention(flow, residual))


def _is_spatial(flow: Dataflow, residual: Residual) -> bool:
    return _has(flow, residual.branch, what="spatial") and not _has_attention(flow, residual)


def _has_attention(flow: Dataflow, residual: Residual) -> bool:
    return any(is_data_matmul(flow, index) for index in residual.branch)


def _convolutions_in(flow: Dataflow, found: Iterable[Residual]) -> set[int]:
    inside = {index for residual in found for index in residual.branch | residual.shortcut}
    return {index for index in inside if flow.kind(index) in CONVOLUTIONS}


def _shortcuts(found: list[Residual]) -> str:
    projected = sum(residual.projected for residual in found)
    return f"{len(found) - projected} identity, {projected} projected" if found else ""
