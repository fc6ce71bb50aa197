"""States in and out of memory, on modules that are words: a hash is the initials, a constant is a word."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from passsearch.worker.state_cache import StateCache


class Words:
    """A table of constants."""

    def __init__(self) -> None:
        self.by_digest: dict[str, str] = {}

    def strip(self, module: str) -> tuple[str, frozenset[str]]:
        self.by_digest |= {word: word for word in module.split()}
        return module, frozenset(module.split())

    def fill(self, skeleton: str) -> str:
        return " ".join(self.by_digest[word] for word in skeleton.split())

    def release(self) -> None:
        pass

    def missing(self, digests: frozenset[str]) -> list[str]:
        return [digest for digest in digests if digest not in self.by_digest]

    def array(self, digest: str) -> Any:
        return np.array(self.by_digest[digest])

    def read(self, digest: str, path: Path) -> bool:
        self.by_digest[digest] = str(np.load(path))
        return False

    def keep(self, digests: frozenset[str]) -> None:
        self.by_digest = {digest: digest for digest in digests}


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


def cache(folder: Path | None = None, *, budget_bytes: int = 1 << 40) -> Any:
    bridge: Any = Initials()
    return StateCache(bridge, budget_bytes=budget_bytes, folder=folder, memory_in_use=lambda: 1000)


def test_different_modules_with_one_hash_are_two_states() -> None:
    states = cache()
    assert states.add("red apple") == ("ra", True)
    assert states.add("ripe apple") == ("ra+", True)
    assert states.add("red apple") == ("ra", False)
    assert states.get("ra") == "red apple" and states.get("ra+") == "ripe apple" and states.get("no") is None


def test_when_memory_runs_short_the_oldest_states_leave() -> None:
    states = cache(budget_bytes=10)
    for text in ("a one", "b two", "c three"):
        states.add(text)
    assert states.get("ao") is None and not states.has("ao")
    assert states.get("ct") == "c three"
    assert "one" not in states.bridge.constants.by_digest


def test_a_folder_brings_states_back_and_shares_them_with_other_workers(tmp_path: Path) -> None:
    states, other = cache(tmp_path, budget_bytes=10), cache(tmp_path)
    for text in ("a one", "b two", "c three", "d four"):
        states.add(text)
    assert states.has("ao") and states.get("ao") == "a one"
    assert other.get("bt") == "b two"
    assert other.add("c three") == ("ct", False), "another worker has it"


def test_a_state_that_another_worker_needs_is_written_beyond_the_limit(tmp_path: Path) -> None:
    full = StateCache(Initials(), budget_bytes=1 << 60, folder=tmp_path, disk_bytes=0)  # type: ignore[arg-type]
    identity, _ = full.add("some words")
    assert not cache(tmp_path).has(identity)
    full.share(identity)
    assert cache(tmp_path).has(identity)
    full.share("unknown")


def test_a_write_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = StateCache(Initials(), budget_bytes=1 << 60, folder=tmp_path)  # type: ignore[arg-type]

    def fail(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        full.add("apple")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_states_beyond_the_limit_of_the_disk_stay_in_memory(tmp_path: Path) -> None:
    cache = StateCache(Initials(), budget_bytes=1 << 60, folder=tmp_path, disk_bytes=1)  # type: ignore[arg-type]
    first, second = cache.add("apple")[0], cache.add("banana cherry")[0]
    assert len(list((tmp_path / "states").iterdir())) == 1
    assert cache.has(first) and cache.get(second) == "banana cherry"
