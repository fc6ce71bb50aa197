import pytest
from graphs import Net

from passsearch.analysis import detection


def backbone(net, size=64, scales=3):
    """Maps at an eighth, a sixteenth, … of the image."""
    x = net.cbr(net.cbr(net.input(1, 3, size, size), 8, stride=2), 16, stride=2)
    maps = []
    for _ in range(scales):
        x = net.cbr(x, 32, stride=2)
        maps.append(x)
    return maps


def flat(net, x, fields=4):
    """A prediction, channels last, one row for each anchor."""
    _, channels, height, width = net.shape(x)
    x = net.op("transpose", x, shape=(1, height, width, channels))
    return net.op("reshape", x, shape=(1, height * width * channels // fields, fields))


def joined(net, values):
    return net.op("concatenate", *values, shape=(1, 99, 4))


def features_of(net, *results):
    return detection.find_features(net.flow(*results))


def test_a_concatenation_joins_heads_of_three_scales():
    net = Net()
    net.op("softmax", joined(net, [flat(net, net.conv(x, 24)) for x in backbone(net)]))
    feature = features_of(net)["head_scale"]
    assert (feature.count, feature.detail) == (3, "8x8, 4x4, 2x2")
    assert features_of(net)["detection_head"].count == 3


def test_a_network_may_return_heads_one_by_one():
    net = Net()
    results = [flat(net, net.conv(x, 24)) for x in backbone(net)]
    assert features_of(net, *results)["head_scale"].count == 3


@pytest.mark.parametrize(("channels", "heads", "scales"), [(27, 1, 3), (24, 2, 3), (24, 1, 0)])
def test_raw_maps_are_heads_in_pairs_or_with_an_odd_channel_count(channels, heads, scales):
    net = Net()
    results = [net.conv(x, channels) for x in backbone(net) for _ in range(heads)]
    assert features_of(net, *results)["head_scale"].count == scales


def test_strides_give_the_scales_of_maps_with_open_sizes():
    net = Net()
    results = []
    for x in backbone(net, size=None):
        y = net.op("transpose", net.conv(x, 24), shape=(1, None, None, 24))
        results.append(net.op("reshape", y, shape=(1, None, 4)))
    feature = features_of(net, joined(net, results))["head_scale"]
    assert (feature.count, feature.detail) == (3, "1/8, 1/16, 1/32")


@pytest.mark.parametrize(
    "case", ["pooled", "pyramid", "activated", "classified", "separate images", "one scale", "upsampled"]
)
def test_other_networks_with_several_maps_have_no_heads(case):
    net = Net()
    maps = backbone(net)
    if case == "pooled":
        maps = [net.op("global_avg_pool2d", net.conv(x, 24), shape=(1, 24, 1, 1)) for x in maps]
        joined(net, [net.op("batch_flatten", x, shape=(1, 24)) for x in maps])
    if case == "pyramid":
        shapes = [(1, 32, size, size) for size in (4, 2, 1)]
        maps = [net.op("adaptive_avg_pool2d", maps[0], shape=shape) for shape in shapes]
        joined(net, [flat(net, net.conv(x, 24)) for x in maps])
    if case == "activated":
        joined(net, [flat(net, net.cbr(x, 24)) for x in maps])
    if case == "classified":
        net.dense(joined(net, [flat(net, net.conv(x, 24)) for x in maps]), 10)
    if case == "separate images":
        joined(net, [flat(net, net.conv(net.input(1, 3, size, size), 24)) for size in (32, 16, 8)])
    if case == "one scale":
        joined(net, [flat(net, net.conv(maps[0], 24)) for _ in range(3)])
    if case == "upsampled":
        maps = [net.op("resize2d", net.conv(x, 24), shape=(1, 24, 64, 64)) for x in maps]
        joined(net, [flat(net, x) for x in maps])
    assert features_of(net)["head_scale"].count == 0


def test_outputs_as_fine_as_the_image_are_segmentation():
    net = Net()
    x = net.cbr(net.input(1, 3, 64, 64), 8)
    half = net.cbr(x, 8, stride=2)
    maps = [x, half, net.cbr(half, 8, stride=2)]
    assert features_of(net, joined(net, [flat(net, net.conv(x, 24)) for x in maps]))["head_scale"].count == 0


def test_boxes_anchors_and_suppression():
    net = Net()
    boxes = net.op("add", net.input(1, 100, 4), net.constant(1, 100, 4))
    net.op("roi_align", net.op("non_max_suppression", boxes))
    features = features_of(net)
    names = ("anchor", "suppression", "box_operator", "region_pooling")
    assert [features[name].count for name in names] == [1, 1, 1, 1]
    net = Net()
    net.op("add", net.input(1, 100, 4), net.constant(1, 10, 4))
    assert features_of(net)["anchor"].count == 0
