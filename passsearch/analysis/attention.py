"""Attention: a softmax between two matrix products of data with data, with any masks, scales and reshapes."""

from collections.abc import Iterator, Mapping

from passsearch.analysis.graph import Dataflow, is_data_matmul, make_feature, walk_back, walk_forward
from passsearch.analysis.kinds import ARITHMETIC, JOINS, LAYOUTS, SLICES, SOFTMAXES
from passsearch.core import Feature

# Between the scores and the softmax: scaling, masks, position biases, soft caps.
_BEFORE = ARITHMETIC | LAYOUTS | SLICES | JOINS | {"tanh", "broadcast_to", "fast_tanh", "gather_nd", "pad"}
# Between the softmax and the values: dropout, a second mask, head masks.
_AFTER = LAYOUTS | SLICES | {"multiply", "where", "divide", "broadcast_to", "add"}
# Largest number of operators between a softmax and a product; a mask may be computed by dozens of operators.
_NEAR = 60


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the attention feature by name; it counts softmaxes, one per attention layer."""
    matches = [softmax for softmax in _softmaxes(flow) if _has_scores(flow, softmax) and _has_values(flow, softmax)]
    return {"attention": make_feature(matches)}


def _softmaxes(flow: Dataflow) -> Iterator[int]:
    yield from (operator.index for operator in flow.of_kind(SOFTMAXES))
    yield from (operator.index for operator in flow.of_kind({"divide"}) if _ends_softmax(flow, operator.index))


def _ends_softmax(flow: Dataflow, divide: int) -> bool:
    """Return whether a division is the last step of exp(x) / sum(exp(x))."""
    arguments = flow.arguments(divide)
    if len(arguments) != 2 or flow.kind(arguments[0]) not in ("exp", "fast_exp"):
        return False
    return flow.kind(arguments[1]) == "sum" and arguments[0] in flow.arguments(arguments[1])


def _has_scores(flow: Dataflow, softmax: int) -> bool:
    """Return whether a product of data with data lies before a softmax."""

    def leads_on(index: int) -> bool:
        # A softmax in primitives subtracts the maximum first, so that exp cannot overflow.
        return flow.kind(index) == "max" or flow.kind(index) in _BEFORE

    walk = walk_back(flow, flow.arguments(softmax), through=leads_on, limit=_NEAR)
    return any(is_data_matmul(flow, index) for index in walk.ends)


def _has_values(flow: Dataflow, softmax: int) -> bool:
    """Return whether a product of data with data lies behind a softmax."""
    walk = walk_forward(flow, softmax, through=lambda index: flow.kind(index) in _AFTER, limit=_NEAR)
    return any(is_data_matmul(flow, index) for index in walk.ends)
