"""The worker's own process, without a compiler."""

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock, create_autospec

import pytest

from passsearch.worker.server import Verbs, _answer
from passsearch.worker.state_cache import StateCache

PROGRAMS = Path(__file__).parent / "programs"


def test_a_fork_that_answers_at_once_is_announced_first() -> None:
    command = [sys.executable, str(PROGRAMS / "fork_with_slow_parent.py")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    announcement, answer = map(json.loads, run.stdout.splitlines())
    assert "forked" in announcement and answer["answered"]


@pytest.mark.parametrize("verb", ["apply", "build", "census", "hash", "save"])
def test_a_state_that_is_not_cached_is_an_answer(verb: str) -> None:
    states = create_autospec(StateCache, instance=True, bridge=Mock())
    states.get.return_value = None
    assert _answer(Verbs(states), {"verb": verb, "state": "abc"}) == {"missing": "abc"}


def test_the_parents_side_needs_the_standard_library_only() -> None:
    code = "import sys; sys.modules['numpy'] = None; import passsearch.worker"
    subprocess.run([sys.executable, "-c", code], check=True)
