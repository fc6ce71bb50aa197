"""Variants of a pipeline."""

from passsearch.catalog import Catalog, load
from passsearch.core import PassSpec, Pipeline
from passsearch.search.variants import variants

NO_CONFLICTS = Catalog("relax")
FUSE, DEEP, FOLD = PassSpec.of("Fuse"), PassSpec.of("Fuse", depth=2), PassSpec.of("Fold")


def test_every_variant_differs_by_one_change() -> None:
    found = {
        str(variant) for variant in variants(Pipeline((FUSE, FOLD)), [FUSE, DEEP, FOLD], catalog=NO_CONFLICTS, seed=0)
    }
    assert {"Fold", "Fuse"} <= found, "a pass left out"
    assert "Fold,Fuse" in found, "neighbours exchanged"
    assert f"{DEEP},Fold" in found, "other arguments"
    assert f"Fuse,{DEEP},Fold" in found, "a pass inserted"
    assert "Fuse,Fold" not in found, "the pipeline itself"
    assert len(found) == 2 + 1 + 1 + 7


def test_the_order_depends_on_the_seed_alone() -> None:
    orders = [
        list(variants(Pipeline((FUSE, FOLD)), [DEEP, FOLD], catalog=NO_CONFLICTS, seed=seed)) for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2] and set(orders[0]) == set(orders[2])


def test_no_change_makes_a_conflict() -> None:
    scheduled = Pipeline.parse("LegalizeOps,ScheduleRows,ScheduleCPU")
    found = {str(variant) for variant in variants(scheduled, scheduled.passes, catalog=load("relax"), seed=0)}
    assert "ScheduleRows,LegalizeOps,ScheduleCPU" in found
    assert "LegalizeOps,ScheduleCPU,ScheduleRows" not in found and not any("CPU,ScheduleRows" in each for each in found)


def test_conflicts_that_a_pipeline_has_already_exclude_no_variant() -> None:
    late = Pipeline.parse("LegalizeOps,ScheduleCPU,ScheduleRows")
    found = {str(variant) for variant in variants(late, late.passes, catalog=load("relax"), seed=0)}
    assert {"ScheduleCPU,ScheduleRows", "LegalizeOps,ScheduleRows,ScheduleCPU"} <= found
    assert "LegalizeOps,ScheduleCPU,LegalizeOps,ScheduleRows" in found
    assert "LegalizeOps,ScheduleCPU,ScheduleRows,ScheduleRows" not in found, "one more conflict"
