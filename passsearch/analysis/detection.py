"""Detectors: prediction heads on several resolutions of one backbone, anchors, boxes, suppression."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx as nx

from passsearch.analysis.convolution import output_channels, output_layout
from passsearch.analysis.graph import Dataflow, extent, occurrences, root, walk_back, walk_forward
from passsearch.analysis.kinds import ARITHMETIC, JOINS, LAYOUTS, POOLS, RESHAPES, SLICES, SOFTMAXES
from passsearch.core import Feature, Operator

# Between a prediction and where predictions are gathered: rearranging and decoding. Relu, batch_norm and pooling
# mark feature maps instead.
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
# A detector predicts per region, a segmenter per pixel: no head of a detector has more than the image's side
# divided by this.
_LEAST_REDUCTION = 4
_CHANNEL_MULTIPLE = 8
_ANCHORS_AT_LEAST = 64


@dataclass(frozen=True)
class _Head:
    """A convolution whose result is a prediction, and the side lengths of the map it predicts on."""

    convolution: int
    sides: tuple[float, ...]


def features(flow: Dataflow) -> Mapping[str, Feature]:
    """Features of this family by name; ``head_scale`` counts resolutions, ``detection_head`` convolutions."""
    heads = _multi_scale_heads(flow)
    scales = {head.sides: head.convolution for head in reversed(heads)}
    return {
        "head_scale": occurrences(scales.values(), _scales(scales)),
        "detection_head": occurrences(head.convolution for head in heads),
        "suppression": occurrences(each.index for each in flow.of_kind(_SUPPRESSIONS)),
        "box_operator": occurrences(each.index for each in flow.of_kind(_BOXES)),
        "region_pooling": occurrences(each.index for each in flow.of_kind(_REGIONS)),
        "anchor": occurrences(_anchors(flow)),
    }


def _scales(scales: Iterable[tuple[float, ...]]) -> str:
    ordered = sorted(scales, reverse=True)
    return ", ".join("x".join(f"{side:g}" if side >= 1 else f"1/{1 / side:g}" for side in sides) for sides in ordered)


def _multi_scale_heads(flow: Dataflow) -> list[_Head]:
    """Heads of the place that gathers the most resolutions: a concatenation, or what the network returns."""
    reductions = _reductions(flow)
    gathered = [_heads(flow, join.inputs, reductions=reductions) for join in flow.of_kind(JOINS) if _joins(flow, join)]
    gathered += [_heads(flow, flow.results, reductions=reductions), _raw_heads(flow, reductions)]
    fitting = [heads for heads in gathered if _is_detector(flow, heads, reductions=reductions)]
    return max(fitting, key=lambda heads: (len({head.sides for head in heads}), len(heads)), default=[])


def _joins(flow: Dataflow, join: Operator) -> bool:
    """Whether a concatenation gathers flat predictions, not maps, and no classifier reads them."""
    if len(flow.shape(join.index)) > 3:
        return False
    walk = walk_forward(flow, join.index, through=lambda index: flow.kind(index) in LAYOUTS)
    return not any(flow.kind(index) == "dense" for index in walk.ends)


def _heads(flow: Dataflow, values: Iterable[int], *, reductions: Mapping[int, float]) -> list[_Head]:
    """Convolutions behind values, where the way back flattens the map."""
    found: dict[int, _Head] = {}
    for value in values:
        walk = walk_back(flow, [value], through=lambda index: flow.kind(index) in _DECODING and index in flow.data)
        if any(_flattens(flow, index) for index in walk.passed):
            found.update(
                (index, _head(flow, index, reductions=reductions)) for index in walk.ends if _predicts(flow, index)
            )
    return [found[index] for index in sorted(found)]


def _raw_heads(flow: Dataflow, reductions: Mapping[int, float]) -> list[_Head]:
    """Maps returned as they are.

    Feature pyramids and deep supervision return maps as well, one for each resolution, with channels in
    multiples of 8; predictions come in pairs (class and box) or have anchors times fields channels.
    """
    found: dict[int, _Head] = {}
    for value in flow.results:
        walk = walk_back(
            flow, [value], through=lambda index: flow.kind(index) in LAYOUTS | {"bias_add", "sigmoid", "add"}
        )
        found.update(
            (index, _head(flow, index, reductions=reductions)) for index in walk.ends if _predicts(flow, index)
        )
    sides = [head.sides for head in found.values()]
    paired = all(sides.count(side) > 1 for side in sides)
    channels = [output_channels(flow, flow.operators[index]) for index in found]
    odd = all(count is not None and count % _CHANNEL_MULTIPLE != 0 for count in channels)
    return [found[index] for index in sorted(found)] if paired or odd else []


def _predicts(flow: Dataflow, index: int) -> bool:
    """Whether a convolution may be a head; those of pyramid pooling read averages of one map, not several maps."""
    if flow.kind(index) != "conv2d":
        return False
    return flow.kind(root(flow, flow.operators[index].inputs[0])) not in _AVERAGES


def _flattens(flow: Dataflow, index: int) -> bool:
    """Whether a reshape gives up the form of a map: fewer dimensions, or anchors split off from channels."""
    if flow.kind(index) not in RESHAPES or not flow.arguments(index):
        return False
    before, after = flow.shape(flow.arguments(index)[0]), flow.shape(index)
    return len(before) != len(after)


def _head(flow: Dataflow, index: int, *, reductions: Mapping[int, float]) -> _Head:
    return _Head(index, _sides(flow, index) or (1 / reductions.get(index, 1.0),))


def _sides(flow: Dataflow, index: int) -> tuple[float, ...] | None:
    """Height and width of a convolution's result, ``None`` if they are not known before run time."""
    layout = output_layout(flow.operators[index])
    found = [extent(flow.shape(index), layout, axis=axis) for axis in "HW"]
    known = tuple(float(size) for size in found if size is not None)
    return known if len(known) == len(found) else None


