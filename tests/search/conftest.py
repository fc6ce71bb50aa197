"""Short rounds: these tests ask whether the job is done, not how fast a network is."""

from dataclasses import replace
from importlib import import_module

import pytest

from passsearch.search import evaluation


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    final = _short(evaluation.FINAL_PLAN)
    for name in ("comparison", "confirm", "study"):
        monkeypatch.setattr(import_module(f"passsearch.search.{name}"), "FINAL_PLAN", final)
    monkeypatch.setattr(evaluation, "SEARCH_PLAN", _short(evaluation.SEARCH_PLAN))
    monkeypatch.setattr(evaluation, "PROCESSES", 2)


def _short(plan: evaluation.RoundPlan) -> evaluation.RoundPlan:
    return replace(plan, rounds=5, run_s=0.001)
