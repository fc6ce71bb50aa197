"""Kernels get the settings they run fastest with."""

import pytest

from passsearch.catalog import CatalogEntry, load
from passsearch.core import Pipeline
from passsearch.search.composition import compose, pipelines_to_compose


@pytest.fixture(scope="module")
def entry() -> CatalogEntry:
    return load("relax").entry("ScheduleCPU")


def test_a_pipeline_is_tried_with_every_setting_of_the_catalog(entry: CatalogEntry) -> None:
    found = pipelines_to_compose(Pipeline.parse("FuseTIR,ScheduleCPU{pack=false}"), [entry])
    assert found is not None and entry.kernel_parameter is not None
    assert len(found[1]) == len(entry.kernel_parameter.per_kernel)
    assert str(found[1][0]) == "FuseTIR,ScheduleCPU{pack=false}"
    assert "FuseTIR,ScheduleCPU{pack=false,rows=28}" in map(str, found[1])


def test_a_pipeline_without_such_a_pass_is_not(entry: CatalogEntry) -> None:
    assert pipelines_to_compose(Pipeline.parse("FuseTIR"), [entry]) is None


def test_every_kernel_gets_its_fastest_setting_and_differences_within_the_noise_are_ignored(
    entry: CatalogEntry,
) -> None:
    default, large, kept = map(
        Pipeline.parse, ("ScheduleCPU", "ScheduleCPU{rows=24}", "ScheduleCPU{keep_weights=true}")
    )
    composition = compose(
        entry,
        {
            default: {"dense": 5.0, "conv": 3.0, "same": 1.0},
            large: {"dense": 2.0, "conv": 6.0, "same": 0.99},
            kept: {"dense": 9.0, "conv": 9.0, "same": 9.0},
        },
    )
    # The build with large tiles is the fastest by 9.0 to 8.99, so it is the one that others differ from.
    assert str(composition.pipeline) == 'ScheduleCPU{kernels={"conv":{"rows":null}},rows=24}'
    assert composition.predicted_gain == pytest.approx(8.99 / 5.99)
    assert composition.combinations == 3**3


def test_kernels_that_some_builds_lack_stay_as_they_are(entry: CatalogEntry) -> None:
    default, large = map(Pipeline.parse, ("ScheduleCPU", "ScheduleCPU{rows=24}"))
    composition = compose(entry, {default: {"a": 1.0, "b": 1.0}, large: {"a": 0.5, "c": 9.0}})
    assert str(composition.pipeline) == 'ScheduleCPU{kernels={"a":{"rows":24}}}'
    assert composition.kernels == 1
