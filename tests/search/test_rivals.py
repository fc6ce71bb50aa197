"""What a run plans, keeps and repeats of the comparison of its winner with other engines."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.core import BuildOptions, Candidate, Failure, TimeLimit
from passsearch.errors import EnvironmentFault
from passsearch.evaluate import Built
from passsearch.results import FailedRival, MeanLatency, Rival, RivalComparison, StatedRatio
from passsearch.search import Scored
from passsearch.search.rivals import compare_winner, planned_s, with_rivals
from passsearch.store import Log

PROCESS_S = 10.0
WINNER = Scored(
    Candidate(), Built("a", BuildOptions(0), "a", Path("a"), "digest", "a", 1.0, 0, None, None), None, (0.1,), 1.0, 0.0
)


RATIO, LATENCY = StatedRatio(1.2), MeanLatency(0.1, None)
RIVAL = Rival(RATIO, RATIO, LATENCY, LATENCY)


@dataclass
class Engines:
    """Two engines of which a process takes ten seconds, as far as a time limit allows."""

    names: tuple[str, ...] = ("onnxruntime", "torch")
    processes: int = 3
    export_s: float = 0.0
    limits_s: list[float] = field(default_factory=list)
    error: BaseException | type[BaseException] | None = None
    found: list[RivalComparison] = field(default_factory=list)

    def process_s(self, latency_s: float) -> float:
        return PROCESS_S

    def compare(self, evaluator: Any, candidate: Candidate, built: Built, *, time_limit: TimeLimit) -> RivalComparison:
        self.limits_s.append(time_limit.left_s())
        if self.error is not None:
            raise self.error
        if self.found:
            return self.found.pop(0)
        count = min(self.processes, int(time_limit.left_s() / PROCESS_S + 0.01))
        return RivalComparison({"torch": FailedRival("it crashed")}, "" if count else "no time", count, 0.0, 5.0)


def compare(
    engines: Engines, log: Log, *, left_s: float = 1000.0, restored: Built | Failure = WINNER.built
) -> RivalComparison:
    evaluator: Any = SimpleNamespace(restore=lambda built: restored)
    return compare_winner(engines, evaluator, WINNER, log=log, time_limit=TimeLimit(left_s, lambda: 0.0))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log.jsonl") as log:
        yield log


@pytest.mark.parametrize(("limit_s", "planned"), [(1000.0, 30.0), (float("inf"), 30.0), (120.0, 20.0), (49.0, 0.0)])
def test_a_share_of_the_time_limit_is_kept_for_whole_processes(limit_s: float, planned: float) -> None:
    assert planned_s(Engines(), 0.1, limit_s=limit_s) == planned


def test_an_export_for_an_engine_is_in_the_plan() -> None:
    assert planned_s(Engines(export_s=5.0), 0.1, limit_s=120.0) == 15.0
    assert planned_s(Engines(export_s=20.0), 0.1, limit_s=120.0) == 0.0, "no process fits behind the export"


def test_a_continued_run_keeps_what_is_complete(log: Log, tmp_path: Path) -> None:
    first, engines = compare(Engines(), log), Engines(error=AssertionError)
    assert first.processes == 3
    with Log(tmp_path / "log.jsonl") as read_again:
        assert compare(engines, read_again) == first
    assert not engines.limits_s, "nothing was measured"


def test_other_engines_and_what_is_not_complete_are_measured_again(log: Log) -> None:
    assert compare(Engines(), log, left_s=20.0).processes == 2
    assert compare(Engines(names=("openvino",)), log, left_s=10.0).processes == 1
    assert compare(Engines(), log, left_s=10.0).processes == 2, "less is not kept instead"
    assert compare(Engines(), log).processes == 3


@pytest.mark.parametrize("over_s", [975.0, 999.0], ids=["no more fit", "overtime"])
def test_a_run_that_had_time_for_some_processes_measures_no_more_on_each_repeat(log: Log, over_s: float) -> None:
    first, again = compare(Engines(), log, left_s=25.0), Engines(error=AssertionError)
    assert first.processes == 2
    evaluator: Any = SimpleNamespace(restore=lambda _: pytest.fail("it was built in vain"))
    limit = TimeLimit(1000.0, lambda: over_s)
    assert compare_winner(again, evaluator, WINNER, log=log, time_limit=limit) == first and not again.limits_s


def test_one_process_may_use_the_overtime_of_a_run(log: Log) -> None:
    engines = Engines()
    evaluator: Any = SimpleNamespace(restore=lambda built: built)
    late = TimeLimit(100.0, lambda: 99.0)
    assert compare_winner(engines, evaluator, WINNER, log=log, time_limit=late).processes == 1
    assert engines.limits_s[0] == pytest.approx(11.0, abs=0.1)
    # The whole overtime has room for ten.
    far = TimeLimit(1000.0, lambda: 999.0)
    assert compare_winner(engines := Engines(("a", "b")), evaluator, WINNER, log=log, time_limit=far).processes == 1
    later = TimeLimit(100.0, lambda: 105.0)
    evaluator.restore = lambda _: pytest.fail("it was built in vain")
    assert compare_winner(Engines(("a",)), evaluator, WINNER, log=log, time_limit=later).reason == "no time"


def test_an_interruption_or_a_lost_build_is_the_reason_and_ends_nothing(log: Log) -> None:
    assert "the same command continues" in compare(Engines(error=KeyboardInterrupt), log).reason
    full = Failure("infra", "build", "", "the disk is full")
    assert compare(Engines(), log, restored=full).reason == "infra in build: the disk is full"
    assert not log.kinds


@pytest.mark.parametrize(
    "error", [EnvironmentFault("The interpreter is gone."), OSError(28, "No space left on device")]
)
def test_a_machine_that_fails_in_the_comparison_is_the_reason_and_ends_nothing(log: Log, error: Exception) -> None:
    assert compare(Engines(error=error), log).reason == str(error)
    complete = compare(Engines(), log, left_s=20.0)
    assert compare(Engines(error=error), log) == complete, "which is not lost"


@pytest.mark.parametrize(("accidents", "calls"), [(0, 1), (1, 2), (2, 3)])
def test_an_accident_is_measured_again_and_costs_no_ratio(log: Log, accidents: int, calls: int) -> None:
    killed = FailedRival("the process was killed by SIGKILL at `infer`", is_accident=True)
    found = [RivalComparison({"onnxruntime": RIVAL, "torch": killed}, processes=3)] * accidents
    found += [RivalComparison({"onnxruntime": RIVAL, "torch": RIVAL}, processes=3)]
    engines = Engines(found=found)
    seen = [compare(engines, log) for _ in range(3)]
    assert len(engines.limits_s) == calls
    assert [len(each.measured) for each in seen] == [*[1] * accidents, 2, 2, 2][:3]


def test_an_accident_without_any_ratio_is_not_kept(log: Log) -> None:
    killed = FailedRival("the process was killed by SIGKILL at `open`", is_accident=True)
    engines = Engines(found=[RivalComparison({"torch": killed}, processes=1)])
    assert compare(engines, log).engines == {"torch": killed} and not log.kinds


def test_the_time_of_an_earlier_start_is_none_of_the_search() -> None:
    seconds = {"apply": 10.0, "search": 90.0, "total": 100.0}
    compared = RivalComparison(processes=3, seconds=25.0)
    assert with_rivals(seconds, compared, total_s=100.0) == {
        "apply": 10.0,
        "rivals": 25.0,
        "search": 65.0,
        "total": 100.0,
    }
    assert with_rivals(seconds, RivalComparison(), total_s=100.0) == seconds
