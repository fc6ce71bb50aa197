"""The worker's own process, without a compiler."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock, create_autospec

import numpy as np
import pytest

from passsearch.dialects.contract import Artifact
from passsearch.worker.server import _answer
from passsearch.worker.state_cache import StateCache
from passsearch.worker.verbs import Verbs

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


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("CUDA Runtime Error: cudaErrorMemoryAllocation (2): out of memory", "oom"),
        ("CUDALaunch Error: CUDA_ERROR_ILLEGAL_ADDRESS\n grid=(1,1,1),  block=(32,1,1)", "crash"),
        ("NVRTC compilation failed: identifier is undefined", "compile_error"),
    ],
)
def test_an_error_of_a_gpu_has_its_own_kind(message: str, kind: str) -> None:
    verbs = create_autospec(Verbs, instance=True)
    verbs.do_verify.side_effect = RuntimeError(message)
    assert _answer(verbs, {"verb": "verify"})["error"]["kind"] == kind


def test_the_parents_side_needs_the_standard_library_only() -> None:
    code = "import sys; sys.modules['numpy'] = None; import passsearch.worker"
    subprocess.run([sys.executable, "-c", code], check=True)


class Gpu:
    """A bridge to a GPU on which other artifacts hold memory already; each artifact takes what its folder's name says.

    Weights are loaded when it is opened, workspace is allocated when it runs for the first time.
    """

    def __init__(self) -> None:
        self.free_bytes = 1000

    def free_device_bytes(self, device: str) -> int | None:
        return self.free_bytes if device != "cpu" else None

    def open(self, artifact: Artifact, device: str) -> "Gpu":
        self.free_bytes -= int(artifact.folder.name)
        self._workspace = 50
        return self

    def run(self, inputs: object) -> list[Any]:
        self.free_bytes, self._workspace = self.free_bytes - self._workspace, 0
        return [np.ones(3, "float32")]


@pytest.mark.parametrize(("device", "first", "second"), [("cuda:0", 350, 150), ("cpu", None, None)])
def test_the_device_memory_of_a_build_has_no_other_build_in_it(
    tmp_path: Path, device: str, first: int | None, second: int | None
) -> None:
    verbs = Verbs(create_autospec(StateCache, instance=True, bridge=Gpu()))
    request = {"verb": "verify", "device": device, "inputs": {}, "cases": [1, 2], "outputs": str(tmp_path / "o.npz")}
    answers = [_answer(verbs, {**request, "folder": str(tmp_path / name)}) for name in ("300", "100")]
    assert [answer["device_bytes"] for answer in answers] == [first, second]


def test_device_memory_is_unknown_where_another_program_gives_back_more_than_the_build_takes(tmp_path: Path) -> None:
    verbs = Verbs(create_autospec(StateCache, instance=True, bridge=Gpu()))
    request = {"verb": "verify", "device": "cuda:0", "inputs": {}, "cases": [1], "outputs": str(tmp_path / "o.npz")}
    assert _answer(verbs, {**request, "folder": str(tmp_path / "-200")})["device_bytes"] is None
