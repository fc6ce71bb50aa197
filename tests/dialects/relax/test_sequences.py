"""Named sequences of the catalog on the networks that they are for."""

import pytest
import short_plans

from passsearch.toolchain import Toolchain


@pytest.mark.toolchain
def test_layouts_are_converted_after_batch_norms_are_folded(relax: Toolchain) -> None:
    names = ["default", "nhwc-schedule-cpu"]
    document = short_plans.compare("zoo:resnet_tiny", names, toolchain=relax.name, rounds=2, processes=1)
    assert ["failure" in row for row in document["rows"]] == [False, False]


@pytest.mark.toolchain
@pytest.mark.parametrize("network", [pytest.param("llama_tiny", marks=pytest.mark.slow), "llama_tiny_decode"])
def test_decoders_compute_the_same_in_their_sequences(relax: Toolchain, network: str) -> None:
    names = ["combine-schedule-cpu", "decoder-schedule-cpu", "transposed-schedule-cpu"]
    document = short_plans.compare(f"zoo:{network}", names, toolchain=relax.name, rounds=2, processes=1)
    assert [row.get("failure") for row in document["rows"]] == [None] * len(document["rows"])
