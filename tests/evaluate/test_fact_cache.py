"""The facts of one run serve the next one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import short_plans

import passsearch
from passsearch.toolchain import Toolchain

CHEAP = ("SimplifyInference", "FoldConstant", "FuseOps")


def tune(network: Path, toolchain: Toolchain, out: Path, **more: Any) -> passsearch.TuneResult:
    settings = {"trials": 3, "confirm": 0, "passes": CHEAP, **more}
    return short_plans.tune(network, toolchain=toolchain.name, out=out, **settings)


def entries(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line.partition(" ")[2]) for line in (run / "log.jsonl").read_text().splitlines()]


def facts(run: Path, kind: str) -> list[dict[str, Any]]:
    return [entry["fact"] for entry in entries(run) if entry["kind"] == kind]


def test_a_second_run_does_nothing_again_unless_it_is_to_start_afresh(
    relay: Toolchain, small_network: Path, tmp_path: Path
) -> None:
    first = tune(small_network, relay, tmp_path / "first")
    again = tune(small_network, relay, tmp_path / "again")
    tune(small_network, relay, tmp_path / "afresh", remember=False)
    for kind in ("edge", "build", "samples"):
        assert facts(tmp_path / "again", kind), kind
        assert all(sum(fact["spent"].values()) == 0 for fact in facts(tmp_path / "again", kind)), kind
        assert any(sum(fact["spent"].values()) > 0 for fact in facts(tmp_path / "afresh", kind)), kind
    rows = [[row["pipeline"] for row in run.document["trials"]] for run in (first, again)]
    assert rows[0] == rows[1]


def test_an_explored_space_is_known_to_the_search(relay: Toolchain, small_network: Path, tmp_path: Path) -> None:
    passsearch.explore(small_network, toolchain=relay.name, passes=CHEAP)
    found = tune(small_network, relay, tmp_path / "run").document
    assert found["space"]["closed"] and found["space"]["sampler"] == "graph"
    within = [fact for fact in facts(tmp_path / "run", "edge") if fact["spent"]["apply"] == 0]
    assert len(within) >= len(CHEAP)
    written = (tmp_path / "run" / "log.jsonl").read_text()
    again = tune(small_network, relay, tmp_path / "run").document
    assert again["space"] == found["space"], "though there are more states than trials"
    assert (tmp_path / "run" / "log.jsonl").read_text() == written


def test_a_run_that_goes_on_finds_the_space_it_drew_from(relay: Toolchain, small_network: Path, tmp_path: Path) -> None:
    plans = replace(short_plans.SHORT, explore_s=0.05)
    passes = (*CHEAP, "AlterOpLayout", "BackwardFoldScaleAxis", "EliminateCommonSubexpr", "MergeComposite")
    first = tune(small_network, relay, tmp_path / "run", passes=passes, trials=6, plans=plans).document
    log = tmp_path / "run" / "log.jsonl"
    kinds = [entry["kind"] for entry in entries(tmp_path / "run")]
    assert "edge" in kinds[kinds.index("explored") :], "the sampler went on exploring"
    _starts_its_trials_at_once(small_network, relay, tmp_path / "another", passes=passes, plans=plans)
    passsearch.explore(small_network, toolchain=relay.name, passes=passes)
    written = log.read_text()
    again = tune(small_network, relay, tmp_path / "run", passes=passes, trials=6, plans=plans).document
    assert again["trials"] == first["trials"]
    assert log.read_text() == written


def _starts_its_trials_at_once(network: Path, toolchain: Toolchain, out: Path, **options: Any) -> None:
    """The time for exploring is spent, so another run starts from the fact cache."""
    tune(network, toolchain, out, **options)
    logged = entries(out)
    exploring = logged[: [entry["kind"] for entry in logged].index("explored")]
    edges = [entry["fact"] for entry in exploring if entry["kind"] == "edge"]
    assert edges and all(sum(fact["spent"].values()) == 0 for fact in edges)


def test_what_never_closes_does_not_keep_the_rest_from_closing(
    relay: Toolchain, small_network: Path, tmp_path: Path
) -> None:
    passes = (*CHEAP, "ConvertLayout")
    first = tune(small_network, relay, tmp_path / "first", passes=passes).document
    assert not first["space"]["closed"] and first["space"]["closed_without"] == ["ConvertLayout"]
    [loaded] = facts(tmp_path / "first", "load")
    tried = {entry["key"] for entry in entries(tmp_path / "first") if entry["kind"] == "edge"}
    assert f"{loaded['state']}|ConvertLayout" in tried, "to the baselines' state, which no sampler proposes"
    tune(small_network, relay, tmp_path / "again", passes=passes)
    edges = facts(tmp_path / "again", "edge")
    assert edges and all(sum(fact["spent"].values()) == 0 for fact in edges)
