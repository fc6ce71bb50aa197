import pytest
from graphs import Net, count

from passsearch.analysis import attention


def attention_count(net):
    return count(attention.find_features(net.flow()), "attention")


def test_attention_is_found_once_per_layer():
    net = Net()
    x = net.dense(net.input(1, 16, 32), 32)
    net.attention(net.attention(x))
    assert attention_count(net) == 2


@pytest.mark.parametrize("kind", ["batch_matmul", "matmul", "einsum"])
def test_masks_scales_caps_and_dropout_do_not_hide_attention(kind):
    net = Net()
    q, k, v, mask = (net.dense(net.input(1, 8, 8), 8) for _ in range(4))
    scores = net.op(kind, net.op("reshape", q), k)
    scores = net.op("tanh", net.op("multiply", scores, net.number(0.1)))
    scores = net.op("where", mask, scores, net.number(-1e9), shape=(1, 8, 8))
    weights = net.op("dropout", net.op("softmax", net.op("cast", scores)))
    net.op(kind, net.op("reshape", weights), net.op("transpose", v))
    assert attention_count(net) == 1


def test_a_softmax_in_primitives_counts():
    net = Net()
    x = net.dense(net.input(1, 8, 8), 8)
    scores = net.matmul(x, x)
    powers = net.op("exp", net.op("subtract", scores, net.op("max", scores, shape=(1, 8, 1))))
    net.matmul(net.op("divide", powers, net.op("sum", powers, shape=(1, 8, 1))), x)
    assert attention_count(net) == 1


@pytest.mark.parametrize("case", ["between dense", "classifier", "scores only"])
def test_other_softmaxes_are_not_attention(case):
    net = Net()
    x = net.dense(net.input(1, 8, 8), 8)
    if case == "between dense":
        net.dense(net.op("softmax", net.dense(x, 8)), 8)
    if case == "classifier":
        net.op("softmax", net.dense(x, 8))
    if case == "scores only":
        net.op("softmax", net.matmul(x, x))
    assert attention_count(net) == 0
