"""The confirmation of a run that is continued after its search has used up the time limit."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.core import BuildOptions, Candidate, Failure, Objective, PassSpec, Pipeline
from passsearch.evaluate import Built, MeasurementPlans
from passsearch.search import Pairing, RunOptions, Scored, run
from passsearch.search.run import _Execution
from passsearch.search.time_plan import TimePlan
from passsearch.store import Log

BUILD = BuildOptions(opt_level=3)
BEST = Candidate(Pipeline((PassSpec.of("Fast"),)), BUILD)
PAIRING = Pairing(Candidate(build=BUILD), BEST, Path("root"), "throughput")


def scored(candidate: Candidate) -> Scored:
    built = Built("root", BUILD, "root", Path("root"), "root", "root", 20.0, 0, 0, 0)
    return Scored(candidate, built, None, (0.1,), 20.0, 0.0)


def execution(log: Log) -> _Execution:
    """Return a run whose time limit has passed."""
    options = RunOptions((Objective.parse("throughput"),), 40, timeout_s=1.0, repetitions=3)
    made: Any = _Execution.__new__(_Execution)
    made._options, made._time_plan = options, TimePlan(MeasurementPlans(), options)
    made._folder = SimpleNamespace(log=log)
    made._evaluator = SimpleNamespace(restore=lambda built: built, make_room=lambda _: None)
    made._sequence = None
    execution: _Execution = made
    return execution


@pytest.mark.parametrize("repetitions", [0, 1, 2])
def test_what_an_earlier_start_confirmed_is_confirmed_though_no_time_is_left(
    repetitions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "confirm", lambda *_, is_recorded, **__: is_recorded(PAIRING.timing_key(0)))
    with Log(tmp_path / "log.jsonl") as log:
        for turn in range(repetitions):
            log.record("timed", PAIRING.timing_key(turn), fact={})
        scoring: Any = SimpleNamespace(baseline=scored(Candidate(build=BUILD)), objective=Objective.parse("throughput"))
        confirmation: Any = execution(log)._confirm(scored(BEST), scoring)
    if repetitions == 2:
        assert confirmation is True
    else:
        assert isinstance(confirmation, Failure) and "leaves no" in confirmation.reason
