"""Relations of passes, from a state graph that is written down here, and one of them from the compiler."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from passsearch.api.common import network_session, open_evaluator
from passsearch.catalog import load, read_relations
from passsearch.core import Failure, NetworkOptions, PassSpec, Pipeline
from passsearch.evaluate import Edge, StateGraph
from passsearch.toolchain import Toolchain

FAILURE = Failure("compile_error", "apply", "", "refused")


@pytest.fixture
def pairs(load_benchmark: Callable[[str], Any]) -> Any:
    return load_benchmark("search.pass_pairs")


def graph(**edges: str) -> tuple[StateGraph, list[PassSpec]]:
    """Return a graph with edges such as ``root_Fold="folded"``; ``failed`` is a failure, other edges are loops."""
    built = StateGraph("root")
    states = ["root", *(state for state in edges.values() if state != "failed")]
    steps = [PassSpec.of(name) for name in dict.fromkeys(key.partition("_")[2] for key in edges)]
    for state in dict.fromkeys(states):
        for step in steps:
            target = edges.get(f"{state}_{step.name}", state)
            built.add(state, step, edge=Edge(FAILURE if target == "failed" else target, 0.0))
    return built, steps


def seen(pairs: Any, **edges: str) -> set[tuple[str, str, str, bool]]:
    built, steps = graph(**edges)
    return {tuple(each) for each in pairs.pairs_in(built, "root", steps) if each.relation != pairs.WITHOUT}


def test_a_pass_that_acts_only_after_another_one_is_enabled_by_it(pairs: Any) -> None:
    found = seen(pairs, root_Lower="lowered", lowered_Fuse="fused")
    assert found == {("enables", "Lower", "Fuse", True), ("idempotent", "Lower", "Lower", True)} | {
        ("precedes", "Lower", "Fuse", False)
    }


def test_a_pass_that_acts_before_another_one_only_is_disabled_by_it(pairs: Any) -> None:
    found = seen(pairs, root_Fold="folded", root_Lower="lowered", folded_Lower="both")
    assert ("disables", "Lower", "Fold", True) in found and ("disables", "Fold", "Lower", False) in found
    assert ("commutes", "Fold", "Lower", False) in found, "lowered in one order, folded and lowered in the other"


def test_passes_that_lead_to_one_state_in_both_orders_commute(pairs: Any) -> None:
    found = seen(pairs, root_Fold="folded", root_Lower="lowered", folded_Lower="both", lowered_Fold="both")
    assert ("commutes", "Fold", "Lower", True) in found
    assert not any(relation in ("enables", "precedes") and holds for relation, *_, holds in found)


@pytest.mark.parametrize(
    "edges",
    [
        {"root_Lower": "lowered", "root_Plan": "failed", "lowered_Plan": "planned"},
        {"root_Lower": "lowered", "root_Plan": "early", "early_Lower": "failed", "lowered_Plan": "planned"},
    ],
    ids=["the second fails alone", "the first fails afterwards"],
)
def test_a_pass_that_fails_in_the_other_order_only_must_precede(pairs: Any, edges: dict[str, str]) -> None:
    found = seen(pairs, **edges)
    assert ("precedes", "Lower", "Plan", True) in found
    assert not any(relation == "precedes" and first == "Plan" for relation, first, *_ in found)


def test_a_pass_that_acts_a_second_time_is_not_idempotent_and_a_fault_of_the_machine_says_nothing(pairs: Any) -> None:
    assert ("idempotent", "Grow", "Grow", False) in seen(pairs, root_Grow="larger", larger_Grow="largest")
    built, steps = graph(root_Lower="lowered", lowered_Fuse="fused")
    built.add("lowered", PassSpec.of("Fuse"), edge=Edge(Failure("infra", "apply", "Fuse", "disk full"), 0.0))
    assert {each.relation for each in pairs.pairs_in(built, "root", steps)} == {"idempotent"}


def test_a_pass_acts_without_another_one_where_that_has_not_been(pairs: Any) -> None:
    built, steps = graph(root_Lower="lowered", root_Fuse="fused")
    without = pairs.Seen(pairs.WITHOUT, "Lower", "Fuse", True)
    assert without in list(pairs.pairs_in(built, "root", steps))
    assert without not in list(pairs.pairs_in(built, "root", steps, earlier=Pipeline((PassSpec.of("Lower"),))))


def test_states_of_networks_add_up_and_the_smallest_network_is_the_witness(pairs: Any, tmp_path: Path) -> None:
    document: dict[str, Any] = {"networks": {}, "witnesses": [], "relations": {}}
    shown, denied = (pairs.Seen("enables", "Lower", "Fuse", holds) for holds in (True, False))
    pairs.add_network(document, "large", operators=9, starts={"": [denied], "Fold": [shown], "Fold,Cut": [shown]})
    pairs.add_network(document, "small", operators=4, starts={"": [shown]})
    pairs.add_network(document, "larger", operators=20, starts={"": [shown], "Fold": [denied]})
    assert document["relations"]["enables"]["Lower"]["Fuse"] == [4, 2, document["witnesses"].index(["small", ""])]
    assert ["large", "Fold"] in document["witnesses"], "the fewest passes of that network"

    pairs.write_pairs(tmp_path / "all.json", document)
    assert pairs.read(tmp_path / "all.json") == document


def test_a_declaration_is_confirmed_or_contradicted(pairs: Any) -> None:
    relations = {
        "enables": {"FuseOps": {"FuseTIR": [3, 1, 0]}},
        "disables": {"ScheduleCPU": {"ScheduleRows": [2, 0, 0]}},
        pairs.WITHOUT: {"ConvertLayout": {"Winograd": [2, 0, 0]}},
        "precedes": {},
    }
    rows = {row[:3]: row[3] for row in pairs.declared({"relations": relations}, load("relax"))}
    assert rows["FuseTIR", "needs", "FuseOps"] == "confirmed"
    assert rows["ScheduleRows", "conflicts", "ScheduleCPU"] == "confirmed"
    assert rows["Winograd", "needs", "ConvertLayout"] == "contradicted"
    assert rows["CutFusion", "needs", "LegalizeOps"] == "no witness"


def test_pairs_of_relay_are_those_of_its_recorded_spaces(pairs: Any, tmp_path: Path) -> None:
    document: dict[str, Any] = {"schema": "passsearch-pairs/1", "networks": {}, "witnesses": [], "relations": {}}
    pairs.recorded_pairs(document)
    pairs.write_pairs(tmp_path / "pairs.json", document, least=1, without=pairs.WITHOUT)
    assert (tmp_path / "pairs.json").read_text() == (pairs.CATALOGS / "relay" / "pairs.json").read_text()
    assert document["relations"]["precedes"]["SimplifyInference"]["AlterOpLayout"][0], "it fails on a batch norm"


def test_a_shipped_relation_is_seen_again(pairs: Any, relax: Toolchain, tmp_path: Path) -> None:
    shipped = read_relations("relax")
    assert shipped is not None
    found = next(each for each in shipped.of("FuseOps").pairs if (each.relation, each.second) == ("enables", "FuseTIR"))
    network = pairs.write_network(found.network, tmp_path)
    session = network_session(str(network), None, NetworkOptions(toolchain=relax.name))
    with open_evaluator(session, remember=False) as evaluator:

        def reach(*names: str) -> str:
            steps = [session.catalog.entry(name).variants()[0] for name in names]
            return str(evaluator.reach(Pipeline((*Pipeline.parse(found.after).passes, *steps))))

        assert reach() == reach("FuseTIR")
        assert len({reach(), reach("FuseOps"), reach("FuseOps", "FuseTIR")}) == 3
