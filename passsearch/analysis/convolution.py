"""Convolutions: explicit padding, groups, depthwise-separable blocks."""

from collections.abc import Mapping

from passsearch.analysis.graph import Dataflow, axis_size, integer_attribute, make_feature, walk_back, walk_forward
from passsearch.analysis.kinds import (
    ACTIVATIONS,
    CONVOLUTIONS,
    JOINS,
    LAYOUTS,
    PADS,
    POOLS,
    RESHAPES,
    TRANSPOSED_CONVOLUTIONS,
    TRANSPOSES,
)
from passsearch.core import Feature, Operator

# Operators that may lie between the depthwise and the pointwise half of a block: they work on every channel alone.
# A residual add and a layer norm mix more than that. Without them, blocks of ConvNeXt and ConvMixer do not match.
_CHANNELWISE = (
    ACTIVATIONS
    | TRANSPOSES
    | PADS
    | JOINS
    | {
        "batch_norm",
        "bias_add",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "cast",
        "layout_transform",
        "exp",
        "log",
    }
    | {"quantize", "dequantize", "requantize", "squeeze", "expand_dims"}
)
# Between two convolutions of a plain chain.
_CHAINED = ACTIVATIONS | LAYOUTS | PADS | POOLS | {"batch_norm", "bias_add", "multiply", "add", "lrn"}
_SHUFFLES = ([0, 2, 1, 3, 4], [0, 1, 2, 4, 3])  # of NCHW and NHWC, the channels as groups by members
_READS_PADDING = CONVOLUTIONS | POOLS


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the convolution features by name."""
    convolutions = list(flow.of_kind(CONVOLUTIONS))
    separable = [convolution.index for convolution in convolutions if _pointwise_after(flow, convolution)]
    return {
        "convolution": make_feature(convolution.index for convolution in convolutions),
        "explicit_padding": make_feature(pad.index for pad in flow.of_kind(PADS) if _feeds_window(flow, pad)),
        "depthwise_convolution": make_feature(c.index for c in convolutions if is_depthwise(flow, c)),
        "grouped_convolution": make_feature(c.index for c in convolutions if is_grouped(flow, c)),
        "channels_last_convolution": make_feature(c.index for c in convolutions if input_layout(c).endswith("C")),
        "strided_convolution": make_feature(
            c.index for c in convolutions if max(integer_attribute(c, "strides"), default=1) > 1
        ),
        "transposed_convolution": make_feature(each.index for each in flow.of_kind(TRANSPOSED_CONVOLUTIONS)),
        "plain_convolution": make_feature(c.index for c in convolutions if _is_plain(flow, c)),
        "channel_shuffle": make_feature(t.index for t in flow.of_kind(TRANSPOSES) if _shuffles_channels(flow, t)),
        "depthwise_separable": make_feature(separable, _kernels(flow, separable)),
    }


def group_count(convolution: Operator) -> int:
    """Return the number of groups, 1 if the operator has no such attribute."""
    return next(iter(integer_attribute(convolution, "groups")), 1)


def is_depthwise(flow: Dataflow, convolution: Operator) -> bool:
    """Return whether each input channel has filters of its own."""
    channels = input_channels(flow, convolution)
    # One group per input channel. If the shape does not give the channels, several groups count as depthwise:
    # that is by far the most frequent use of groups.
    return group_count(convolution) > 1 and channels in (None, group_count(convolution))


def is_grouped(flow: Dataflow, convolution: Operator) -> bool:
    """Return whether the channels are split in groups of more than one channel."""
    return group_count(convolution) > 1 and not is_depthwise(flow, convolution)


def is_pointwise(flow: Dataflow, convolution: Operator) -> bool:
    """Return whether every kernel dimension is 1 and the channels are not grouped."""
    return group_count(convolution) == 1 and set(kernel_size(flow, convolution)) == {1}


def is_spatial(flow: Dataflow, convolution: Operator) -> bool:
    """Return whether the kernel is larger than 1 and mixes channels."""
    return max(kernel_size(flow, convolution), default=1) > 1 and not is_depthwise(flow, convolution)


def kernel_size(flow: Dataflow, convolution: Operator) -> tuple[int, ...]:
    """Return the kernel's size by axis, from the attributes or the weight's shape; empty if neither has it."""
    sizes = integer_attribute(convolution, "kernel_size")
    if sizes or len(convolution.inputs) < 2:
        return sizes
    layout = str(convolution.attributes.get("kernel_layout") or "OIHW")
    weight = (axis_size(flow.shape(convolution.inputs[1]), layout, axis=axis) for axis in "DHW")
    return tuple(size for size in weight if size is not None)


def input_channels(flow: Dataflow, convolution: Operator) -> int | None:
    """Return the number of input channels, ``None`` if the shape does not determine it."""
    return axis_size(flow.shape(convolution.inputs[0]), input_layout(convolution), axis="C")


def output_channels(flow: Dataflow, convolution: Operator) -> int | None:
    """Return the number of output channels, ``None`` if the shape does not determine it."""
    return axis_size(flow.shape(convolution.index), output_layout(convolution), axis="C")


def input_layout(convolution: Operator) -> str:
    """Return the layout of the map that a convolution reads."""
    return str(convolution.attributes.get("data_layout") or "NCHW")


def output_layout(convolution: Operator) -> str:
    """Return the layout of the map that a convolution produces."""
    # TVM leaves `out_layout` empty if it equals `data_layout`.
    return str(convolution.attributes.get("out_layout") or input_layout(convolution))


def _feeds_window(flow: Dataflow, pad: Operator) -> bool:
    # Exporters write pads of width 0 too, which FoldExplicitPadding gains nothing from.
    widths = pad.attributes.get("pad_width")
    if isinstance(widths, list) and widths and not any(any(pair) for pair in widths if isinstance(pair, list)):
        return False
    walk = walk_forward(flow, pad.index, through=lambda index: flow.kind(index) in LAYOUTS)
    return any(flow.kind(index) in _READS_PADDING for index in walk.ends)


def _is_plain(flow: Dataflow, convolution: Operator) -> bool:
    """Return whether a spatial convolution reads the network's input or one other convolution, by no other path."""
    if not is_spatial(flow, convolution) or is_grouped(flow, convolution):
        return False

    def leads_on(index: int) -> bool:
        return flow.kind(index) in _CHAINED and len(flow.arguments(index)) == 1

    walk = walk_back(flow, flow.arguments(convolution.index)[:1], through=leads_on)
    kinds = {flow.kind(end) for end in walk.ends}
    return len(walk.ends) == 1 and (kinds <= CONVOLUTIONS or kinds == {"input"})


