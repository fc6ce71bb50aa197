"""How many processes a decision rests on; a scripted worker says how long each took."""

from pathlib import Path
from typing import Any, cast

import pytest

from passsearch.core import Candidate, Failure
from passsearch.evaluate import Evaluator
from passsearch.evaluate.pool import Workers
from passsearch.evaluate.timing import Timing
from passsearch.measure import RoundPlan
from passsearch.search import confirm
from passsearch.store import Fact


class Scripted:
    def __init__(self, wall_s: float) -> None:
        self._wall_s = wall_s

    def ask_new(self, _: str, request: dict[str, Any], **__: object) -> Fact:
        conditions = {"stack_spread": None}
        return {"samples": [[1.0]] * len(request["folders"]), "conditions": conditions, "wall_s": self._wall_s}


@pytest.mark.parametrize(
    ("compiled_s", "processes"),
    [(0.0, 3), (2.0, 3), (13.0, 6), (1000.0, 9)],
    ids=["none", "quick", "slow", "endless"],
)
def test_timing_takes_as_long_as_compiling_within_bounds(compiled_s: float, processes: int) -> None:
    timing = Timing(cast(Workers, Scripted(2.0)), meter=None, device="cpu", inputs={})
    timed = timing.in_several(["a", "b"], RoundPlan(), processes=3, most=9, least_s=compiled_s)
    assert len(timed["processes"]) == len(timed["conditions"]) == processes
    assert timed["wall_s"] == 2.0 * processes


class Compiling:
    """An evaluator whose compiles take so long, and which has no artifact to time."""

    def __init__(self, *walls_s: float) -> None:
        self._walls_s, self.asked_s = iter(walls_s), list[float]()

    def fresh(self, key: str, *_: object, **__: object) -> Fact:
        return {"folder": key, "wall_s": next(self._walls_s)}

    def time_fresh(self, *_: object, least_s: float, **__: object) -> Failure:
        self.asked_s.append(least_s)
        return Failure("infra", "measure", "", "nothing to time")

    def consumption(self, *_: object, **__: object) -> None:
        return None


def test_a_confirmation_is_timed_for_as_long_as_it_compiled() -> None:
    evaluator, candidate = Compiling(50.0, 7.0), Candidate()
    outcome = confirm(
        cast(Evaluator, evaluator),
        candidate,
        baseline=candidate,
        twin=Path("twin"),
        repetitions=3,
        objective="throughput",
        progress=lambda _: None,
    )
    assert isinstance(outcome, Failure)
    assert evaluator.asked_s == [57.0]
