"""Convolutions: explicit padding, groups, depthwise-separable blocks."""

from collections.abc import Mapping

from passsearch.analysis.graph import Dataflow, extent, integers, occurrences, walk_forward
from passsearch.analysis.kinds import ACTIVATIONS, CONVOLUTIONS, JOINS, LAYOUTS, PADS, POOLS, TRANSPOSES
from passsearch.core import Feature, Operator

# What may stand between the depthwise and the pointwise half of a block: work on each channel alone.
# A residual add and a layer norm do not, which keeps ConvNeXt and ConvMixer out.
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
_READS_PADDING = CONVOLUTIONS | POOLS


def features(flow: Dataflow) -> Mapping[str, Feature]:
    """Features of this family by name."""
    convolutions = list(flow.of_kind(CONVOLUTIONS))
    separable = [convolution.index for convolution in convolutions if _pointwise_after(flow, convolution)]
    return {
        "convolution": occurrences(convolution.index for convolution in convolutions),
        "explicit_padding": occurrences(pad.index for pad in flow.of_kind(PADS) if _feeds_window(flow, pad)),
        "depthwise_convolution": occurrences(c.index for c in convolutions if is_depthwise(flow, c)),
        "grouped_convolution": occurrences(c.index for c in convolutions if is_grouped(flow, c)),
        "strided_convolution": occurrences(c.index for c in convolutions if max(integers(c, "strides"), default=1) > 1),
        "depthwise_separable": occurrences(separable, _kernels(flow, separable)),
    }


def groups(convolution: Operator) -> int:
    """Number of groups, 1 if the operator does not say."""
    return next(iter(integers(convolution, "groups")), 1)


def is_depthwise(flow: Dataflow, convolution: Operator) -> bool:
    """Whether each input channel has filters of its own."""
    channels = input_channels(flow, convolution)
    return groups(convolution) > 1 and channels in (None, groups(convolution))


def is_grouped(flow: Dataflow, convolution: Operator) -> bool:
    """Whether channels are split in groups of more than one."""
    return groups(convolution) > 1 and not is_depthwise(flow, convolution)


def is_pointwise(flow: Dataflow, convolution: Operator) -> bool:
    """Whether every kernel dimension is 1 and channels are not grouped."""
    return groups(convolution) == 1 and set(kernel(flow, convolution)) == {1}


def is_spatial(flow: Dataflow, convolution: Operator) -> bool:
    """Whether the kernel is larger than 1 and mixes channels."""
    return max(kernel(flow, convolution), default=1) > 1 and not is_depthwise(flow, convolution)


def kernel(flow: Dataflow, convolution: Operator) -> tuple[int, ...]:
    """Kernel sizes, from the attributes or else from the weight's shape; empty if neither tells."""
    stated = integers(convolution, "kernel_size")
    if stated or len(convolution.inputs) < 2:
        return stated
    layout = str(convolution.attributes.get("kernel_layout") or "OIHW")
    found = (extent(flow.shape(convolution.inputs[1]), layout, axis=axis) for axis in "DHW")
    return tuple(size for size in found if size is not None)


def input_channels(flow: Dataflow, convolution: Operator) -> int | None:
    """Channels read, ``None`` if the shape does not tell."""
    layout = str(convolution.attributes.get("data_layout") or "NCHW")
    return extent(flow.shape(convolution.inputs[0]), layout, axis="C")


def output_channels(flow: Dataflow, convolution: Operator) -> int | None:
    """Channels written, ``None`` if the shape does not tell."""
    return extent(flow.shape(convolution.index), output_layout(convolution), axis="C")


def output_layout(convolution: Operator) -> str:
    """Layout of what a convolution yields."""
    attributes = convolution.attributes
    return str(attributes.get("out_layout") or attributes.get("data_layout") or "NCHW")


def _feeds_window(flow: Dataflow, pad: Operator) -> bool:
    widths = pad.attributes.get("pad_width")
    if isinstance(widths, list) and widths and not any(any(pair) for pair in widths if isinstance(pair, list)):
        return False
    walk = walk_forward(flow, pad.index, through=lambda index: flow.kind(index) in LAYOUTS)
    return any(flow.kind(index) in _READS_PADDING for index in walk.ends)


def _pointwise_after(flow: Dataflow, convolution: Operator) -> int | None:
    if convolution.kind != "conv2d" or not is_depthwise(flow, convolution):
        return None
    walk = walk_forward(flow, convolution.index, through=lambda index: _is_channelwise(flow, index))
    readers = (flow.operators[index] for index in sorted(walk.ends) if flow.kind(index) == "conv2d")
    return next((reader.index for reader in readers if is_pointwise(flow, reader)), None)


def _is_channelwise(flow: Dataflow, index: int) -> bool:
    if flow.kind(index) in ("add", "subtract"):
        return len(flow.arguments(index)) == 1
    return flow.kind(index) in _CHANNELWISE


def _kernels(flow: Dataflow, indices: list[int]) -> str:
    found = sorted({kernel(flow, flow.operators[index]) for index in indices})
    return "kernels " + ", ".join("x".join(map(str, size)) for size in found) if found else ""