def _shuffles_channels(flow: Dataflow, transpose: Operator) -> bool:
    """Return whether a transpose exchanges groups of channels with the members of groups, between two reshapes."""
    if list(integer_attribute(transpose, "axes")) not in _SHUFFLES:
        return False
    around = [*flow.arguments(transpose.index), *flow.users(transpose.index)]
    return len(around) == 2 and all(flow.kind(index) in RESHAPES for index in around)


def _pointwise_after(flow: Dataflow, convolution: Operator) -> int | None:
    if convolution.kind != "conv2d" or not is_depthwise(flow, convolution):
        return None
    walk = walk_forward(flow, convolution.index, through=lambda index: _is_channelwise(flow, index))
    readers = (flow.operators[index] for index in sorted(walk.ends) if flow.kind(index) == "conv2d")
    return next((reader.index for reader in readers if is_pointwise(flow, reader)), None)


def _is_channelwise(flow: Dataflow, index: int) -> bool:
    # An addition of a bias is channelwise, a residual add is not.
    if flow.kind(index) in ("add", "subtract"):
        return len(flow.arguments(index)) == 1
    return flow.kind(index) in _CHANNELWISE


def _kernels(flow: Dataflow, indices: list[int]) -> str:
    sizes = sorted({kernel_size(flow, flow.operators[index]) for index in indices})
    return "kernels " + ", ".join("x".join(map(str, size)) for size in sizes) if sizes else ""
