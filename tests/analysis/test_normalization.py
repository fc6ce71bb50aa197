import pytest
from graphs import Net

from passsearch.analysis import normalization


def counts(net):
    features = normalization.find_features(net.flow())
    return {name: feature.count for name, feature in features.items() if feature.count}


def mean(net, x, kind="mean", axis=-1):
    shape = list(net.shape(x))
    shape[axis] = 1
    return net.op(kind, x, shape=tuple(shape), axis=[axis])


def centered(net, x, axis=-1):
    return net.op("subtract", x, mean(net, x, axis=axis))


def square(net, x, spelling):
    if spelling == "power":
        return net.op("power", x, net.number(2.0))
    return net.op("multiply", x, x) if spelling == "multiply" else net.op("square", x)


def deviation(net, variance, spelling):
    shifted = net.op("add", variance, net.number(1e-5))
    if spelling == "power":
        return net.op("power", shifted, net.number(-0.5))
    return net.op(spelling, shifted)


@pytest.mark.parametrize("squaring", ["power", "multiply", "square"])
@pytest.mark.parametrize("rooting", ["sqrt", "rsqrt", "power"])
def test_layer_norm_in_primitives(squaring, rooting):
    net = Net()
    x = net.input(1, 16, 32)
    difference = centered(net, x)
    spread = deviation(net, mean(net, square(net, difference, squaring)), rooting)
    net.op("divide" if rooting == "sqrt" else "multiply", difference, spread)
    assert counts(net) == {"layer_norm": 1, "layer_norm_chain": 1}


def test_layer_norm_with_a_variance_operator_a_second_mean_and_n_less_one():
    net = Net()
    x = net.input(1, 16, 32)
    net.op("divide", centered(net, x), deviation(net, net.op("variance", x, mean(net, x), axis=[-1]), "sqrt"))
    corrected = net.op("multiply", mean(net, square(net, centered(net, x), "multiply")), net.number(32 / 31))
    net.op("divide", centered(net, x), net.op("add", net.op("sqrt", corrected), net.number(1e-5)))
    assert counts(net)["layer_norm"] == 2


def test_layer_norm_as_one_operator_and_over_channels():
    net = Net()
    x = net.norm(net.input(1, 16, 32))
    y = net.op("reshape", x, shape=(1, 32, 4, 4))
    net.op("divide", y, deviation(net, mean(net, square(net, centered(net, y, 1), "power"), axis=1), "sqrt"))
    assert counts(net) == {"layer_norm": 2, "layer_norm_chain": 1}


def test_a_batch_norm_over_statistics_of_its_own_data_is_a_layer_norm():
    net = Net()
    x = net.op("reshape", net.input(1, 16, 32), shape=(1, 16, 32, 1))
    ones, moments = net.constant(16), {"shape": (16,), "axis": [1], "exclude": 1}
    middle = net.op("mean", x, **moments)
    net.op("batch_norm", x, ones, ones, middle, net.op("variance", x, middle, **moments))
    assert counts(net)["layer_norm"] == 1


def test_a_mean_multiplied_by_one_is_a_mean():
    net = Net()
    x = net.input(1, 16, 32)
    difference = net.op("subtract", x, net.op("multiply", net.number(1.0), mean(net, x)))
    net.op("divide", difference, deviation(net, mean(net, square(net, difference, "power")), "sqrt"))
    assert counts(net) == {"layer_norm": 1, "layer_norm_chain": 1}


def test_mean_of_squares_less_square_of_mean():
    net = Net()
    x = net.input(1, 16, 32)
    middle = mean(net, x)
    variance = net.op("subtract", mean(net, square(net, x, "multiply")), square(net, middle, "multiply"))
    net.op("divide", net.op("subtract", x, middle), deviation(net, variance, "sqrt"))
    assert counts(net)["layer_norm"] == 1


def test_a_norm_without_mean_is_an_rms_norm():
    net = Net()
    x = net.input(1, 16, 32)
    net.op("multiply", x, deviation(net, mean(net, square(net, x, "power")), "rsqrt"))
    assert counts(net) == {"rms_norm": 1}


@pytest.mark.parametrize("case", ["instance", "length", "plain root"])
def test_other_roots_are_not_norms_over_one_axis(case):
    net = Net()
    x = net.input(1, 8, 16, 16)
    if case == "instance":
        difference = net.op("subtract", x, net.op("mean", x, shape=(1, 8, 1, 1), axis=[2, 3]))
        spread = net.op("mean", net.op("multiply", difference, difference), shape=(1, 8, 1, 1), axis=[2, 3])
        net.op("divide", difference, deviation(net, spread, "sqrt"))
    if case == "length":
        net.op("divide", x, net.op("sqrt", mean(net, square(net, x, "multiply"), kind="sum")))
    if case == "plain root":
        net.op("sqrt", x)
    assert counts(net) == {}


def test_batch_norm_whole_and_written_as_scale_and_shift():
    net = Net()
    x = net.conv(net.input(1, 3, 16, 16), 8)
    x = net.op("batch_norm", x, *(net.constant(8) for _ in range(4)))
    x = net.op("multiply", net.conv(x, 8), net.constant(8, 1, 1))
    net.op("add", x, net.constant(8, 1, 1))
    assert counts(net) == {"batch_norm": 1, "folded_batch_norm": 1}


def test_scaling_by_a_number_is_not_a_batch_norm():
    net = Net()
    x = net.op("multiply", net.conv(net.input(1, 3, 16, 16), 8), net.number(0.5))
    net.op("add", x, net.number(1.0))
    assert counts(net) == {}
