from graphs import Net

from passsearch.analysis import structure


def find_feature(net, name):
    return structure.find_features(net.flow())[name]


def test_depth_counts_weighted_operators_on_the_longest_path():
    net = Net()
    x = net.input(1, 3, 16, 16)
    long = net.conv(net.conv(net.conv(x, 8), 8), 8)
    net.op("concatenate", long, net.conv(x, 8))
    assert find_feature(net, "depth").count == 3


def test_equal_blocks_are_a_repetition():
    net = Net()
    x = net.cbr(net.input(1, 3, 32, 32), 8, kernel=7)
    first = len(net.operators)
    for _ in range(5):
        x = net.basic_block(x, 8)
    feature = find_feature(net, "repeated_block")
    assert feature.count == 5
    assert feature.first >= first - 1
    assert "2 conv2d" in feature.detail


def test_a_mask_that_enters_every_block_does_not_hide_the_repetition():
    net = Net()
    x, mask = net.dense(net.input(1, 16, 32), 32), net.op("cast", net.input(1, 16, 16))
    for _ in range(4):
        scores = net.op("add", net.matmul(net.dense(x, 32), net.dense(x, 32)), mask)
        x = net.op("add", x, net.dense(net.op("softmax", scores), 32))
    assert find_feature(net, "repeated_block").count == 4


def test_blocks_with_other_kernels_are_not_equal():
    net = Net()
    x = net.input(1, 8, 32, 32)
    for kernel in (1, 3, 5, 7):
        x = net.cbr(x, 8, kernel=kernel)
    assert find_feature(net, "repeated_block").count == 0


def test_open_dimensions_and_shapes_from_data_are_dynamic():
    net = Net()
    x = net.op("relu", net.input(4, 8))
    net.op("reshape", x, net.input(2), shape=(8, 4))
    assert find_feature(net, "dynamic").count == 1
    net.input(None, 8)
    assert find_feature(net, "dynamic").count == 2


def test_an_empty_graph_has_no_structure():
    assert {feature.count for feature in structure.find_features(Net().flow()).values()} == {0}
