"""Residual adds: two paths that fork at one value and meet again at an add."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from passsearch.analysis.convolution import is_depthwise, is_pointwise, is_spatial
from passsearch.analysis.graph import Dataflow, is_data_matmul, make_feature
from passsearch.analysis.kinds import ACTIVATIONS, CONVOLUTIONS, HEAVY, MATMULS, RESAMPLES, SOFTMAXES
from passsearch.core import Feature, Operator

# Largest number of values between the fork and the add: a block of Swin has about 150, a skip over a stage has more.
_WINDOW = 300
# A projection shortcut is linear; a path with one of these is a branch.
_NONLINEAR = ACTIVATIONS | SOFTMAXES


@dataclass(frozen=True)
class Residual:
    """One residual add.

    Attributes:
        add: Index of the add.
        fork: Index of the value that both paths start from.
        shortcut: Operators on the short path.
        branch: Operators on the long path.
        is_projected: True if the short path has a weighted operator.
    """

    add: int
    fork: int
    shortcut: frozenset[int]
    branch: frozenset[int]
    is_projected: bool


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the residual features by name."""
    every = find_residuals(flow)
    spatial = [residual for residual in every if _is_spatial(flow, residual)]
    return {
        "residual_add": make_feature((residual.add for residual in every), _shortcuts_text(every)),
        "residual_convolution": make_feature((residual.add for residual in spatial), _shortcuts_text(spatial)),
        "convolution_in_residual": make_feature(_convolutions_in(flow, spatial)),
        "inverted_residual": make_feature(residual.add for residual in every if _is_inverted(flow, residual)),
        "residual_dense": make_feature(residual.add for residual in every if _is_dense(flow, residual)),
    }


def find_residuals(flow: Dataflow) -> list[Residual]:
    """Return every residual add of a network, in topological order."""
    candidates = (_residual(flow, add) for add in flow.of_kind({"add"}))
    return [residual for residual in candidates if residual is not None]


def _residual(flow: Dataflow, add: Operator) -> Residual | None:
    # One data argument is the addition of a bias, and an add of scalars is arithmetic on shapes.
    arguments = flow.arguments(add.index)
    if len(arguments) != 2 or arguments[0] == arguments[1] or flow.shape(add.index) == ():
        return None
    paths = _find_fork(flow, left=arguments[0], right=arguments[1])
    if paths is None:
        return None
    fork, left, right = paths
    if _weighted_count(flow, left) > _weighted_count(flow, right):
        left, right = right, left
    if not _is_shortcut(flow, left) or not _is_branch(flow, right, beside=left):
        return None
    return Residual(add.index, fork, left, right, _weighted_count(flow, left) > 0)


def _find_fork(flow: Dataflow, *, left: int, right: int) -> tuple[int, frozenset[int], frozenset[int]] | None:
    """Return the latest common ancestor of two values, and the operators on either side between it and them.

    Operators are in topological order and leave the heap latest first, so the first one that both sides reach is the
    latest common ancestor.
    """
    # Bit 1: reached from the left value, bit 2: from the right value.
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
    # Only what the fork leads to is on a path. Other inputs, such as a mask or a constant, join from outside.
    reached = {fork}
    for index in sorted(between):
        if any(source in reached for source in flow.arguments(index)):
            reached.add(index)
    reached.discard(fork)
    left = frozenset(index for index in reached if sides[index] == 1)
    return left, frozenset(reached) - left


def _weighted_count(flow: Dataflow, side: Iterable[int]) -> int:
    return sum(flow.kind(index) in HEAVY for index in side)


def _is_shortcut(flow: Dataflow, side: frozenset[int]) -> bool:
    """Return whether a side is the identity or one linear convolution."""
    heavy = [flow.operators[index] for index in side if flow.kind(index) in HEAVY]
    if not heavy:
        # LSTM cells and highway networks add two gated values; neither of them is a shortcut.
        return not any(_is_gate(flow, index) for index in side)
    linear = not any(flow.kind(index) in _NONLINEAR for index in side)
    return len(heavy) == 1 and linear and heavy[0].kind in CONVOLUTIONS


def _is_gate(flow: Dataflow, index: int) -> bool:
    return flow.kind(index) == "multiply" and len(flow.arguments(index)) > 1


def _is_branch(flow: Dataflow, side: frozenset[int], *, beside: frozenset[int]) -> bool:
    # Adds of resampled maps are those of feature pyramids.
    if any(flow.kind(index) in RESAMPLES for index in side | beside):
        return False
    return _weighted_count(flow, side) > _weighted_count(flow, beside)


def _convolutions(flow: Dataflow, side: Iterable[int]) -> list[Operator]:
    return [flow.operators[index] for index in side if flow.kind(index) in CONVOLUTIONS]


def _is_inverted(flow: Dataflow, residual: Residual) -> bool:
    # The block of MobileNetV2: pointwise to more channels, depthwise, pointwise back; its shortcut is the identity.
    convolutions = _convolutions(flow, residual.branch)
    pointwise = sum(is_pointwise(flow, convolution) for convolution in convolutions)
    has_depthwise = any(is_depthwise(flow, convolution) for convolution in convolutions)
    return pointwise >= 2 and has_depthwise and not residual.is_projected


def _is_dense(flow: Dataflow, residual: Residual) -> bool:
    """Return whether a residual add is around dense layers or around attention."""
    # Attention may contain a convolution: PVT shrinks the keys by one.
    kinds = {flow.kind(index) for index in residual.branch}
    return bool(kinds & MATMULS) and (not kinds & CONVOLUTIONS or _has_attention(flow, residual))


def _is_spatial(flow: Dataflow, residual: Residual) -> bool:
    convolutions = _convolutions(flow, residual.branch)
    return any(is_spatial(flow, convolution) for convolution in convolutions) and not _has_attention(flow, residual)


def _has_attention(flow: Dataflow, residual: Residual) -> bool:
    return any(is_data_matmul(flow, index) for index in residual.branch)


def _convolutions_in(flow: Dataflow, residuals: Iterable[Residual]) -> set[int]:
    sides = (residual.branch | residual.shortcut for residual in residuals)
    return {convolution.index for side in sides for convolution in _convolutions(flow, side)}


def _shortcuts_text(residuals: list[Residual]) -> str:
    projections = sum(residual.is_projected for residual in residuals)
    return f"{len(residuals) - projections} identity, {projections} projected" if residuals else ""
