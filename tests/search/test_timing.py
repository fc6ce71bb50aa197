"""How many processes a decision rests on; a scripted worker says how long each took."""

from typing import Any, cast

import pytest

from passsearch.measure import RoundPlan
from passsearch.search.timing import Timing
from passsearch.search.workers import Workers
from passsearch.store import Fact


class Scripted:
    def __init__(self, wall_s: float) -> None:
        self._wall_s = wall_s

    def ask_new(self, _: str, request: dict[str, Any], **__: object) -> Fact:
        conditions = {"stack_spread": None}
        return {"samples": [[1.0]] * len(request["folders"]), "conditions": conditions, "wall_s": self._wall_s}


@pytest.mark.parametrize(
    ("compiled_s", "processes"), [(0.0, 3), (2.0, 3), (10.0, 5), (1000.0, 9)], ids=["none", "quick", "slow", "endless"]
)
def test_timing_takes_as_long_as_compiling_within_bounds(compiled_s: float, processes: int) -> None:
    timing = Timing(cast(Workers, Scripted(2.0)), meter=None, device="cpu", inputs={})
    timed = timing.in_several(["a", "b"], RoundPlan(), processes=3, most=9, least_s=compiled_s)
    assert len(timed["processes"]) == len(timed["conditions"]) == processes
    assert timed["wall_s"] == 2.0 * processes
