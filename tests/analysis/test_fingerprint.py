from graphs import Net

from passsearch.analysis import feature_names, fingerprint


def deep(blocks):
    net = Net()
    x = net.cbr(net.input(1, 3, 32, 32), 8)
    for _ in range(blocks):
        x = net.basic_block(x, 8)
    return net


def test_absent_features_are_there_with_count_nought():
    found = fingerprint(Net().summary())
    assert set(found.features) == feature_names()
    assert found.present() == frozenset()


def test_every_family_has_its_features():
    expected = {
        "explicit_padding",
        "depthwise_separable",
        "residual_convolution",
        "batch_norm",
        "layer_norm",
        "activation_gelu",
        "attention",
        "head_scale",
        "sibling_dense",
        "transpose_dense",
        "quantize",
        "depth",
        "dynamic",
    }
    assert expected <= feature_names()


def test_graphs_deeper_than_any_recursion_limit_are_read():
    found = fingerprint(deep(400).summary())
    assert found.count("depth") == 801
    assert found.count("repeated_block") == 400
    assert found.count("residual_convolution") == 400
