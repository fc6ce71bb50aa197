"""Short rounds: these tests ask whether the job is done, not how fast a network is."""

from dataclasses import replace
from importlib import import_module

import pytest

from passsearch.search import SEARCH_PLAN


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(SEARCH_PLAN, rounds=6, warmup_rounds=1, sample_s=0.002)
    for name in ("comparison", "confirm", "evaluation", "study"):
        monkeypatch.setattr(import_module(f"passsearch.search.{name}"), "SEARCH_PLAN", plan)
