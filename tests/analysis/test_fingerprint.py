from graphs import Net

from passsearch.analysis import compute_fingerprint, feature_names


def residual_network(blocks):
    net = Net()
    x = net.cbr(net.input(1, 3, 32, 32), 8)
    for _ in range(blocks):
        x = net.basic_block(x, 8)
    return net


def test_absent_features_have_count_zero():
    absent = compute_fingerprint(Net().summary())
    assert set(absent.features) == feature_names()
    assert absent.present_features() == frozenset()


def test_every_family_contributes_features():
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


def test_graphs_may_be_deeper_than_the_recursion_limit():
    features = compute_fingerprint(residual_network(400).summary())
    assert features.count("depth") == 801
    assert features.count("repeated_block") == 400
    assert features.count("residual_convolution") == 400
