"""Which states stay, on modules that are words: a skeleton is the initials, a constant every word."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from passsearch.worker import state_cache
from passsearch.worker.state_cache import StateCache


class Words:
    """A table of constants."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def strip(self, module: str) -> tuple[str, frozenset[str]]:
        self.held |= {word: word for word in module.split()}
        return module, frozenset(module.split())

    def fill(self, skeleton: str) -> str:
        return " ".join(self.held[word] for word in skeleton.split())

    def missing(self, digests: frozenset[str]) -> list[str]:
        return [each for each in digests if each not in self.held]

    def array(self, digest: str) -> Any:
        return np.array(self.held[digest])

    def put(self, digest: str, array: Any) -> None:
        self.held[digest] = str(array)

    def keep(self, digests: frozenset[str]) -> None:
        self.held = {each: each for each in digests}


class Initials:
    """A bridge whose hash is weak."""

    def __init__(self) -> None:
        self.constants = Words()

    def identity(self, skeleton: str) -> str:
        return "".join(word[0] for word in skeleton.split())

    def equal(self, left: str, right: str) -> bool:
        return left == right

    def write(self, skeleton: str) -> str:
        return skeleton

    def read(self, text: str) -> str:
        return text


def made(folder: Path | None = None, budget_bytes: int = 1 << 40) -> Any:
    bridge: Any = Initials()
    return StateCache(bridge, budget_bytes=budget_bytes, folder=folder)


def test_different_modules_with_one_hash_are_two_states() -> None:
    held = made()
    assert held.add("red apple") == ("ra", True)
    assert held.add("ripe apple") == ("ra+", True)
    assert held.add("red apple") == ("ra", False)
    assert held.get("ra") == "red apple" and held.get("ra+") == "ripe apple" and held.get("no") is None


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_cache, "resident_bytes", lambda: 1000)


def test_when_memory_runs_short_the_oldest_states_go(no_memory: None) -> None:
    held = made(budget_bytes=10)
    for text in ("a one", "b two", "c three"):
        held.add(text)
    assert held.get("ao") is None and not held.has("ao")
    assert held.get("ct") == "c three"
    assert "one" not in held.bridge.constants.held


def test_with_a_folder_they_come_back_and_others_find_them(no_memory: None, tmp_path: Path) -> None:
    held, other = made(tmp_path, budget_bytes=10), made(tmp_path)
    for text in ("a one", "b two", "c three", "d four"):
        held.add(text)
    assert held.has("ao") and held.get("ao") == "a one"
    assert other.get("bt") == "b two"
    assert other.add("c three") == ("ct", False), "another worker has it"
