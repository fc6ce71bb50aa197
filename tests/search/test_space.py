"""Keys and sequences, without a compiler."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from passsearch.catalog import catalog_in_tf32, insert_prerequisites, load
from passsearch.core import BuildOptions, Candidate, Failure, PassSpec, Pipeline
from passsearch.evaluate import Edge, StateGraph
from passsearch.search import Space, starting_sequences

CATALOG = load("relay")
NAMES = ("SimplifyInference", "AlterOpLayout", "FoldConstant", "FuseOps", "ConvertLayout")


def space(*features: str) -> Space:
    return Space(CATALOG, tuple(CATALOG.entry(name) for name in NAMES), frozenset(features))


def draw(searched: Space, seed: int) -> dict[str, object]:
    rng = random.Random(seed)
    return {
        name: rng.choice(kind.choices) if hasattr(kind, "choices") else rng.random()
        for name, kind in searched.distributions().items()
    }


@pytest.mark.parametrize("seed", range(40))
def test_every_set_of_keys_decodes_to_a_sequence_that_is_complete(seed: int) -> None:
    searched = space("batch_norm")
    names = [step.name for step in searched.decode(draw(searched, seed)).pipeline.passes]  # type: ignore[arg-type]
    if "AlterOpLayout" in names:
        assert "SimplifyInference" in names[: names.index("AlterOpLayout")]


@pytest.mark.parametrize("seed", range(40))
def test_a_decoded_sequence_encodes_to_keys_of_the_same_sequence(seed: int) -> None:
    searched = space()
    candidate = searched.decode(draw(searched, seed))  # type: ignore[arg-type]
    keys = searched.encode(candidate)
    counts = Counter(step.name for step in candidate.pipeline.passes)
    if any(count > CATALOG.entry(name).repeat for name, count in counts.items()):
        assert keys is None, "a needed pass was put in beside the one that came later: no keys say that"
        return
    assert keys is not None
    assert searched.decode(keys).pipeline == candidate.pipeline


@pytest.mark.parametrize("seed", range(40))
def test_a_decoded_sequence_has_no_conflict(seed: int) -> None:
    catalog = load("relax")
    names = ("FuseOps", "FuseTIR", "CutFusion", "ScheduleRows", "ScheduleCPU")
    searched = Space(catalog, tuple(map(catalog.entry, names)), frozenset())
    assert not catalog.conflicts(searched.decode(draw(searched, seed)).pipeline)  # type: ignore[arg-type]


def test_every_pass_of_a_decoded_sequence_has_its_prerequisites() -> None:
    catalog, features = load("relax"), frozenset({"batch_norm", "common_subexpression"})
    entries = tuple(entry for entry in catalog.entries.values() if entry.role == "candidate")
    searched = Space(catalog, entries, features)
    for seed in range(300):
        decoded = searched.decode(draw(searched, seed)).pipeline  # type: ignore[arg-type]
        assert insert_prerequisites(decoded, catalog, features=features) == decoded
        assert not catalog.conflicts(decoded)


def test_a_sequence_outside_the_space_has_no_keys() -> None:
    outside = Candidate(Pipeline((PassSpec.of("DefuseOps"),)))
    assert space().encode(outside) is None
    assert space().encode(Candidate(Pipeline(), BuildOptions(0, disabled=("FuseOps",)))) is None


def test_the_lowest_level_is_the_dialects_own_way_of_lowering() -> None:
    lowering = BuildOptions(0, disabled=("SimplifyExpr",))
    searched = replace(space(), builds=(lowering, BuildOptions(3)))
    keys = draw(searched, 0)
    builds = [searched.decode({**keys, "build:opt_level": level}).build for level in (0, 3)]  # type: ignore[arg-type]
    assert builds == [lowering, BuildOptions(3)]
    assert searched.encode(Candidate(Pipeline(), BuildOptions(0))) is None
    encoded = searched.encode(Candidate(Pipeline(), lowering))
    assert encoded is not None and searched.decode(encoded).build == lowering


def test_the_graph_reports_the_cheapest_way_and_leaves_out_what_did_nothing() -> None:
    graph, (a, b, idle) = StateGraph("root"), (PassSpec.of(name) for name in ("A", "B", "Idle"))
    graph.add("root", idle, edge=Edge("root", 1.0))
    graph.add("root", a, edge=Edge("x", 5.0))
    graph.add("root", b, edge=Edge("y", 1.0))
    graph.add("y", a, edge=Edge("x", 1.0))
    pipeline, seconds = graph.cheapest("x")
    assert str(pipeline) == "B,A" and seconds == 2.0
    assert graph.states == 3


def test_a_graph_is_closed_when_every_pass_was_tried_everywhere() -> None:
    graph, step = StateGraph("root"), PassSpec.of("A")
    assert not graph.closed([step])
    graph.add("root", step, edge=Edge("x", 1.0))
    assert not graph.closed([step])
    graph.add("x", step, edge=Edge(Failure("crash", "apply", "A", "died"), 1.0))
    assert graph.closed([step])


def test_a_sequence_for_cpus_starts_no_search_for_a_gpu() -> None:
    relax = load("relax")
    for kind, is_tried in (("cpu", True), ("gpu", False)):
        names = [trial.name for trial in starting_sequences(relax, features=frozenset(), device_kind=kind)]
        assert ("default-passes" in names) == is_tried


def test_sequences_that_schedule_kernels_start_a_search_and_then_those_of_the_baseline() -> None:
    names = {
        (dialect, kind): [
            trial.name for trial in starting_sequences(load(dialect), features=frozenset(), device_kind=kind)
        ]
        for dialect, kind in (("relax", "cpu"), ("relax", "gpu"), ("relay", "cpu"))
    }
    assert names["relax", "cpu"][0] == "schedule-cpu"
    assert names["relax", "cpu"].index("default-passes") == sum("schedule" in name for name in names["relax", "cpu"])
    assert names["relax", "gpu"][:3] == ["schedule-gpu", "merge-schedule-gpu", "default-passes-gpu"]
    assert names["relay", "cpu"][0] == "O3-passes"
    for_size = starting_sequences(load("relax"), features=frozenset(), device_kind="cpu", for_speed=False)
    assert for_size[0].name == "default-passes"


def test_only_the_catalog_in_tf32_proposes_tf32() -> None:
    plain = load("relax")
    for catalog, is_proposed in ((plain, False), (catalog_in_tf32(plain), True)):
        trials = starting_sequences(catalog, features=frozenset(), device_kind="gpu")
        specs = [step for entry in catalog.entries.values() for step in entry.variants()]
        found = [any(each.pipeline.is_in_tf32 for each in trials), any(step.is_in_tf32 for step in specs)]
        assert found == [is_proposed, is_proposed]
        recommended = {each.name for each in catalog.sequences.values() if each.recommended}
        assert (recommended == {"schedule-gpu-tf32"}) == is_proposed


def test_a_sequence_for_decoders_starts_searches_of_decoders_only() -> None:
    relax = load("relax")
    for features, is_tried in ((frozenset(), False), (frozenset({"cached_attention"}), True)):
        names = [trial.name for trial in starting_sequences(relax, features=features, device_kind="cpu")]
        assert ("decoder-schedule-cpu" in names) == is_tried
