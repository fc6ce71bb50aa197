import pytest
from graphs import Net

from passsearch.analysis import siblings


def count_and_detail(net, name):
    feature = siblings.find_features(net.flow())[name]
    return feature.count, feature.detail


def test_dense_layers_on_one_value_are_siblings_through_reshapes():
    net = Net()
    x = net.op("relu", net.input(1, 16, 32))
    for _ in range(3):
        net.dense(net.op("reshape", x, shape=(16, 32)), 32)
    assert count_and_detail(net, "sibling_dense") == (1, "groups of 3")


def test_the_detail_lists_groups_of_all_sizes():
    net = Net()
    x = net.input(1, 8, 16, 16)
    for size in (2, 4):
        x = net.op("concatenate", *(net.conv(x, 8) for _ in range(size)))
    assert count_and_detail(net, "sibling_conv2d") == (2, "groups of 2 and 4")


def test_batch_matmuls_with_constant_weights_are_siblings():
    net = Net()
    x = net.input(1, 16, 32)
    for _ in range(3):
        net.matmul(x, net.constant(1, 32, 32))
    assert count_and_detail(net, "sibling_batch_matmul") == (1, "groups of 3")


@pytest.mark.parametrize("name", ["sibling_dense", "sibling_conv2d", "sibling_batch_matmul"])
def test_a_chain_has_no_siblings(name):
    net = Net()
    x = net.cbr(net.cbr(net.input(1, 8, 16, 16), 8), 8)
    net.dense(net.dense(net.op("batch_flatten", x, shape=(1, 2048)), 8), 8)
    assert count_and_detail(net, name) == (0, "")
