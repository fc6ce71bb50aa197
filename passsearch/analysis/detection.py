"""Object detectors: prediction heads on several resolutions of one backbone, anchors, boxes, suppression."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx as nx

from passsearch.analysis.convolution import input_layout, output_channels, output_layout
from passsearch.analysis.graph import Dataflow, axis_size, make_feature, unwrap_layouts, walk_back, walk_forward
from passsearch.analysis.kinds import ARITHMETIC, JOINS, LAYOUTS, POOLS, RESHAPES, SLICES, SOFTMAXES
from passsearch.core import Feature, Operator

# Operators between a head and the concatenation of all predictions: they rearrange and decode. Relu, batch_norm and
# pooling are not among them, because they follow feature maps.
_DECODING = (
    ARITHMETIC
    | LAYOUTS
    | JOINS
    | SLICES
    | SOFTMAXES
    | {"sigmoid", "tanh", "scatter_nd", "stack", "fast_softmax", "square"}
)
_SUPPRESSIONS = frozenset(
    {
        "non_max_suppression",
        "all_class_non_max_suppression",
        "get_valid_counts",
        "multibox_transform_loc",
        "nms",
    }
)
_BOXES = frozenset({"multibox_prior", "multibox_transform_loc", "proposal", "multi_proposal", "roi_align", "roi_pool"})
_REGIONS = frozenset({"roi_align", "roi_pool", "proposal", "multi_proposal", "crop_and_resize"})
_AVERAGES = frozenset(kind for kind in POOLS if "max" not in kind or "adaptive" in kind)
# A detector predicts per region, a segmenter per pixel: the map of a detector's head is at least this many times
# smaller than the image, by side.
_LEAST_REDUCTION = 4
# Feature maps have multiples of 8 channels; predictions have anchors times fields, which rarely is such a multiple.
_CHANNEL_MULTIPLE = 8
# Smallest number of rows in a table of anchor boxes; smaller tables of four columns may be constants for decoding.
_ANCHORS_AT_LEAST = 64


@dataclass(frozen=True)
class _Head:
    """A convolution whose result is a prediction.

    Attributes:
        convolution: Index of the convolution.
        sides: Height and width of its map, or one number: the side of the map as a fraction of the image's side.
    """

    convolution: int
    sides: tuple[float, ...]


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the detection features by name; ``head_scale`` counts resolutions, ``detection_head`` convolutions."""
    heads = _multi_scale_heads(flow)
    # Reversed, so that the first head of every resolution stays in the dictionary.
    scales = {head.sides: head.convolution for head in reversed(heads)}
    return {
        "head_scale": make_feature(scales.values(), _scales_text(scales)),
        "detection_head": make_feature(head.convolution for head in heads),
        "suppression": make_feature(operator.index for operator in flow.of_kind(_SUPPRESSIONS)),
        "box_operator": make_feature(operator.index for operator in flow.of_kind(_BOXES)),
        "region_pooling": make_feature(operator.index for operator in flow.of_kind(_REGIONS)),
        "anchor": make_feature(_anchors(flow)),
    }


def _scales_text(scales: Iterable[tuple[float, ...]]) -> str:
    ordered = sorted(scales, reverse=True)
    return ", ".join("x".join(f"{side:g}" if side >= 1 else f"1/{1 / side:g}" for side in sides) for sides in ordered)


def _multi_scale_heads(flow: Dataflow) -> list[_Head]:
    """Return the heads of the operator that gathers the most resolutions: a concatenation, or the network's results."""
    reductions = _reductions(flow)
    joins = [join for join in flow.of_kind(JOINS) if _joins_predictions(flow, join)]
    groups = [_flat_heads(flow, join.inputs, reductions=reductions) for join in joins]
    # Exporters cut post-processing off in different places: some return predictions one by one, some the raw maps.
    groups += [_flat_heads(flow, flow.results, reductions=reductions), _raw_heads(flow, reductions)]
    matches = [heads for heads in groups if _is_detector(flow, heads, reductions=reductions)]
    return max(matches, key=lambda heads: (len({head.sides for head in heads}), len(heads)), default=[])


def _joins_predictions(flow: Dataflow, join: Operator) -> bool:
    """Return whether a concatenation joins flat predictions, not maps, and no classifier reads the result."""
    if len(flow.shape(join.index)) > 3:
        return False
    walk = walk_forward(flow, join.index, through=lambda index: flow.kind(index) in LAYOUTS)
    return not any(flow.kind(index) == "dense" for index in walk.ends)


def _flat_heads(flow: Dataflow, values: Iterable[int], *, reductions: Mapping[int, float]) -> list[_Head]:
    """Return the heads that produce some values, if a reshape flattens the head's map on the path."""
    convolutions: set[int] = set()
    for value in values:
        walk = walk_back(flow, [value], through=lambda index: flow.kind(index) in _DECODING and index in flow.data)
        if any(_flattens(flow, index) for index in walk.interior):
            convolutions |= {index for index in walk.ends if _may_predict(flow, index)}
    return [_head(flow, index, reductions=reductions) for index in sorted(convolutions)]


