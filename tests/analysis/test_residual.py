import pytest
from graphs import Net, count

from passsearch.analysis import residual


def features_of(net):
    return residual.find_features(net.flow())


def test_the_detail_counts_identity_and_projected_blocks():
    net = Net()
    x = net.cbr(net.input(1, 3, 32, 32), 8)
    net.basic_block(net.basic_block(x, 8), 16, stride=2)
    feature = features_of(net)["residual_convolution"]
    assert (feature.count, feature.detail) == (2, "1 identity, 1 projected")
    assert count(features_of(net), "convolution_in_residual") == 5


def test_preactivation_blocks_are_residual():
    net = Net()
    x = net.conv(net.input(1, 8, 16, 16), 8)
    for _ in range(2):
        y = net.op("relu", net.op("batch_norm", x))
        x = net.op("add", x, net.conv(net.op("relu", net.conv(y, 8)), 8))
    assert count(features_of(net), "residual_convolution") == 2


def test_padded_subsampled_shortcuts_are_identities():
    net = Net()
    x = net.cbr(net.input(1, 8, 16, 16), 8)
    y = net.conv(net.cbr(x, 16, stride=2), 16)
    short = net.op("pad", net.op("strided_slice", x, shape=(1, 8, 8, 8)), shape=(1, 16, 8, 8))
    net.op("add", y, short)
    assert features_of(net)["residual_convolution"].detail == "1 identity, 0 projected"


def test_gates_inside_the_branch_do_not_hide_the_block():
    net = Net()
    x = net.cbr(net.input(1, 8, 16, 16), 8)
    y = net.conv(x, 8)
    gate = net.op("sigmoid", net.conv(net.op("global_avg_pool2d", y, shape=(1, 8, 1, 1)), 8, kernel=1))
    net.op("add", net.op("multiply", y, gate), x)
    assert count(features_of(net), "residual_convolution") == 1


def test_inverted_residuals_are_not_spatial_residuals():
    net = Net()
    x = net.conv(net.input(1, 8, 16, 16), 8)
    y = net.cbr(net.cbr(x, 48, kernel=1), 48, groups=48)
    net.op("add", x, net.conv(y, 8, kernel=1))
    features = features_of(net)
    assert (count(features, "inverted_residual"), count(features, "residual_convolution")) == (1, 0)


def test_a_mask_from_another_input_does_not_hide_the_fork():
    net = Net()
    x, mask = net.dense(net.input(1, 16, 32), 32), net.input(1, 16, 16)
    q, k = net.dense(x, 32), net.dense(x, 32)
    weights = net.op("softmax", net.op("add", net.matmul(q, k), mask))
    net.op("add", net.dense(net.matmul(weights, net.op("transpose", x, shape=(1, 32, 16))), 32), x)
    assert count(features_of(net), "residual_dense") == 1


@pytest.mark.parametrize("case", ["bias", "self", "sum of branches", "upsampled", "highway", "cubic"])
def test_other_adds_are_not_residual(case):
    net = Net()
    x = net.cbr(net.input(1, 8, 16, 16), 8)
    if case == "bias":
        net.op("add", net.conv(x, 8), net.constant(8, 1, 1))
    if case == "self":
        net.op("add", x, x)
    if case == "sum of branches":
        net.op("add", net.cbr(x, 8, kernel=1), net.cbr(net.cbr(x, 8, kernel=1), 8))
    if case == "upsampled":
        net.op("add", x, net.op("resize2d", net.conv(x, 8, stride=2), shape=(1, 8, 16, 16)))
    if case == "highway":
        gate = net.op("sigmoid", net.conv(x, 8))
        net.op("add", net.op("multiply", gate, net.cbr(x, 8)), net.op("multiply", x, net.op("negative", gate)))
    if case == "cubic":
        net.op("add", x, net.op("multiply", x, net.op("multiply", x, x)))
    assert count(features_of(net), "residual_add") == 0


def test_lstm_cells_have_no_residual_adds():
    net = Net()
    x = net.input(1, 4, 16)
    state = net.constant(1, 16)
    for _ in range(4):
        step = net.op("strided_slice", x, shape=(1, 16))
        gates = net.op("add", net.dense(step, 16), net.dense(state, 16))
        state = net.op("multiply", net.op("sigmoid", gates), net.op("tanh", gates))
    assert count(features_of(net), "residual_add") == 0
