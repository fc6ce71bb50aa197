"""A network has the same classes and features in every dialect, although importers write it differently."""

from typing import Any

import pytest

import passsearch
from passsearch.toolchain import Toolchain

IMPORTER_FEATURES = {"bias_add", "constant_expression", "transpose", "transpose_dense"}
"""Features that importers decide: Relax's adds biases by a reshape and an addition, and folds no constants."""


def feature_counts(analysis: Any) -> dict[str, int]:
    """Return the counts of the features that importers do not decide."""
    features = analysis.fingerprint.features.items()
    return {name: feature.count for name, feature in features if feature.count and name not in IMPORTER_FEATURES}


@pytest.mark.parametrize(
    "network",
    [
        "resnet18",
        "mobilenet_v2",
        "ssd_mobilenet",
        "unet_tiny",
        "bert_tiny",
        "vit_tiny",
        "gpt2_tiny",
        "llama_tiny",
        "llama_tiny_decode",
    ],
)
def test_classes_and_features_do_not_depend_on_the_importer(network: str, relay: Toolchain, relax: Toolchain) -> None:
    by_relay, by_relax = (
        passsearch.analyze(f"zoo:{network}", toolchain=toolchain.name) for toolchain in (relay, relax)
    )
    assert by_relay.class_names == by_relax.class_names
    assert feature_counts(by_relay) == feature_counts(by_relax)
