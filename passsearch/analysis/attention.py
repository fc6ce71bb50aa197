"""Attention: a softmax between two matrix products of data with data, with any masks, scales and reshapes.

Decoders are recognised by their masks and caches, vision transformers by a convolution of an image before them.
"""

from collections.abc import Iterator, Mapping

import networkx as nx

from passsearch.analysis.graph import Dataflow, is_data_matmul, make_feature, walk_back, walk_forward
from passsearch.analysis.kinds import ARITHMETIC, JOINS, LAYOUTS, SLICES, SOFTMAXES
from passsearch.core import Feature

# Between the scores and the softmax: scaling, masks, position biases, soft caps.
_BEFORE = ARITHMETIC | LAYOUTS | SLICES | JOINS | {"tanh", "broadcast_to", "fast_tanh", "gather_nd", "pad"}
# Between the softmax and the values: dropout, a second mask, head masks.
_AFTER = LAYOUTS | SLICES | {"multiply", "where", "divide", "broadcast_to", "add"}
# Largest number of operators between a softmax and a product; a mask may be computed by dozens of operators.
_NEAR = 60
# Between a cache of keys or values and the product: the repetition for the queries of a group.
_REPEATS = LAYOUTS | {"broadcast_to", "repeat", "tile"}
# Between the mask and the softmax: a second mask, or the subtraction of the maximum.
_MASKING = LAYOUTS | {"add", "where", "multiply", "divide", "maximum", "max", "subtract", "exp", "fast_exp"}


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the attention features by name; they count softmaxes, one per attention layer."""
    matches = [softmax for softmax in _softmaxes(flow) if _has_scores(flow, softmax) and _has_values(flow, softmax)]
    convolved = _behind_image_convolutions(flow)
    return {
        "attention": make_feature(matches),
        "causal_attention": make_feature(softmax for softmax in matches if _has_row_mask(flow, softmax, constant=True)),
        "row_masked_attention": make_feature(
            softmax for softmax in matches if _has_row_mask(flow, softmax, constant=False)
        ),
        "cached_attention": make_feature(softmax for softmax in matches if _has_cache(flow, softmax)),
        "image_attention": make_feature(softmax for softmax in matches if softmax in convolved),
    }


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


def _has_row_mask(flow: Dataflow, softmax: int, *, constant: bool) -> bool:
    """Return whether scores get a mask that differs by query and is one for all heads, as that of a decoder.

    A mask of padding is one for all queries, a bias of positions differs by head.

    Args:
        flow: The graph.
        softmax: The softmax.
        constant: True for masks that do not depend on data, which can only be causal.
    """
    shape = flow.shape(softmax)
    walk = walk_back(flow, flow.arguments(softmax), through=lambda index: flow.kind(index) in _MASKING, limit=_NEAR)
    for step in walk.interior:
        if flow.kind(step) in ("add", "where") and flow.shape(step)[-2:] == shape[-2:]:
            sources = flow.weights(step) if constant else flow.operators[step].inputs
            if any(_is_row_mask(flow.shape(source), shape) for source in sources):
                return True
    return False


def _is_row_mask(mask: tuple[int | None, ...], scores: tuple[int | None, ...]) -> bool:
    *outer, queries, keys = (1, 1, *mask)
    is_shared = set(outer) <= {1} and any(size != 1 for size in scores[:-2])
    return is_shared and queries not in (1, None) and (queries, keys) == scores[-2:]


def _has_cache(flow: Dataflow, softmax: int) -> bool:
    """Return whether keys or values are joined with an input of the network, the cache of earlier tokens."""
    before = walk_back(flow, flow.arguments(softmax), through=lambda index: flow.kind(index) in _BEFORE, limit=_NEAR)
    products = (index for index in before.ends if is_data_matmul(flow, index))
    operands = [source for product in products for source in flow.arguments(product)]
    walk = walk_back(flow, operands, through=lambda index: flow.kind(index) in _REPEATS, limit=_NEAR)
    joins = (end for end in walk.ends if flow.kind(end) in JOINS)
    return any(flow.kind(source) == "input" for join in joins for source in flow.arguments(join))


def _behind_image_convolutions(flow: Dataflow) -> frozenset[int]:
    """Return the values that depend on a convolution of an image."""
    behind: set[int] = set()
    for operator in flow.of_kind({"conv2d"}):
        if operator.index not in behind:
            behind |= nx.descendants(flow.data, operator.index)
    return frozenset(behind)