def _raw_heads(flow: Dataflow, reductions: Mapping[int, float]) -> list[_Head]:
    """Return the heads whose maps the network returns without a reshape.

    Feature pyramids and deep supervision return maps as well: one map per resolution, with a multiple of 8 channels.
    Predictions come in pairs (class and box), or their channels are anchors times fields.
    """
    convolutions: set[int] = set()
    for value in flow.results:
        walk = walk_back(
            flow, [value], through=lambda index: flow.kind(index) in LAYOUTS | {"bias_add", "sigmoid", "add"}
        )
        convolutions |= {index for index in walk.ends if _may_predict(flow, index)}
    heads = [_head(flow, index, reductions=reductions) for index in sorted(convolutions)]
    sides = [head.sides for head in heads]
    come_in_pairs = all(sides.count(side) > 1 for side in sides)
    channels = [output_channels(flow, flow.operators[index]) for index in convolutions]
    are_no_maps = all(count is not None and count % _CHANNEL_MULTIPLE != 0 for count in channels)
    return heads if come_in_pairs or are_no_maps else []


def _may_predict(flow: Dataflow, index: int) -> bool:
    """Return whether a convolution may be a head."""
    if flow.kind(index) != "conv2d":
        return False
    # Pyramid pooling has convolutions on several resolutions as well, but they read averages of one map.
    return flow.kind(unwrap_layouts(flow, flow.operators[index].inputs[0])) not in _AVERAGES


def _flattens(flow: Dataflow, index: int) -> bool:
    """Return whether a reshape turns a map into another form: fewer axes, or a separate axis for anchors."""
    if flow.kind(index) not in RESHAPES or not flow.arguments(index):
        return False
    before, after = flow.shape(flow.arguments(index)[0]), flow.shape(index)
    return len(before) != len(after)


def _head(flow: Dataflow, index: int, *, reductions: Mapping[int, float]) -> _Head:
    # If sizes are fixed only at run time, the strides before a head give its side as a fraction of the image's.
    return _Head(index, _sides(flow, index) or (1 / reductions.get(index, 1.0),))


def _sides(flow: Dataflow, index: int) -> tuple[float, ...] | None:
    """Return height and width of a convolution's result, ``None`` if they are fixed only at run time."""
    layout = output_layout(flow.operators[index])
    sizes = tuple(axis_size(flow.shape(index), layout, axis=axis) for axis in "HW")
    return None if None in sizes else tuple(float(size) for size in sizes if size is not None)


def _is_detector(flow: Dataflow, heads: list[_Head], *, reductions: Mapping[int, float]) -> bool:
    """Return whether heads read several resolutions of one backbone, all of them coarse compared with the image."""
    scales = {head.sides: head.convolution for head in heads}
    if len(scales) < 2 or not _are_coarse(flow, heads, reductions=reductions):
        return False
    # Without a convolution before all heads there is no common backbone, for example in networks for several images.
    ancestors = (nx.ancestors(flow.data, index) for index in scales.values())
    shared: set[int] = set.intersection(*ancestors)
    return any(flow.kind(index) == "conv2d" for index in shared)


def _are_coarse(flow: Dataflow, heads: list[_Head], *, reductions: Mapping[int, float]) -> bool:
    """Return whether the maps of all heads are much smaller than the largest map that a convolution reads."""
    finest = max((max(head.sides) for head in heads), default=0.0)
    # Fractions of the image, from strides: they are compared with 1, the image itself.
    if finest <= 1 and any(_sides(flow, head.convolution) is None for head in heads):
        return finest * _LEAST_REDUCTION <= 1
    inputs = [size for convolution in flow.of_kind({"conv2d"}) for size in _input_sides(flow, convolution)]
    return finest * _LEAST_REDUCTION <= max(inputs, default=0)


def _input_sides(flow: Dataflow, convolution: Operator) -> list[int]:
    layout = input_layout(convolution)
    sizes = (axis_size(flow.shape(convolution.inputs[0]), layout, axis=axis) for axis in "HW")
    return [size for size in sizes if size is not None]


def _reductions(flow: Dataflow) -> dict[int, float]:
    """Return for every value how many times smaller than the image its map is, from the strides before it."""
    reductions: dict[int, float] = {}
    for index in sorted(flow.data):
        before = max((reductions[source] for source in flow.arguments(index)), default=1.0)
        reductions[index] = before * _stride(flow.operators[index])
    return reductions


def _stride(operator: Operator) -> float:
    strides = operator.attributes.get("strides")
    has_window = operator.kind == "conv2d" or operator.kind in POOLS
    first = strides[0] if has_window and isinstance(strides, list) and strides else 1
    # The top-down path of a feature pyramid enlarges maps again.
    if operator.kind in ("upsampling", "upsampling2d"):
        scale = operator.attributes.get("scale_h")
        return 1 / scale if isinstance(scale, (int, float)) and scale else 1.0
    return float(first) if isinstance(first, (int, float)) else 1.0


def _anchors(flow: Dataflow) -> list[int]:
    """Return the operators that generate anchor boxes, and the constants that are tables of anchor boxes."""
    priors = [operator.index for operator in flow.operators if operator.kind == "multibox_prior"]
    tables = [operator.index for operator in flow.operators if operator.kind == "constant" and _is_box_table(operator)]
    # A weight may have the same shape, but weights are read by convolutions and products.
    anchors = [index for index in tables if any(_decodes(flow, user) for user in _readers(flow, index))]
    return priors + anchors


def _readers(flow: Dataflow, parameter: int) -> list[int]:
    # `Dataflow.users` knows readers of data only.
    return [operator.index for operator in flow.operators if parameter in operator.inputs]


def _decodes(flow: Dataflow, index: int) -> bool:
    return flow.kind(index) in ("add", "multiply", "subtract", "concatenate", "strided_slice", "split")


def _is_box_table(constant: Operator) -> bool:
    shape = constant.outputs[0].shape if constant.outputs else ()
    rows = [size for size in shape if size not in (1, None)]
    return len(rows) == 2 and rows[1] == 4 and (rows[0] or 0) >= _ANCHORS_AT_LEAST