def _is_detector(flow: Dataflow, heads: list[_Head], *, reductions: Mapping[int, float]) -> bool:
    """Whether heads stand on several resolutions of one backbone, all of them coarse against the image."""
    scales = {head.sides: head.convolution for head in heads}
    if len(scales) < 2 or not _is_coarse(flow, heads, reductions=reductions):
        return False
    ancestors = (nx.ancestors(flow.data, index) for index in scales.values())
    shared: set[int] = set.intersection(*ancestors)
    return any(flow.kind(index) == "conv2d" for index in shared)


def _is_coarse(flow: Dataflow, heads: list[_Head], *, reductions: Mapping[int, float]) -> bool:
    """Compares with the finest map any convolution reads; by cumulative strides where sizes are unknown."""
    finest = max((max(head.sides) for head in heads), default=0.0)
    if finest <= 1 and any(_sides(flow, head.convolution) is None for head in heads):
        return finest * _LEAST_REDUCTION <= 1
    inputs = [size for each in flow.of_kind({"conv2d"}) for size in _input_sides(flow, each)]
    return finest * _LEAST_REDUCTION <= max(inputs, default=0)


def _input_sides(flow: Dataflow, convolution: Operator) -> list[int]:
    layout = str(convolution.attributes.get("data_layout") or "NCHW")
    found = (extent(flow.shape(convolution.inputs[0]), layout, axis=axis) for axis in "HW")
    return [size for size in found if size is not None]


def _reductions(flow: Dataflow) -> dict[int, float]:
    """How many times smaller than the image each value's map is, by the strides before it."""
    found: dict[int, float] = {}
    for index in sorted(flow.data):
        before = max((found[source] for source in flow.arguments(index)), default=1.0)
        found[index] = before * _stride(flow.operators[index])
    return found


def _stride(operator: Operator) -> float:
    strides = operator.attributes.get("strides")
    windowed = operator.kind == "conv2d" or operator.kind in POOLS
    first = strides[0] if windowed and isinstance(strides, list) and strides else 1
    if operator.kind in ("upsampling", "upsampling2d"):
        scale = operator.attributes.get("scale_h")
        return 1 / scale if isinstance(scale, (int, float)) and scale else 1.0
    return float(first) if isinstance(first, (int, float)) else 1.0


def _anchors(flow: Dataflow) -> list[int]:
    """Operators that lay out prior boxes, and parameters that are tables of many boxes of four numbers."""
    priors = [each.index for each in flow.operators if each.kind == "multibox_prior"]
    tables = [each.index for each in flow.operators if each.kind == "constant" and _is_box_table(each)]
    arithmetic = [index for index in tables if any(_computes(flow, user) for user in _readers(flow, index))]
    return priors + arithmetic


def _readers(flow: Dataflow, parameter: int) -> list[int]:
    return [each.index for each in flow.operators if parameter in each.inputs]


def _computes(flow: Dataflow, index: int) -> bool:
    return flow.kind(index) in ("add", "multiply", "subtract", "concatenate", "strided_slice", "split")


def _is_box_table(constant: Operator) -> bool:
    shape = constant.outputs[0].shape if constant.outputs else ()
    rows = [size for size in shape if size not in (1, None)]
    return len(rows) == 2 and rows[1] == 4 and (rows[0] or 0) >= _ANCHORS_AT_LEAST
