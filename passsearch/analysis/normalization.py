"""Normalizations, as one operator or as the chain of primitives that exporters write."""

from collections.abc import Iterator, Mapping

from passsearch.analysis.graph import Dataflow, integer_attribute, make_feature, unwrap_layouts, walk_back, walk_forward
from passsearch.analysis.kinds import CONVOLUTIONS, LAYOUTS
from passsearch.core import Feature, Operator

_ROOTS = frozenset({"sqrt", "rsqrt", "power"})
# Between the mean of squares and its root: epsilon, a floor, n / (n - 1), a change of shape or type.
_UNDER_ROOT = LAYOUTS | {"add", "maximum", "clip", "multiply", "divide"}
# Between a convolution and the multiplication of a folded batch norm.
_SCALED = LAYOUTS | {"bias_add"}


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the normalization features by name."""
    single = _indices(flow, "layer_norm")
    chains = dict(_chains(flow))
    layer_chains = [index for index, kind in chains.items() if kind == "layer"]
    layer_chains += [index for index in _indices(flow, "batch_norm") if _is_keras_layer_norm(flow, index)]
    rms_chains = [index for index, kind in chains.items() if kind == "rms"]
    return {
        "batch_norm": make_feature(_indices(flow, "batch_norm")),
        "folded_batch_norm": make_feature(_scale_and_shift(flow)),
        "layer_norm": make_feature([*single, *layer_chains], _detail(single, layer_chains)),
        "layer_norm_chain": make_feature(layer_chains),
        "rms_norm": make_feature([*rms_chains, *_indices(flow, "rms_norm")]),
        "group_norm": make_feature(_indices(flow, "group_norm")),
        "instance_norm": make_feature(_indices(flow, "instance_norm")),
    }


def _indices(flow: Dataflow, kind: str) -> list[int]:
    return [operator.index for operator in flow.of_kind({kind})]


def _detail(single: list[int], chains: list[int]) -> str:
    return f"{len(single)} as one operator, {len(chains)} as primitives" if single or chains else ""


def _chains(flow: Dataflow) -> Iterator[tuple[int, str]]:
    """Yield the roots of a mean of squares over one axis, with the norm they belong to, ``layer`` or ``rms``."""
    for operator in flow.of_kind(_ROOTS):
        # Every form of a norm has a root: sqrt, rsqrt, or power with 0.5 or -0.5.
        if operator.kind == "power" and not any(abs(value) == 0.5 for value in flow.scalars(operator.index)):
            continue
        walk = walk_back(flow, flow.arguments(operator.index), through=lambda index: _is_under_root(flow, index))
        kinds = {_spread_kind(flow, end) for end in walk.ends}
        norm = next((kind for kind in ("layer", "rms") if kind in kinds), None)
        if norm is not None:
            yield operator.index, norm


def _is_keras_layer_norm(flow: Dataflow, batch_norm: int) -> bool:
    """Return whether a batch norm normalizes one axis by statistics of its own data.

    Keras writes a layer norm as a fused batch norm on a reshaped tensor.
    """
    return any(_spread_kind(flow, source) == "layer" for source in flow.arguments(batch_norm))


def _is_under_root(flow: Dataflow, index: int) -> bool:
    return flow.kind(index) in _UNDER_ROOT and len(flow.arguments(index)) == 1


def _spread_kind(flow: Dataflow, index: int) -> str | None:
    """Return the norm that a measure of spread belongs to: ``layer`` for a variance, ``rms`` for a mean of squares."""
    operator = flow.operators[index]
    if operator.kind == "variance":
        return "layer" if _reduces_one_axis(flow, operator) else None
    # A variance may be written as mean of squares less square of mean.
    if operator.kind == "subtract":
        sources = (flow.operators[unwrap_layouts(flow, source)] for source in flow.arguments(index))
        means = (source for source in sources if source.kind == "mean")
        return "layer" if any(_reduces_one_axis(flow, mean) for mean in means) else None
    kind = _squares_kind(flow, operator) if operator.kind in ("mean", "sum") else None
    # The root of a plain sum of squares is the length of a vector, as in a cosine similarity.
    is_length = operator.kind == "sum" and kind == "rms"
    return None if is_length else kind


def _squares_kind(flow: Dataflow, reduction: Operator) -> str | None:
    if not _reduces_one_axis(flow, reduction):
        return None
    base = _base_of_square(flow, unwrap_layouts(flow, flow.arguments(reduction.index)[0]))
    if base is None:
        return None
    return "layer" if _is_centered(flow, base) else "rms"


def _base_of_square(flow: Dataflow, index: int) -> int | None:
    """Return x if a value is the square of x in any spelling, else ``None``."""
    bases = [unwrap_layouts(flow, argument) for argument in flow.arguments(index)]
    is_product = flow.kind(index) == "multiply" and len(bases) == 2 and bases[0] == bases[1]
    is_power = flow.kind(index) == "power" and 2.0 in flow.scalars(index)
    return bases[0] if is_product or is_power or flow.kind(index) == "square" else None


def _is_centered(flow: Dataflow, index: int) -> bool:
    """Return whether a value is x less the mean of x."""
    if flow.kind(index) != "subtract" or len(flow.arguments(index)) != 2:
        return False
    subtrahend = unwrap_layouts(flow, flow.arguments(index)[1])
    return flow.kind(subtrahend) == "mean" or _is_scaled_mean(flow, subtrahend)


def _is_scaled_mean(flow: Dataflow, index: int) -> bool:
    """Return whether a value is a sum divided by a count, or a mean times a number."""
    # TorchScript's subtraction is x - alpha * y, and exporters keep alpha even where it is 1.
    arguments = flow.arguments(index)
    if flow.kind(index) not in ("divide", "multiply") or len(arguments) != 1:
        return False
    return flow.kind(arguments[0]) in ("sum", "mean")


def _reduces_one_axis(flow: Dataflow, reduction: Operator) -> bool:
    """Return whether exactly one axis longer than 1 is reduced; batch and instance norms reduce several."""
    shape = flow.shape(reduction.inputs[0])
    axes = {axis % len(shape) for axis in integer_attribute(reduction, "axis")} if shape else set()
    # TVM: with `exclude` the listed axes are those that stay.
    if reduction.attributes.get("exclude"):
        axes = set(range(len(shape))) - axes
    return sum(shape[axis] != 1 for axis in axes) == 1


def _scale_and_shift(flow: Dataflow) -> Iterator[int]:
    """Yield the multiplications of folded batch norms: near a convolution, per channel, and before an addition."""
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
    # A pre-activation block has the batch norm before the convolution; 12 operators are enough to reach it.
    ahead = walk_forward(flow, index, through=lambda user: flow.kind(user) not in CONVOLUTIONS, limit=12)
    near = walk.ends | ahead.ends
    return any(flow.kind(end) in CONVOLUTIONS for end in near)
