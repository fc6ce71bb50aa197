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
RECOMMENDED = Candidate(Pipeline.parse("FuseTIR,FuseOps"), name="winograd-schedule-cpu")


def memory(log: Log, cache: Log, *, is_new: bool = True) -> GainMemory:
    session: Any = SimpleNamespace(limits=WorkerLimits(600.0, timeout_s=math.inf))
    applier: Any = SimpleNamespace(known_state=str)
    builder: Any = SimpleNamespace(key=lambda state, build: f"{state}|{build.key}")
    return GainMemory(FactStore(session, log, cache=cache, seconds={}), applier, builder, is_new=is_new)


def record_gain(cache: Log, candidate: Candidate, gain: float) -> None:
    fact = {"gain": gain, "name": candidate.name, "pipeline": str(candidate.pipeline)}
    key = f"{candidate.pipeline}|{candidate.build.key}"
    cache.record("gain", key, fact={**fact, "build": BuildOptions().to_json()})


@pytest.mark.parametrize(("gain", "is_first"), [(0.8, False), (1.2, True)])
def test_what_a_sampler_found_is_tried_first_only_if_it_gained(gain: float, is_first: bool, tmp_path: Path) -> None:
    with Log(tmp_path / "run.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        record_gain(cache, NAMED, 0.6)
        record_gain(cache, FOUND, gain)
        order = memory(log, cache).order([NAMED], (), allowed=frozenset({"FuseOps", "FoldConstant"}))
    assert (order[0].pipeline == FOUND.pipeline) is is_first and order[-1] == NAMED


def first_of(log: Log, cache: Log, *, is_new: bool) -> Candidate:
    first = memory(log, cache, is_new=is_new).order([NAMED, RECOMMENDED], [RECOMMENDED], allowed=frozenset())
    return first[0]


@pytest.mark.parametrize(("gain", "expected"), [(None, RECOMMENDED), (1.5, NAMED)])
def test_what_is_recommended_without_a_search_is_tried_first_until_its_gain_is_known(
    gain: float | None, expected: Candidate, tmp_path: Path
) -> None:
    with Log(tmp_path / "run.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        record_gain(cache, NAMED, 2.0)
        if gain is not None:
            record_gain(cache, RECOMMENDED, gain)
        assert first_of(log, cache, is_new=True) == expected
        record_gain(cache, RECOMMENDED, 0.1)
        assert first_of(log, cache, is_new=False) == expected, "a later start begins alike"


def test_a_run_of_an_earlier_version_goes_on_in_its_order(tmp_path: Path) -> None:
    with Log(tmp_path / "run.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        assert first_of(log, cache, is_new=False) == NAMED
        log.record("first", "", fact={"found": [], "gains": {}})
        assert first_of(log, cache, is_new=False) == NAMED
