import pytest
from graphs import Net

from passsearch.analysis.graph import axis_size, unwrap_layouts


def test_values_computed_from_weights_alone_are_parameters():
    net = Net()
    x = net.input(1, 4)
    weight = net.op("transpose", net.constant(4, 4))
    net.op("dense", x, weight, shape=(1, 4))
    flow = net.flow()
    assert weight in flow.parameters
    assert x not in flow.parameters


def test_weights_that_are_still_inputs_are_parameters():
    net = Net()
    x, weight, bias = net.input(1, 4), net.input(8, 4), net.input(8)
    y = net.op("dense", x, net.op("transpose", weight), shape=(1, 8))
    net.op("add", y, bias)
    assert net.flow().parameters >= {weight, bias}
    assert x in net.flow().data


def test_an_input_used_as_both_factors_is_data():
    net = Net()
    x = net.input(4, 4)
    net.op("dense", x, x)
    assert x in net.flow().data


@pytest.mark.parametrize(
    ("shape", "layout", "axis", "size"),
    [
        ((1, 64, 7, 7), "NCHW", "C", 64),
        ((1, 7, 7, 64), "NHWC", "C", 64),
        ((1, 8, 7, 7, 8), "NCHW8c", "C", 64),
        ((None, 64, None, 7), "NCHW", "H", None),
        ((1, 64), "NCHW", "C", None),
    ],
)
def test_extent_reads_any_layout(shape, layout, axis, size):
    assert axis_size(shape, layout, axis=axis) == size


def test_root_looks_through_rearrangements():
    net = Net()
    x = net.op("relu", net.input(2, 8))
    y = net.op("cast", net.op("transpose", net.op("reshape", x, shape=(4, 4))))
    assert unwrap_layouts(net.flow(), y) == x
