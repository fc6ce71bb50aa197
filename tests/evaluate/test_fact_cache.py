"""The facts of one run serve the next one."""

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import short_plans

import passsearch
from passsearch.toolchain import Toolchain, cache_folder

# Workers of Relax start twice as fast as those of Relay, so tests that hold for both use Relax.
CHEAP = ("DecomposeOpsForInference", "FoldConstant", "LegalizeOps")


def tune(network: Path, toolchain: Toolchain, out: Path, **options: Any) -> passsearch.TuneResult:
    settings = {"trials": 2, "confirm": 0, "passes": CHEAP, **options}
    return short_plans.tune(network, toolchain=toolchain.name, out=out, **settings)


def log_entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line.partition(" ")[2]) for line in log.read_text().splitlines()]


def entries(run: Path) -> list[dict[str, Any]]:
    return log_entries(run / "log.jsonl")


def facts(run: Path, kind: str) -> list[dict[str, Any]]:
    return [entry["fact"] for entry in entries(run) if entry["kind"] == kind]


def applied_s(run: Path) -> list[float]:
    """Return the seconds that the run had spent on passes when it knew each edge."""
    return [fact["spent"]["apply"] for fact in facts(run, "edge")]


def slow_down(cache: Path, factor: float) -> None:
    """Multiply all times in a fact cache, as if a busy machine had made them."""
    lines = []
    for line in cache.read_text().splitlines():
        entry = json.loads(line.partition(" ")[2])
        fact = entry["fact"]
        for name in ("seconds", "run_s"):
            if isinstance(fact.get(name), float):
                fact[name] *= factor
        body = json.dumps(entry)
        lines.append(f"{zlib.crc32(body.encode()):08x} {body}\n")
    cache.write_text("".join(lines))


def test_a_second_run_explores_nothing_again_and_times_everything_again_unless_it_has_no_cache(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    first = tune(tiny_network, relax, tmp_path / "first").document
    [cache] = (cache_folder() / "memory").glob("*.jsonl")
    slow_down(cache, 1e6)
    again = tune(tiny_network, relax, tmp_path / "again", timeout=600).document
    edges = [fact for fact in facts(tmp_path / "again", "edge") if fact.get("earlier")]
    assert edges
    names = {row["pipeline"] for row in first["trials"]}
    assert names & {row["pipeline"] for row in again["trials"]}
    rows = [again["baseline"], again["best"], *again["baselines"], *again["trials"]]
    assert all(row["compile_s"] < 1000 and row["apply_s"] < 1000 for row in rows)
    assert all(row["latency_s"]["median"] < 10 for row in rows)
    assert "the time limit" not in again["space"]["ended"], "a plan by the recalled times had no time for trials"
    assert [line for line in cache.read_text().splitlines() if '"kind": "samples"' in line] == []
    builds = [entry["key"] for entry in log_entries(cache) if entry["kind"] == "build"]
    assert len(builds) == len(set(builds)), "what an earlier run recorded is not recorded again"
    tune(tiny_network, relax, tmp_path / "afresh", trials=1, remember=False)
    assert any(applied_s(tmp_path / "afresh"))


def test_what_gained_most_is_tried_first(relax: Toolchain, tiny_network: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"passes": None, "trials": 4, "plans": replace(short_plans.SHORT, explore_s=0.0)}
    tune(tiny_network, relax, tmp_path / "first", **options)
    [cache] = (cache_folder() / "memory").glob("*.jsonl")
    gains = [entry for entry in log_entries(cache) if entry["kind"] == "gain"]
    sequences = [entry for entry in gains if entry["fact"]["name"] not in ("", "composed", "default", "zero")]
    if len(sequences) < 2:
        pytest.skip("the machine was busy, so no gain was remembered")
    for entry in sequences:
        entry["fact"]["gain"] = 10 / entry["fact"]["gain"]
        body = json.dumps(entry)
        with cache.open("a") as file:
            file.write(f"{zlib.crc32(body.encode()):08x} {body}\n")
    remembered = {entry["key"]: entry["fact"]["gain"] for entry in sequences}
    again = tune(tiny_network, relax, tmp_path / "again", **options).document
    [decided] = facts(tmp_path / "again", "first")
    [_, earliest, *_] = [entry for entry in entries(tmp_path / "again") if entry["kind"] == "gain"]
    assert remembered[earliest["key"]] == max(decided["gains"].values()), "after the baseline"
    assert all(row["ratio"]["ratio"] < 5 for row in again["trials"]), "a remembered gain is no measurement"


@pytest.mark.slow
def test_a_search_starts_from_an_explored_space(relax: Toolchain, tiny_network: Path, tmp_path: Path) -> None:
    passsearch.explore(tiny_network, toolchain=relax.name, passes=CHEAP)
    result = tune(tiny_network, relax, tmp_path / "run").document
    assert result["space"]["closed"] and result["space"]["sampler"] == "graph"
    cached = [fact for fact in facts(tmp_path / "run", "edge") if fact["spent"]["apply"] == 0]
    assert len(cached) >= len(CHEAP)
    log = (tmp_path / "run" / "log.jsonl").read_text()
    again = tune(tiny_network, relax, tmp_path / "run").document
    assert again["space"] == result["space"], "although there are more states than trials"
    assert (tmp_path / "run" / "log.jsonl").read_text() == log


@pytest.mark.slow
def test_a_continued_run_draws_from_the_space_it_first_drew_from(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "passes": (*CHEAP, "AnnotateTIROpPattern", "CanonicalizeBindings", "EliminateCommonSubexpr", "FuseOps"),
        "plans": replace(short_plans.SHORT, explore_s=0.05),
        "trials": 4,
    }
    first = tune(tiny_network, relax, tmp_path / "run", **options).document
    log = tmp_path / "run" / "log.jsonl"
    kinds = [entry["kind"] for entry in entries(tmp_path / "run")]
    assert "edge" in kinds[kinds.index("explored") :], "the sampler continued to explore"
    tune(tiny_network, relax, tmp_path / "another", **options)
    assert_explored_from_the_cache(tmp_path / "another")
    passsearch.explore(tiny_network, toolchain=relax.name, passes=options["passes"])
    before = log.read_text()
    again = tune(tiny_network, relax, tmp_path / "run", **options).document
    assert again["trials"] == first["trials"]
    assert log.read_text() == before


def assert_explored_from_the_cache(run: Path) -> None:
    """Earlier runs have spent the time for exploring, so a run takes cached edges only before it samples."""
    logged = entries(run)
    explored = logged[: [entry["kind"] for entry in logged].index("explored")]
    edges = [entry["fact"] for entry in explored if entry["kind"] == "edge"]
    assert edges and not any(fact["spent"]["apply"] for fact in edges)


@pytest.mark.slow
def test_a_pass_with_which_no_space_closes_does_not_keep_the_rest_from_closing(
    relay: Toolchain, small_network: Path, tmp_path: Path
) -> None:
    passes = ("SimplifyInference", "FuseOps", "ConvertLayout")
    first = tune(small_network, relay, tmp_path / "first", passes=passes).document
    assert not first["space"]["closed"] and first["space"]["closed_without"] == ["ConvertLayout"]
    [loaded] = facts(tmp_path / "first", "load")
    tried = {entry["key"] for entry in entries(tmp_path / "first") if entry["kind"] == "edge"}
    assert f"{loaded['state']}|ConvertLayout" in tried, "to the state of the baselines, which no sampler proposes"
    tune(small_network, relay, tmp_path / "again", passes=passes)
    edges = applied_s(tmp_path / "again")
    assert edges and not any(edges)
