"""A named sequence of the catalog on a network with batch norms after its convolutions."""

import pytest

import passsearch
from passsearch.toolchain import Toolchain


@pytest.mark.toolchain
def test_layouts_are_converted_after_batch_norms_are_folded(relax: Toolchain) -> None:
    names = ["default", "nhwc-schedule-cpu"]
    document = passsearch.compare("zoo:resnet_tiny", names, toolchain=relax.name, rounds=2, processes=1)
    assert ["failure" in row for row in document["rows"]] == [False, False]
