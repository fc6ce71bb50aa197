"""Small patterns, each the target of one pass: transposes before dense, constant divisors, duplicates."""

import math
from collections.abc import Iterator, Mapping

from passsearch.analysis.graph import Dataflow, is_weighted_matmul, make_feature
from passsearch.analysis.kinds import CONVOLUTIONS, JOINS, LAYOUTS, MATMULS, QUANTIZES, RESAMPLES, TRANSPOSES
from passsearch.core import HALVES, STORAGE, Feature, Operator

MOST_ROWS = 16
"""Rows up to which a product takes longer to read its weights than to compute with them."""


# The operators that FastMath replaces by approximations.
_FAST_MATH = frozenset({"exp", "erf", "tanh", "softmax", "sigmoid"})
_BY_KIND: Mapping[str, frozenset[str]] = {
    "dense": frozenset({"dense"}),
    "batch_matmul": frozenset({"batch_matmul", "matmul", "einsum"}),
    "transpose": TRANSPOSES,
    "concatenate": JOINS,
    "cast": frozenset({"cast", "astype", "cast_like"}),
    "resample": RESAMPLES,
    "dropout": frozenset({"dropout"}),
    "bias_add": frozenset({"bias_add"}),
    "control_flow": frozenset({"if", "match", "call_tir"}),
    "function": frozenset({"function"}),
    "quantize": QUANTIZES,
}


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the rewrite features by name."""
    divisions, convolutions = flow.of_kind({"divide"}), flow.of_kind({"conv2d"})
    selections = flow.of_kind({"take", "gather", "embedding"})
    simple = {name: _of_kind(flow, kinds) for name, kinds in _BY_KIND.items()}
    return simple | {
        "embedding": make_feature(each.index for each in selections if _selects_weights(flow, each)),
        "transpose_dense": make_feature(_transposes_before_dense(flow)),
        "fast_math_activation": _of_kind(flow, _FAST_MATH),
        "constant_division": make_feature(division.index for division in divisions if _is_by_constant(flow, division)),
        "atrous_conv2d": make_feature(operator.index for operator in convolutions if _is_atrous(flow, operator)),
        "constant_expression": make_feature(_computed_parameters(flow)),
        "common_subexpression": make_feature(_duplicates(flow)),
        "narrow_product": make_feature(_narrow_products(flow)),
    }


def _of_kind(flow: Dataflow, kinds: frozenset[str]) -> Feature:
    return make_feature(operator.index for operator in flow.of_kind(kinds))


def _selects_weights(flow: Dataflow, selection: Operator) -> bool:
    """Return False for a selection from the data, such as the token of a class."""
    return selection.inputs[:1] == flow.weights(selection.index)[:1]


def _transposes_before_dense(flow: Dataflow) -> Iterator[int]:
    """Yield the transposes, of data or of weights, that a dense layer reads."""
    # Several dense layers may read one transpose.
    transposes: set[int] = set()
    for dense in flow.of_kind({"dense", "matmul"}):
        for source in dense.inputs:
            transpose = _transpose_behind(flow, source)
            if transpose is not None and transpose not in transposes:
                transposes.add(transpose)
                yield transpose


def _transpose_behind(flow: Dataflow, index: int) -> int | None:
    while flow.kind(index) in LAYOUTS and flow.kind(index) not in TRANSPOSES:
        index = flow.operators[index].inputs[0]
    return index if flow.kind(index) in TRANSPOSES else None


def _is_by_constant(flow: Dataflow, division: Operator) -> bool:
    return len(division.inputs) == 2 and division.inputs[1] in flow.parameters


def _is_atrous(flow: Dataflow, convolution: Operator) -> bool:
    """Return whether a convolution stands between space_to_batch and batch_to_space, as TensorFlow writes dilation."""
    before = any(flow.kind(source) == "space_to_batch_nd" for source in flow.arguments(convolution.index))
    return before and any(flow.kind(user) == "batch_to_space_nd" for user in flow.users(convolution.index))


def _computed_parameters(flow: Dataflow) -> Iterator[int]:
    """Yield the operators that constant folding removes: those whose values do not depend on the data."""
    return (index for index in flow.parameters if flow.kind(index) not in ("constant", "input"))


def _narrow_products(flow: Dataflow) -> Iterator[int]:
    """Yield the products of few rows with weights in 16 bits, where these are half of all products' weights or more.

    None where a convolution is: other layouts suit it.
    """
    if next(flow.of_kind(CONVOLUTIONS), None) is not None:
        return
    products = [each.index for each in flow.of_kind(MATMULS) if is_weighted_matmul(flow, each.index)]
    few = [
        index
        for index in products
        if _is_half(flow, flow.weights(index)[0])
        and math.prod(size or 0 for size in flow.shape(index)[:-1]) <= MOST_ROWS
    ]
    if 2 * sum(_weight_numbers(flow, index) for index in few) >= sum(_weight_numbers(flow, each) for each in products):
        yield from few


def _is_half(flow: Dataflow, weights: int) -> bool:
    """Return whether a 16-bit type has the numbers of weights, whatever type they are in."""
    while flow.kind(weights) in LAYOUTS and len(flow.operators[weights].inputs) == 1:
        (weights,) = flow.operators[weights].inputs
    operator = flow.operators[weights]
    return STORAGE in operator.attributes or any(kind.dtype in HALVES for kind in operator.outputs)


def _weight_numbers(flow: Dataflow, product: int) -> int:
    return math.prod(size or 0 for size in flow.shape(flow.weights(product)[0]))


def _duplicates(flow: Dataflow) -> Iterator[int]:
    """Yield the operators that repeat an earlier one: equal name, arguments and attributes."""
    keys: set[tuple[str, tuple[int, ...], str]] = set()
    for operator in flow.operators:
        # Two dropouts of one value differ: they are random. Sources have no arguments that could be compared.
        if operator.kind in ("input", "constant", "dropout") or not operator.inputs:
            continue
        key = (operator.op, operator.inputs, repr(sorted(operator.attributes.items())))
        if key in keys:
            yield operator.index
        keys.add(key)
