import pytest
from graphs import Net

from passsearch.analysis import activation


def activations(net):
    features = activation.find_features(net.flow())
    return {name.removeprefix("activation_") for name, feature in features.items() if feature.count}


def silu(net, x):
    net.op("multiply", x, net.op("sigmoid", x))


def gelu_by_erf(net, x):
    net.op("multiply", x, net.op("add", net.op("erf", net.op("divide", x, net.number(1.41))), net.number(1.0)))


def gelu_by_tanh(net, x):
    cube = net.op("multiply", net.op("power", x, net.number(3.0)), net.number(0.044715))
    net.op("tanh", net.op("multiply", net.op("add", x, cube), net.number(0.798)))


def hard_swish(net, x):
    net.op("multiply", x, net.op("clip", net.op("add", x, net.number(3.0)), a_min=0.0, a_max=6.0))


def relu6_behind_a_bias(net, x):
    net.op("clip", net.op("add", x, net.constant(1, 8)), a_min=0.0, a_max=6.0)


def gate(net, x):
    net.op("multiply", x, net.op("sigmoid", net.dense(x, 8)))


@pytest.mark.parametrize(
    ("write", "names"),
    [
        (silu, {"silu"}),
        (gelu_by_erf, {"gelu"}),
        (gelu_by_tanh, {"gelu"}),
        (hard_swish, {"hard_sigmoid"}),
        (relu6_behind_a_bias, {"relu6"}),
        (gate, {"sigmoid"}),
        (lambda net, x: net.op("clip", x, a_min=0.0, a_max=6.0), {"relu6"}),
        (lambda net, x: net.op("clip", x, a_min=-1.0, a_max=1.0), set()),
        (lambda net, x: net.op("tanh", x), {"tanh"}),
        (lambda net, x: net.op("relu", x), {"relu"}),
    ],
)
def test_activations_are_named_by_what_they_compute(write, names):
    net = Net()
    write(net, net.input(1, 8))
    assert activations(net) == names
