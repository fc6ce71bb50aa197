"""Activation functions, recognized by the function they compute and not by the primitives that express it."""

from collections.abc import Callable, Mapping

from passsearch.analysis.graph import Dataflow, make_feature, unwrap_layouts
from passsearch.core import Feature, Operator

# Activations that every exporter writes as one operator.
_PLAIN = ("relu", "leaky_relu", "prelu", "tanh", "softplus", "elu", "mish", "log_softmax")


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the activation features by name: ``activation_`` and the function."""
    indices: dict[str, list[int]] = {name: [] for name in (*_PLAIN, *_PATTERNS)}
    for operator in flow.operators:
        if operator.index in flow.data:
            for name in _names(flow, operator):
                indices[name].append(operator.index)
    return {f"activation_{name}": make_feature(operators) for name, operators in indices.items()}


def _names(flow: Dataflow, operator: Operator) -> list[str]:
    # Patterns first: the tanh inside GELU is no activation of its own.
    matches = [name for name, test in _PATTERNS.items() if test(flow, operator)]
    return matches or [name for name in _PLAIN if operator.kind == name]


def _is_relu6(flow: Dataflow, operator: Operator) -> bool:
    """Return whether an operator clips to [0, 6] and is not part of a hard sigmoid."""
    return operator.kind == "relu6" or (_clips(operator, to=6.0) and not _is_hard_sigmoid(flow, operator))


def _is_hard_sigmoid(flow: Dataflow, operator: Operator) -> bool:
    """Return whether an operator is the clip of clip(x + 3, 0, 6) / 6 or of clip(a x + b, 0, 1)."""
    if operator.kind == "hard_sigmoid":
        return True
    sources = flow.arguments(operator.index)
    shifts = [source for source in sources if flow.kind(source) == "add" and flow.weights(source)]
    # A ReLU6 also clips to 6, behind the bias of a convolution.
    by_three = any(3.0 in flow.scalars(source) for source in shifts)
    return (by_three and _clips(operator, to=6.0)) or (bool(shifts) and _clips(operator, to=1.0))


def _clips(operator: Operator, *, to: float) -> bool:
    low, high = operator.attributes.get("a_min"), operator.attributes.get("a_max")
    return operator.kind == "clip" and low == 0 and high == to


def _is_silu(flow: Dataflow, operator: Operator) -> bool:
    """Return whether an operator is the product of x * sigmoid(x)."""
    arguments = flow.arguments(operator.index)
    if operator.kind != "multiply" or len(arguments) != 2:
        return operator.kind == "silu"
    # Both factors must have one origin. In the gate of squeeze-and-excitation they differ: y * sigmoid(f(y)).
    left, right = arguments
    return _applies(flow, left, kind="sigmoid", to=right) or _applies(flow, right, kind="sigmoid", to=left)


def _applies(flow: Dataflow, index: int, *, kind: str, to: int) -> bool:
    """Return whether an operator of this kind computes a value from ``to``; ``LAYOUTS`` between them are skipped."""
    source = unwrap_layouts(flow, index)
    origins = (unwrap_layouts(flow, argument) for argument in flow.arguments(source))
    return flow.kind(source) == kind and unwrap_layouts(flow, to) in origins


def _is_gelu(flow: Dataflow, operator: Operator) -> bool:
    """Return whether an operator is the core of GELU: erf, or tanh of x and its cube."""
    # Networks use erf for nothing else.
    if operator.kind in ("gelu", "erf", "fast_erf"):
        return True
    return operator.kind in ("tanh", "fast_tanh") and _has_cube(flow, operator.index)


def _has_cube(flow: Dataflow, index: int, *, depth: int = 4) -> bool:
    if flow.kind(index) == "power" and 3.0 in flow.scalars(index):
        return True
    arguments = flow.arguments(index)
    # A product of two data values under the tanh: exporters write the cube as x * x * x too.
    if flow.kind(index) == "multiply" and len(arguments) == 2:
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


_PATTERNS: Mapping[str, Callable[[Dataflow, Operator], bool]] = {
    "relu6": _is_relu6,
    "hard_sigmoid": _is_hard_sigmoid,
    "silu": _is_silu,
    "gelu": _is_gelu,
    "sigmoid": _is_sigmoid,
    "softmax": _is_softmax,
}
