"""What a search chooses, on a machine whose candidates are known: see benchmarks/simulate_search.py."""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from passsearch.core import BuildOptions, Candidate, Failure, Objective, PassSpec, Pipeline
from passsearch.evaluate import Built, Evaluator, Subject
from passsearch.search import Confirmation, Plan, Search, confirm, shortlist
from passsearch.store import Log

_SCRIPT = Path(__file__).parents[2] / "benchmarks" / "simulate_search.py"
_SPEC = importlib.util.spec_from_file_location("simulate_search", _SCRIPT)
assert _SPEC is not None and _SPEC.loader is not None
simulated = importlib.util.module_from_spec(_SPEC)
sys.modules["simulate_search"] = simulated
_SPEC.loader.exec_module(simulated)

COMPILE_S = {"Same": 5.0, "SlowSame": 40.0, "Equal": 8.0, "Quick": 2.0, "Fast": 15.0}
SAME = ("Same", "SlowSame")


class Known(simulated.SimulatedEvaluator):  # type: ignore[misc,name-defined]
    """Candidates with the compile times above; two of them are the baseline's own binary."""

    def built(self, state: str, candidate: Candidate) -> Built:
        """The baseline compiles in 20 s."""
        digest = "root" if state in SAME else state
        return replace(super().built(state, candidate), digest=digest, seconds=COMPILE_S.get(state, 20.0))


def search(
    gains: Mapping[str, float],
    names: Sequence[str],
    objective: str = "throughput",
    *,
    seed: int = 0,
    keep_throughput: float = 0.98,
) -> Search:
    evaluator: Any = Known(simulated.Machine(simulated.Noise(), seed), gains)
    space: Any = simulated.NoSpace()
    found = Search(
        evaluator,
        space,
        plan=Plan((Objective.parse(objective),), len(names), None, 0, keep_throughput),
        baselines=[simulated.BASELINE],
        default_baseline="O3",
        first=[Candidate(Pipeline((PassSpec.of(name),)), BuildOptions()) for name in names],
        elapsed_s=lambda: 0.0,
        progress=lambda *_: None,
    )
    found.run()
    return found


def winner(found: Search) -> str:
    return str(shortlist(found)[0].candidate.pipeline)


def test_where_nothing_is_faster_the_baselines_own_binary_by_a_quicker_pipeline_wins() -> None:
    found = search({}, ["Equal", "SlowSame", "Same"])
    assert winner(found) == "Same"
    same = next(each for each in found.scored.values() if str(each.candidate.pipeline) == "Same")
    assert same.ratio.value == same.ratio.interval.low == same.ratio.interval.high == 1.0


def test_the_same_binary_by_a_slower_pipeline_does_not() -> None:
    assert winner(search({}, ["Equal", "SlowSame"])) == "Equal"


def test_a_candidate_that_is_really_faster_does() -> None:
    found = [winner(search({"Fast": 1.1}, ["Same", "Equal", "Fast"], seed=seed)) for seed in range(20)]
    assert found.count("Fast") >= 19


def test_equal_candidates_hardly_ever_come_before_the_baselines_own_binary() -> None:
    names = ["Same", "Equal", "Other", "Third", "Fourth"]
    found = [winner(search({}, names, seed=seed)) for seed in range(40)]
    assert found.count("Same") >= 38


def test_a_search_for_compile_time_finds_it_and_keeps_throughput() -> None:
    names = ["Same", "Equal", "Quick", "Fast"]
    assert winner(search({}, names, "compile_time")) == "Quick"
    assert winner(search({"Quick": 0.5}, names, "compile_time")) == "Same"
    assert winner(search({"Quick": 0.5}, names, "compile_time", keep_throughput=0.0)) == "Quick"


class Restless(Known):
    """Every compile of a candidate gives another binary."""

    compiles = 0

    def fresh(self, key: str, candidate: Candidate, *, timed: str, kinds: Sequence[str]) -> dict[str, Any]:
        """The same speed, another file."""
        self.compiles += 1
        found: dict[str, Any] = super().fresh(key, candidate, timed=timed, kinds=kinds)
        return {**found, "digest": f"{found['digest']}-{self.compiles}"}


@pytest.mark.parametrize(("kind", "reproducible"), [(Known, True), (Restless, False)])
def test_compiles_that_differ_are_the_repetitions(kind: type[Known], reproducible: bool) -> None:
    evaluator: Any = kind(simulated.Machine(simulated.Noise(), 1), {"Fast": 1.1})
    candidate = Candidate(Pipeline((PassSpec.of("Fast"),)), BuildOptions())
    told: Any = {"repetitions": 4, "objective": "throughput", "progress": lambda _: None}
    found = confirm(evaluator, candidate, baseline=simulated.BASELINE, twin=Path("root"), **told)
    assert isinstance(found, Confirmation)
    assert found.reproducible is reproducible and not found.same_binary
    assert found.throughput.interval.low < 1.1 < found.throughput.interval.high


class Loaded(Evaluator):
    """Has imported its network; starts no process before it is asked for something new."""

    def _load(self) -> dict[str, Any]:
        return {"inputs": {}, "summary": {}, "state": "root"}


@pytest.mark.parametrize(("deadline_s", "asks"), [(5.0, False), (2.0, False), (50.0, True)])
def test_a_timeout_is_final_until_the_deadline_grows(deadline_s: float, asks: bool, tmp_path: Path) -> None:
    def start(_: int) -> Any:
        raise ChildProcessError

    subject = Subject({}, {"Hang": "m:f"}, start, "cpu", 1, lambda _: False, None, deadline_s)
    with Log(tmp_path / "log.jsonl") as log:
        failure = Failure("timeout", "apply", "Hang", "no answer within 5 s").to_json()
        log.record("edge", "root|Hang", fact={"seconds": 0.0, "failure": failure, "deadline_s": 5.0})
        evaluator = Loaded(subject, log=log, artifacts=tmp_path)
        if asks:
            with pytest.raises(ChildProcessError):
                evaluator.reach(Pipeline.parse("Hang"))
        else:
            found = evaluator.reach(Pipeline.parse("Hang"))
            assert isinstance(found, Failure) and found.kind == "timeout"
