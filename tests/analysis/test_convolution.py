import pytest
from graphs import Net, count

from passsearch.analysis import convolution


def features_of(net):
    return convolution.find_features(net.flow())


@pytest.mark.parametrize("reader", ["conv2d", "max_pool2d"])
def test_padding_that_a_window_reads_is_explicit(reader):
    net = Net()
    x = net.op("pad", net.input(1, 8, 16, 16), shape=(1, 8, 18, 18), pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]])
    x = net.op("cast", x)
    net.conv(x, 8) if reader == "conv2d" else net.op(reader, x)
    assert count(features_of(net), "explicit_padding") == 1


@pytest.mark.parametrize(("width", "reader"), [(0, "conv2d"), (1, "dense")])
def test_padding_of_width_0_or_before_a_dense_layer_is_not_explicit(width, reader):
    net = Net()
    x = net.op("pad", net.input(1, 8, 16, 16), pad_width=[[0, 0], [0, 0], [width, width], [0, 0]])
    net.conv(x, 8) if reader == "conv2d" else net.dense(x, 4)
    assert count(features_of(net), "explicit_padding") == 0


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_depthwise_grouped_and_plain_convolutions_differ_by_groups(layout):
    net = Net()
    shape = {"N": 1, "C": 32, "H": 8, "W": 8}
    x = net.input(*(shape[axis] for axis in layout))
    net.conv(x, 32, groups=32, layout=layout)
    net.conv(x, 32, groups=4, layout=layout)
    net.conv(x, 32, layout=layout)
    features = features_of(net)
    assert (count(features, "depthwise_convolution"), count(features, "grouped_convolution")) == (1, 1)
    assert count(features, "channels_last_convolution") == (3 if layout == "NHWC" else 0)


def test_a_depthwise_multiplier_is_still_depthwise():
    net = Net()
    net.conv(net.input(1, 8, 8, 8), 16, groups=8)
    assert count(features_of(net), "depthwise_convolution") == 1


def test_transposed_convolutions_are_counted_apart_from_others():
    net = Net()
    x = net.conv(net.input(1, 8, 8, 8), 8)
    net.op("conv2d_transpose", x, net.constant(8, 4, 2, 2), strides=[2, 2])
    features = features_of(net)
    assert (count(features, "transposed_convolution"), count(features, "convolution")) == (1, 1)


def test_packed_layouts_have_channels_on_two_axes():
    net = Net()
    x = net.input(1, 4, 8, 8, 8)
    net.op("conv2d", x, net.constant(4, 1, 3, 3, 1, 8), kernel_size=[3, 3], groups=32, data_layout="NCHW8c")
    assert count(features_of(net), "depthwise_convolution") == 1


def test_kernel_size_comes_from_the_weight_without_an_attribute():
    net = Net()
    x = net.conv(net.input(1, 8, 8, 8), 8, groups=8)
    net.op("conv2d", x, net.constant(16, 8, 1, 1), data_layout="NCHW", kernel_layout="OIHW")
    assert count(features_of(net), "depthwise_separable") == 1


@pytest.mark.parametrize("between", ["batch_norm", "clip", "silu", "pad"])
def test_depthwise_then_pointwise_is_separable(between):
    net = Net()
    x = net.conv(net.input(1, 8, 8, 8), 8, kernel=5, groups=8)
    net.conv(net.op(between, x), 16, kernel=1)
    feature = features_of(net)["depthwise_separable"]
    assert (feature.count, feature.detail) == (1, "kernels 5x5")


def test_squeeze_and_excitation_does_not_hide_a_separable_convolution():
    net = Net()
    x = net.op("relu", net.conv(net.input(1, 8, 8, 8), 8, groups=8))
    gate = net.conv(net.op("global_avg_pool2d", x, shape=(1, 8, 1, 1)), 8, kernel=1)
    net.conv(net.op("multiply", x, net.op("sigmoid", gate)), 16, kernel=1)
    assert count(features_of(net), "depthwise_separable") == 1


@pytest.mark.parametrize("between", ["layer_norm", "residual add", "nothing, then 3x3"])
def test_other_uses_of_depthwise_are_not_separable(between):
    net = Net()
    x = net.input(1, 8, 8, 8)
    y = net.conv(x, 8, kernel=7, groups=8)
    if between == "layer_norm":
        y = net.norm(y)
    if between == "residual add":
        y = net.op("add", x, y)
    net.conv(y, 16, kernel=3 if "3x3" in between else 1)
    assert count(features_of(net), "depthwise_separable") == 0
