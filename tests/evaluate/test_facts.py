"""Facts that are read again: a timeout counts until the deadline grows."""

import math
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from passsearch.core import Failure
from passsearch.evaluate import Session, WorkerLimits
from passsearch.evaluate.facts import SHARED_KINDS, FactStore, read_fact
from passsearch.store import Fact, Log

TIMEOUT = Failure("timeout", "apply", "Hang", "no answer within 5 s")


def store(log: Log, deadline_s: float, cache: Log | None = None, *, run_s: float = math.inf) -> FactStore:
    """A store of a session with a deadline."""
    session = cast(Session, SimpleNamespace(limits=WorkerLimits(deadline_s, timeout_s=run_s)))
    return FactStore(session, log, cache=cache, seconds={})


@pytest.mark.parametrize(("deadline_s", "is_known"), [(5.0, True), (2.0, True), (50.0, False)])
def test_a_timeout_is_final_until_the_deadline_grows(deadline_s: float, is_known: bool, tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        store(log, 5.0).record("edge", "root|Hang", fact={"failure": TIMEOUT.to_json()})
        fact = store(log, deadline_s).recall("edge", "root|Hang")
    assert (fact is not None) is is_known
    if fact is not None:
        assert read_fact(fact, lambda _: None) == TIMEOUT


@pytest.mark.parametrize(("run_s", "is_known"), [(5.0, True), (50.0, False)])
def test_a_pass_that_took_all_of_a_short_run_is_tried_again_in_a_longer_one(
    run_s: float, is_known: bool, tmp_path: Path
) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        store(log, 600.0, run_s=5.0).record("edge", "root|Hang", fact={"failure": TIMEOUT.to_json()})
        assert (store(log, 600.0, run_s=run_s).recall("edge", "root|Hang") is not None) is is_known


@pytest.mark.parametrize("kind", ["edge", "variant"])
def test_a_timeout_is_written_with_the_limit_of_its_verb(kind: str, tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        fact = store(log, 600.0, run_s=400.0).record(kind, "key", fact={"failure": TIMEOUT.to_json()})
        assert fact["deadline_s"] == 100.0


@pytest.mark.parametrize(("deadline_s", "is_known"), [(15.0, True), (20.0, True), (30.0, False)])
def test_a_timeout_has_the_limit_of_its_own_request(deadline_s: float, is_known: bool, tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        store(log, 600.0).record("build", "state|O0", fact={"failure": TIMEOUT.to_json(), "deadline_s": 20.0})
        later = store(log, 600.0)
        assert (later.recall("build", "state|O0", deadline_s=deadline_s) is not None) is is_known
        # What this start has taken as known stays known, although limits grow.
        assert (later.recall("build", "state|O0", deadline_s=60.0) is not None) is is_known


@pytest.mark.parametrize(("kind", "is_shared"), [("compile_error", True), ("infra", False), ("oom", False)])
def test_accidents_of_the_machine_stay_in_the_run(kind: str, is_shared: bool, tmp_path: Path) -> None:
    failure = {"kind": kind, "stage": "build", "step": "", "reason": "it failed"}
    with Log(tmp_path / "log.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        store(log, 5.0, cache).record("build", "root|O3", fact={"failure": failure})
        assert (cache.recall("build", "root|O3") is not None) is is_shared
        assert log.recall("build", "root|O3") is not None


@pytest.mark.parametrize(("run_s", "deadline_s"), [(400.0, 100.0), (60.0, 20.0), (5.0, 5.0), (math.inf, 600.0)])
def test_a_pass_takes_at_most_a_part_of_the_run(run_s, deadline_s):
    assert WorkerLimits(600.0, timeout_s=run_s).deadline_of("apply") == deadline_s
    assert WorkerLimits(600.0, timeout_s=run_s).deadline_of("variants") == deadline_s
    assert WorkerLimits(600.0, timeout_s=run_s).deadline_of("verify") == 600.0


@pytest.mark.parametrize(
    ("run_s", "slowest_s", "longest_s"),
    [
        (400.0, 0.0, 100.0),
        (400.0, 30.0, 150.0),
        (400.0, 90.0, 200.0),
        (60.0, 2.0, 20.0),
        (4000.0, 300.0, 600.0),
        (math.inf, 1.0, 600.0),
    ],
)
def test_a_build_takes_a_part_of_the_run_or_some_times_the_slowest_build(run_s, slowest_s, longest_s):
    assert WorkerLimits(600.0, timeout_s=run_s).longest_build_s(slowest_s) == longest_s


BUILD = {"digest": "d", "kernels": "k", "seconds": 1.0, "bytes": 1, "plan_bytes": 0}
WHOLE: dict[str, dict[str, object]] = {
    "load": {"state": "s", "inputs": {"x": [[1], "float32"]}, "summary": {"operators": [], "results": []}},
    "edge": {"state": "s", "seconds": 1.0},
    "build": BUILD,
    "gain": {"gain": 1.0, "name": "", "pipeline": "FoldConstant", "build": {"opt_level": 3}},
    "exploring": {"seconds": 1.0},
    "hash": {"hash": "1"},
    "kernels": {"kernels": [], "constant_bytes": 0},
    "variant": {"seconds": 1.0},
    "run": {"number": "1"},
    "source": {"runtime": "ONNX Runtime 1.0", "reason": "", "outputs": ["y"], "seconds": 1.0},
    "first": {"found": [{"pipeline": "FoldConstant", "build": {"opt_level": 3}}], "gains": {"FuseOps|O3": 1.0}},
    "timed": {"processes": [[[1.0]]], "conditions": [{}], "wall_s": 1.0},
    "fresh": {"digest": "d", "apply_s": 1.0, "seconds": 1.0, "wall_s": 1.0},
    "consumed": {"consumed": [], "wall_s": 1.0},
    "lost nan": {"lost": 0},
    "profile": {"processes": []},
    "kernels alone": {"kernels": {}},
    "places": {"kernels": [{"conv": 1.0}]},
}


@pytest.mark.parametrize("kind", [*WHOLE])
def test_a_fact_with_another_content_counts_as_missing(kind: str, tmp_path: Path) -> None:
    whole = WHOLE[kind]
    wrong = [{}, {"failure": None}, {"failure": {"kind": "no kind"}}]
    wrong += [{name: value for name, value in whole.items() if name != left_out} for left_out in whole]
    wrong += [{**whole, name: value} for name in whole for value in (None, [None], -1, math.inf, {"a": {}})]
    some = ("build", "gain", "variant", "source", "timed", "profile", "kernels alone", "places")
    with Log(tmp_path / "cache.jsonl") as cache, Log(tmp_path / "log.jsonl") as log:
        written = cache if kind in SHARED_KINDS else log
        written.record(kind, "whole", fact=whole)
        for number, fact in enumerate(wrong):
            written.record(kind, str(number), fact=fact)
        facts = store(log, 5.0, cache)
        assert facts.recall(kind, "whole") is not None
        for number, fact in enumerate(wrong):
            # Some values may be any: what is read of them has a default.
            if (found := facts.recall(kind, str(number))) is not None:
                assert not fact.keys() ^ whole.keys() and kind in some, (fact, found)


def test_no_run_ends_for_a_cache_that_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fact = {"state": "s" * 2000, "seconds": 1.0}
    with Log(tmp_path / "cache.jsonl") as cache, Log(tmp_path / "log.jsonl") as log:
        facts = store(log, 5.0, cache)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        for number in range(3):
            if number == 1:
                resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "cache.jsonl").stat().st_size + 100, hard))
                cache.record = _with_limit(
                    cache.record, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
                )
            facts.record("edge", str(number), fact=fact)
        assert not facts.is_shared and log.recall("edge", "2") == {"deadline_s": 5.0, **fact, "spent": {}}
    [line] = [record.getMessage() for record in caplog.records if "cannot be written" in record.getMessage()]
    assert str(tmp_path / "cache.jsonl") in line
    with Log(tmp_path / "cache.jsonl") as again:
        assert again.recall("edge", "0") is not None and again.recall("edge", "2") is None


def _with_limit(record: Callable[..., Fact], undo: Callable[[], None]) -> Callable[..., Fact]:
    """Return a function that writes a fact while files may not grow, and lifts the limit afterwards."""

    def limited(*arguments: str, **options: Any) -> Fact:
        try:
            return record(*arguments, **options)
        finally:
            undo()

    return limited
