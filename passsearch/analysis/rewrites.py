"""Small patterns that single passes look for: transposes before dense, constant divisors, duplicates."""

from collections.abc import Iterator, Mapping

from passsearch.analysis.graph import Dataflow, occurrences
from passsearch.analysis.kinds import JOINS, LAYOUTS, QUANTIZES, RESAMPLES, TRANSPOSES
from passsearch.core import Feature, Operator

_FAST_MATH = frozenset({"exp", "erf", "tanh", "softmax", "sigmoid"})
_BY_KIND: Mapping[str, frozenset[str]] = {
    "dense": frozenset({"dense"}),
    "batch_matmul": frozenset({"batch_matmul", "matmul", "einsum"}),
    "transpose": TRANSPOSES,
    "concatenate": JOINS,
    "cast": frozenset({"cast", "astype", "cast_like"}),
    "resample": RESAMPLES,
    "embedding": frozenset({"take", "gather", "embedding"}),
    "dropout": frozenset({"dropout"}),
    "bias_add": frozenset({"bias_add"}),
    "control_flow": frozenset({"if", "match", "call_tir"}),
    "function": frozenset({"function"}),
    "quantize": QUANTIZES,
}


def features(flow: Dataflow) -> Mapping[str, Feature]:
    """Features of this family by name."""
    found = {name: occurrences(each.index for each in flow.of_kind(kinds)) for name, kinds in _BY_KIND.items()}
    return found | {
        "transpose_dense": occurrences(_transposes_before_dense(flow)),
        "fast_math_activation": occurrences(each.index for each in flow.of_kind(_FAST_MATH)),
        "constant_division": occurrences(each.index for each in flow.of_kind({"divide"}) if _by_constant(flow, each)),
        "atrous_conv2d": occurrences(each.index for each in flow.of_kind({"conv2d"}) if _is_atrous(flow, each)),
        "constant_expression": occurrences(_computed_parameters(flow)),
        "common_subexpression": occurrences(_duplicates(flow)),
    }


def _transposes_before_dense(flow: Dataflow) -> Iterator[int]:
    """Transposes, of data or of weights, that a dense layer reads."""
    seen: set[int] = set()
    for dense in flow.of_kind({"dense", "matmul"}):
        for source in dense.inputs:
            transpose = _transpose_behind(flow, source)
            if transpose is not None and transpose not in seen:
                seen.add(transpose)
                yield transpose


def _transpose_behind(flow: Dataflow, index: int) -> int | None:
    while flow.kind(index) in LAYOUTS and flow.kind(index) not in TRANSPOSES:
        index = flow.operators[index].inputs[0]
    return index if flow.kind(index) in TRANSPOSES else None


def _by_constant(flow: Dataflow, division: Operator) -> bool:
    return len(division.inputs) == 2 and division.inputs[1] in flow.parameters


def _is_atrous(flow: Dataflow, convolution: Operator) -> bool:
    """Whether a dilated convolution is spelled as space_to_batch, convolution, batch_to_space."""
    before = any(flow.kind(source) == "space_to_batch_nd" for source in flow.arguments(convolution.index))
    return before and any(flow.kind(user) == "batch_to_space_nd" for user in flow.users(convolution.index))


def _computed_parameters(flow: Dataflow) -> Iterator[int]:
    """Operators whose value no input changes: what constant folding removes."""
    return (index for index in flow.parameters if flow.kind(index) not in ("constant", "input"))


def _duplicates(flow: Dataflow) -> Iterator[int]:
    """Operators that repeat an earlier one: same name, same arguments, same attributes."""
    seen: set[tuple[str, tuple[int, ...], str]] = set()
    for operator in flow.operators:
        if operator.kind in ("input", "constant", "dropout") or not operator.inputs:
            continue
        key = (operator.op, operator.inputs, repr(sorted(operator.attributes.items())))
        if key in seen:
            yield operator.index
        seen.add(key)
