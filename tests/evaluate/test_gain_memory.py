"""What a search tries first, by the gains that earlier runs have read."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.core import BuildOptions, Candidate, Pipeline
from passsearch.evaluate.facts import FactStore
from passsearch.evaluate.gain_memory import GainMemory
from passsearch.evaluate.session import WorkerLimits
from passsearch.store import Log

NAMED = Candidate(Pipeline.parse("FuseOps"), name="schedule-cpu")
FOUND = Candidate(Pipeline.parse("FoldConstant,FuseOps"))


@pytest.mark.parametrize(("gain", "is_first"), [(0.8, False), (1.2, True)])
def test_what_a_sampler_found_is_tried_first_only_if_it_gained(gain: float, is_first: bool, tmp_path: Path) -> None:
    session: Any = SimpleNamespace(limits=WorkerLimits(600.0, timeout_s=math.inf))
    applier: Any = SimpleNamespace(known_state=str)
    builder: Any = SimpleNamespace(key=lambda state, build: f"{state}|{build.key}")
    with Log(tmp_path / "run.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        for candidate, value in ((NAMED, 0.6), (FOUND, gain)):
            fact = {"gain": value, "name": candidate.name, "pipeline": str(candidate.pipeline)}
            key = f"{candidate.pipeline}|{candidate.build.key}"
            cache.record("gain", key, fact={**fact, "build": BuildOptions().to_json()})
        memory = GainMemory(FactStore(session, log, cache=cache, seconds={}), applier, builder, is_new=True)
        order = memory.order([NAMED], allowed=frozenset({"FuseOps", "FoldConstant"}))
    assert (order[0].pipeline == FOUND.pipeline) is is_first and order[-1] == NAMED
