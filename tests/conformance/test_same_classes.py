"""One network has the same classes and features in every dialect, whatever its importer makes of it."""

import pytest

import passsearch
from passsearch.toolchain import Toolchain

AS_IMPORTED = {"bias_add", "constant_expression", "transpose", "transpose_dense"}
"""Relax adds biases with a reshape and an addition, and leaves what depends on constants only for FoldConstant."""


@pytest.mark.parametrize("network", ["resnet18", "mobilenet_v2", "ssd_mobilenet", "bert_tiny"])
def test_classes_and_features_are_the_networks_and_not_the_importers(
    network: str, relay: Toolchain, relax: Toolchain
) -> None:
    found = [passsearch.analyze(f"zoo:{network}", toolchain=each.name) for each in (relay, relax)]
    assert found[0].class_names == found[1].class_names
    features = [{name: each.count for name, each in one.fingerprint.features.items() if each.count} for one in found]
    left, right = ({name: count for name, count in one.items() if name not in AS_IMPORTED} for one in features)
    assert left == right
