"""Short rounds: these tests ask whether the job is done, not how fast a network is."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

import pytest


@pytest.fixture(scope="module", autouse=True)
def short_rounds() -> Iterator[None]:
    final = _short(evaluator.FINAL_PLAN)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("comparison", "confirm", "shortlist"):
            patch.setattr(import_module(f"passsearch.search.{name}"), "FINAL_PLAN", final)
        patch.setattr(evaluator, "SEARCH_PLAN", _short(evaluator.SEARCH_PLAN))
        for name in ("PROCESSES", "MOST_PROCESSES"):
            patch.setattr(evaluator, name, 2)
        yield


def _short(plan: evaluator.RoundPlan) -> evaluator.RoundPlan:
    return replace(plan, rounds=5, run_s=0.001)
