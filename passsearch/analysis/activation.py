"""Activations by the function they compute, whichever primitives spell it."""

from collections.abc import Callable, Mapping

from passsearch.analysis.graph import Dataflow, occurrences, root
from passsearch.core import Feature, Operator

_PLAIN = ("relu", "leaky_relu", "prelu", "tanh", "softplus", "elu", "mish", "log_softmax")


def features(flow: Dataflow) -> Mapping[str, Feature]:
    """Features of this family by name, each ``activation_`` and the function."""
    found: dict[str, list[int]] = {name: [] for name in (*_PLAIN, *_SPELLED)}
    for operator in flow.operators:
        if operator.index in flow.data:
            for name in _names(flow, operator):
                found[name].append(operator.index)
    return {f"activation_{name}": occurrences(indices) for name, indices in found.items()}


def _names(flow: Dataflow, operator: Operator) -> list[str]:
    spelled = [name for name, test in _SPELLED.items() if test(flow, operator)]
    return spelled or [name for name in _PLAIN if operator.kind == name]


def _is_relu6(flow: Dataflow, operator: Operator) -> bool:
    """A clip to [0, 6] that is not part of a hard sigmoid."""
    return operator.kind == "relu6" or (_clips(operator, to=6.0) and not _is_hard_sigmoid(flow, operator))


def _is_hard_sigmoid(flow: Dataflow, operator: Operator) -> bool:
    """clip(x + 3, 0, 6) / 6 or clip(a x + b, 0, 1)."""
    if operator.kind == "hard_sigmoid":
        return True
    shifted = any(flow.kind(source) == "add" and flow.weights(source) for source in flow.arguments(operator.index))
    return shifted and (_clips(operator, to=6.0) or _clips(operator, to=1.0))


def _clips(operator: Operator, *, to: float) -> bool:
    low, high = operator.attributes.get("a_min"), operator.attributes.get("a_max")
    return operator.kind == "clip" and low == 0 and high == to


def _is_silu(flow: Dataflow, operator: Operator) -> bool:
    """Whether it is x * sigmoid(x), not the gate of squeeze-and-excitation, whose two factors differ."""
    arguments = flow.arguments(operator.index)
    if operator.kind != "multiply" or len(arguments) != 2:
        return operator.kind == "silu"
    return _is_of(flow, arguments[0], kind="sigmoid", of=arguments[1]) or _is_of(
        flow, arguments[1], kind="sigmoid", of=arguments[0]
    )


def _is_of(flow: Dataflow, index: int, *, kind: str, of: int) -> bool:
    source = root(flow, index)
    return flow.kind(source) == kind and root(flow, of) in (root(flow, each) for each in flow.arguments(source))


def _is_gelu(flow: Dataflow, operator: Operator) -> bool:
    """By erf, or by tanh of x and its cube."""
    if operator.kind in ("gelu", "erf", "fast_erf"):
        return True
    return operator.kind in ("tanh", "fast_tanh") and _has_cube(flow, operator.index)


def _has_cube(flow: Dataflow, index: int, *, depth: int = 4) -> bool:
    if flow.kind(index) == "power" and 3.0 in flow.scalars(index):
        return True
    arguments = flow.arguments(index)
    if flow.kind(index) == "multiply" and len(arguments) == 2 and depth < 4:
        return True
    return depth > 0 and any(
        _has_cube(flow, source, depth=depth - 1)
        for source in arguments
        if flow.kind(source) in ("add", "multiply", "power", "cast")
    )


def _is_sigmoid(flow: Dataflow, operator: Operator) -> bool:
    if operator.kind not in ("sigmoid", "fast_sigmoid"):
        return False
    return not any(_is_silu(flow, flow.operators[user]) for user in flow.users(operator.index))


def _is_softmax(flow: Dataflow, operator: Operator) -> bool:
    return operator.kind in ("softmax", "fast_softmax")


_SPELLED: Mapping[str, Callable[[Dataflow, Operator], bool]] = {
    "relu6": _is_relu6,
    "hard_sigmoid": _is_hard_sigmoid,
    "silu": _is_silu,
    "gelu": _is_gelu,
    "sigmoid": _is_sigmoid,
    "softmax": _is_softmax,
}
