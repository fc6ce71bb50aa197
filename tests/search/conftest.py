"""Short rounds: these tests ask whether the job is done, not how fast a network is."""

from dataclasses import replace

import pytest

from passsearch.search import comparison, confirm, evaluation, study


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(evaluation.SEARCH_PLAN, rounds=6, warmup_rounds=1, sample_s=0.002)
    for module in (comparison, confirm, evaluation, study):
        monkeypatch.setattr(module, "SEARCH_PLAN", plan)
