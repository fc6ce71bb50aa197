from graphs import Net

from passsearch.analysis import rewrites
from passsearch.core import STORAGE


def counts(net):
    features = rewrites.find_features(net.flow())
    return {name: feature.count for name, feature in features.items() if feature.count}


def test_transposes_of_weights_and_of_data_before_dense():
    net = Net()
    x = net.input(4, 8)
    net.op("dense", x, net.op("transpose", net.constant(8, 4)), shape=(4, 4))
    net.dense(net.op("reshape", net.op("transpose", x, shape=(8, 4)), shape=(8, 4)), 4)
    assert counts(net)["transpose_dense"] == 2


def test_transposes_elsewhere_do_not_feed_dense():
    net = Net()
    net.op("softmax", net.op("transpose", net.dense(net.input(4, 8), 8)))
    assert "transpose_dense" not in counts(net)


def test_small_patterns_are_counted():
    net = Net()
    x = net.op("quantize", net.op("tanh", net.input(4, 8)))
    y = net.op("divide", x, net.number(2.0))
    net.op("divide", x, y)
    net.op("divide", x, y)
    net.op("exp", net.constant(8))
    assert counts(net) == {
        "quantize": 1,
        "fast_math_activation": 1,
        "constant_division": 1,
        "common_subexpression": 1,
        "constant_expression": 1,
    }


def test_a_convolution_between_space_to_batch_and_back_is_dilated():
    net = Net()
    x = net.op("space_to_batch_nd", net.input(1, 8, 16, 16), shape=(4, 8, 8, 8))
    net.op("batch_to_space_nd", net.conv(x, 8), shape=(1, 8, 16, 16))
    assert counts(net)["atrous_conv2d"] == 1


def test_a_selection_from_weights_is_an_embedding_and_one_from_data_is_none():
    net = Net()
    net.op("take", net.constant(100, 8), net.input(1, 4), shape=(1, 4, 8))
    assert counts(net)["embedding"] == 1
    net = Net()
    net.op("take", net.dense(net.input(4, 8), 8), net.number(0.0), shape=(8,))
    assert "embedding" not in counts(net)


def test_products_of_few_rows_are_narrow_if_their_weights_are_whatever_is_around_them():
    def net(rows, *, storage, convolutions=0):
        net = Net()
        weights = net.op("constant", shape=(8, 8), **{STORAGE: storage} if storage else {})
        x = net.input(rows, 8)
        net.op("dense", x, net.op("transpose", net.op("cast", weights)), shape=(rows, 8))
        for _ in range(convolutions):
            net.conv(net.input(1, 8, 16, 16), 8)
        return counts(net).get("narrow_product", 0)

    assert net(1, storage="float16") == net(16, storage="bfloat16") == 1
    assert net(1, storage="") == net(17, storage="float16") == net(1, storage="float16", convolutions=1) == 0
