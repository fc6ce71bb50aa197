"""Attention: a softmax between two products of data with data, however it is masked, scaled and reshaped."""

from collections.abc import Iterator, Mapping

from passsearch.analysis.graph import Dataflow, is_data_matmul, occurrences, walk_back, walk_forward
from passsearch.analysis.kinds import ARITHMETIC, JOINS, LAYOUTS, SLICES, SOFTMAXES
from passsearch.core import Feature

# Between the scores and the softmax: scaling, masks, position biases, soft caps.
_BEFORE = ARITHMETIC | LAYOUTS | SLICES | JOINS | {"tanh", "broadcast_to", "fast_tanh", "gather_nd", "pad"}
# Between the softmax and the values: dropout, a second mask, head masks.
_AFTER = LAYOUTS | SLICES | {"multiply", "where", "divide", "broadcast_to", "add"}
_NEAR = 60


def features(flow: Dataflow) -> Mapping[str, Feature]:
    """Features of this family by name."""
    found = [softmax for softmax in _softmaxes(flow) if _is_attention(flow, softmax)]
    return {"attention": occurrences(found)}


def _softmaxes(flow: Dataflow) -> Iterator[int]:
    yield from (operator.index for operator in flow.of_kind(SOFTMAXES))
    yield from (operator.index for operator in flow.of_kind({"divide"}) if _is_spelled_softmax(flow, operator.index))


def _is_spelled_softmax(flow: Dataflow, divide: int) -> bool:
    """Whether a division is the last step of exp(x) / sum(exp(x))."""
    arguments = flow.arguments(divide)
    if len(arguments) != 2 or flow.kind(arguments[0]) not in ("exp", "fast_exp"):
        return False
    return flow.kind(arguments[1]) == "sum" and arguments[0] in flow.arguments(arguments[1])


def _is_attention(flow: Dataflow, softmax: int) -> bool:
    return _has_scores(flow, softmax) and _has_values(flow, softmax)


def _has_scores(flow: Dataflow, softmax: int) -> bool:
    walk = walk_back(
        flow, flow.arguments(softmax), through=lambda index: _passes(flow, index, before=True), limit=_NEAR
    )
    return any(is_data_matmul(flow, index) for index in walk.ends)


def _has_values(flow: Dataflow, softmax: int) -> bool:
    walk = walk_forward(flow, softmax, through=lambda index: _passes(flow, index, before=False), limit=_NEAR)
    return any(is_data_matmul(flow, index) for index in walk.ends)


def _passes(flow: Dataflow, index: int, *, before: bool) -> bool:
    if flow.kind(index) == "max":  # the shift by the maximum in a softmax spelled out
        return before
    return flow.kind(index) in (_BEFORE if before else _AFTER)
