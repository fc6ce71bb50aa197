"""What a search measures first is what is recommended without a search."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.catalog import load
from passsearch.core import TimeLimit
from passsearch.dialects import dialect
from passsearch.evaluate import MeasurementPlans, WorkerLimits
from passsearch.evaluate.facts import FactStore
from passsearch.evaluate.gain_memory import GainMemory
from passsearch.objectives import parse_objective
from passsearch.search import RunOptions, recommended_sequences
from passsearch.search.execution import Execution
from passsearch.store import Log


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ({"convolution", "batch_norm"}, "winograd-schedule-cpu"),
        ({"attention"}, "combine-schedule-cpu"),
        ({"attention", "causal_attention"}, "decoder-schedule-cpu"),
        ((), "schedule-cpu"),
    ],
)
def test_a_search_for_speed_begins_with_the_recommended_sequence(features: set[str], name: str, tmp_path: Path) -> None:
    usual: dict[str, Any] = {
        "catalog": load("relax"),
        "dialect": dialect("relax"),
        "plans": MeasurementPlans(),
        "budget": None,
        "target": "llvm",
    }
    session: Any = SimpleNamespace(**usual, device_kind="cpu", explorers=1, limits=WorkerLimits(600.0, timeout_s=100.0))
    space = SimpleNamespace(names=frozenset(), steps=(), builds=())
    fingerprint = SimpleNamespace(present_features=lambda: frozenset(features), count=lambda name: 1)
    analysis: Any = SimpleNamespace(fingerprint=fingerprint, space=lambda *_: space, class_names=("RN",))
    with Log(tmp_path / "log.jsonl") as log:
        nothing: Any = None
        gains = GainMemory(FactStore(session, log, cache=None, seconds={}), nothing, nothing, is_new=True)
        run: Any = Execution.__new__(Execution)
        run._session, run._options = session, RunOptions((parse_objective("throughput"),), 40)
        run._evaluator, run._time_limit = SimpleNamespace(gains=gains, applier=None), TimeLimit(100.0)
        run._bits = None
        first = run._make_search(analysis)._first
    recommended = recommended_sequences(session, analysis)
    assert [each.name for each in first][: len(recommended)] == [each.name for each in recommended]
    assert first[0].name == name
