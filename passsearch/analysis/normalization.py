"""Normalisations, as one operator or as the chain of primitives that exporters write."""

from collections.abc import Iterator, Mapping

from passsearch.analysis.graph import Dataflow, integers, occurrences, root, walk_back, walk_forward
from passsearch.analysis.kinds import CONVOLUTIONS, LAYOUTS
from passsearch.core import Feature, Operator

_ROOTS = frozenset({"sqrt", "rsqrt", "power"})
# Between the mean of squares and its root: epsilon, a floor, n / (n - 1), a change of shape or type.
_UNDER_ROOT = LAYOUTS | {"add", "maximum", "clip", "multiply", "divide"}
_SCALED = LAYOUTS | {"bias_add"}


def features(flow: Dataflow) -> Mapping[str, Feature]:
    """Features of this family by name."""
    whole = [operator.index for operator in flow.of_kind({"layer_norm"})]
    chains = dict(_chains(flow))
    centred = [index for index, kind in chains.items() if kind == "layer"]
    centred += [operator.index for operator in flow.of_kind({"batch_norm"}) if _is_keras_layer_norm(flow, operator)]
    return {
        "batch_norm": occurrences(operator.index for operator in flow.of_kind({"batch_norm"})),
        "folded_batch_norm": occurrences(_scale_and_shift(flow)),
        "layer_norm": occurrences([*whole, *centred], _spelling(whole, centred)),
        "layer_norm_chain": occurrences(centred),
        "rms_norm": occurrences(
            [*(index for index, kind in chains.items() if kind == "rms"), *_indices(flow, "rms_norm")]
        ),
        "group_norm": occurrences(_indices(flow, "group_norm")),
        "instance_norm": occurrences(_indices(flow, "instance_norm")),
    }


def _indices(flow: Dataflow, kind: str) -> list[int]:
    return [operator.index for operator in flow.of_kind({kind})]


def _spelling(whole: list[int], chains: list[int]) -> str:
    return f"{len(whole)} as one operator, {len(chains)} as primitives" if whole or chains else ""


def _chains(flow: Dataflow) -> Iterator[tuple[int, str]]:
    """Roots of a mean of squares over one axis, each with the norm it belongs to."""
    for operator in flow.of_kind(_ROOTS):
        if operator.kind == "power" and not any(abs(value) == 0.5 for value in flow.scalars(operator.index)):
            continue
        walk = walk_back(flow, flow.arguments(operator.index), through=lambda index: _is_under_root(flow, index))
        kinds = {_spread(flow, end) for end in walk.ends}
        found = next((kind for kind in ("layer", "rms") if kind in kinds), None)
        if found is not None:
            yield operator.index, found


def _is_keras_layer_norm(flow: Dataflow, operator: Operator) -> bool:
    """Whether a batch norm has statistics of its own data, over one axis: Keras writes layer norms so."""
    return any(_spread(flow, source) == "layer" for source in flow.arguments(operator.index))


def _is_under_root(flow: Dataflow, index: int) -> bool:
    return flow.kind(index) in _UNDER_ROOT and len(flow.arguments(index)) == 1


def _spread(flow: Dataflow, index: int) -> str | None:
    """What kind of norm a measure of spread belongs to."""
    operator = flow.operators[index]
    if operator.kind == "variance":
        return "layer" if _reduces_one_axis(flow, operator) else None
    if operator.kind == "subtract":  # mean of squares less square of mean
        sources = (flow.operators[root(flow, source)] for source in flow.arguments(index))
        means = (source for source in sources if source.kind == "mean")
        return "layer" if any(_reduces_one_axis(flow, mean) for mean in means) else None
    found = _squares(flow, operator) if operator.kind in ("mean", "sum") else None
    is_length = operator.kind == "sum" and found == "rms"
    return None if is_length else found


def _squares(flow: Dataflow, reduction: Operator) -> str | None:
    if not _reduces_one_axis(flow, reduction):
        return None
    squared = root(flow, flow.arguments(reduction.index)[0])
    base = _base_of_square(flow, squared)
    if base is None:
        return None
    return "layer" if _is_centred(flow, base) else "rms"


def _base_of_square(flow: Dataflow, index: int) -> int | None:
    arguments = flow.arguments(index)
    if flow.kind(index) == "multiply" and len(arguments) == 2 and root(flow, arguments[0]) == root(flow, arguments[1]):
        return root(flow, arguments[0])
    if flow.kind(index) == "power" and 2.0 in flow.scalars(index):
        return root(flow, arguments[0])
    return root(flow, arguments[0]) if flow.kind(index) == "square" else None


def _is_centred(flow: Dataflow, index: int) -> bool:
    """Whether a value is x less the mean of x."""
    if flow.kind(index) != "subtract" or len(flow.arguments(index)) != 2:
        return False
    subtrahend = root(flow, flow.arguments(index)[1])
    return flow.kind(subtrahend) == "mean" or _is_scaled_mean(flow, subtrahend)


def _is_scaled_mean(flow: Dataflow, index: int) -> bool:
    """Whether a value is a sum over a count, or a mean times a number as TorchScript's subtraction writes it."""
    arguments = flow.arguments(index)
    if flow.kind(index) not in ("divide", "multiply") or len(arguments) != 1:
        return False
    return flow.kind(arguments[0]) in ("sum", "mean")


def _reduces_one_axis(flow: Dataflow, reduction: Operator) -> bool:
    """Whether one axis is reduced, axes of length 1 not counted; batch and instance norms reduce several."""
    shape = flow.shape(reduction.inputs[0])
    axes = {axis % len(shape) for axis in integers(reduction, "axis")} if shape else set()
    if reduction.attributes.get("exclude"):
        axes = set(range(len(shape))) - axes
    return sum(shape[axis] != 1 for axis in axes) == 1


def _scale_and_shift(flow: Dataflow) -> Iterator[int]:
    """Multiplications of a convolution's result by a parameter per channel, followed by an addition."""
    for operator in flow.of_kind({"multiply"}):
        if not _is_per_channel(flow, operator.index) or not _follows_convolution(flow, operator.index):
            continue
        users = flow.users(operator.index)
        if any(flow.kind(user) in ("add", "bias_add") and _is_per_channel(flow, user) for user in users):
            yield operator.index


def _is_per_channel(flow: Dataflow, index: int) -> bool:
    weights = flow.weights(index)
    return len(weights) == 1 and sum(size != 1 for size in flow.shape(weights[0])) == 1


def _follows_convolution(flow: Dataflow, index: int) -> bool:
    walk = walk_back(flow, flow.arguments(index), through=lambda source: flow.kind(source) in _SCALED)
    ahead = walk_forward(flow, index, through=lambda user: flow.kind(user) not in CONVOLUTIONS, limit=12)
    near = walk.ends | ahead.ends
    return any(flow.kind(end) in CONVOLUTIONS for end in near)
