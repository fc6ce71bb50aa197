"""The worker's own process, without a compiler."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock, create_autospec, patch

import numpy as np
import pytest
from filelock import FileLock

from passsearch.core import CheckInputs, PassSpec
from passsearch.dialects.contract import Artifact, CompileError
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

    def threads(self) -> int:
        return len(os.sched_getaffinity(0))  # the worker pins itself, and here it is the process of the tests

    def free_device_bytes(self, device: str) -> int | None:
        return self.free_bytes if device != "cpu" else None

    def open(self, artifact: Artifact, device: str) -> "Gpu":
        self.free_bytes -= int(artifact.folder.name)
        self._workspace = 50
        return self

    def run(self, inputs: object) -> list[Any]:
        self.free_bytes, self._workspace = self.free_bytes - self._workspace, 0
        return [np.ones(3, "float32")]

    def held_inputs(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(("device", "first", "second"), [("cuda:0", 350, 150), ("cpu", None, None)])
def test_the_device_memory_of_a_build_has_no_other_build_in_it(
    tmp_path: Path, device: str, first: int | None, second: int | None
) -> None:
    verbs = Verbs(create_autospec(StateCache, instance=True, bridge=Gpu()))
    request = {
        "verb": "verify",
        "device": device,
        "inputs": CheckInputs({}).to_json(),
        "cases": [1, 2],
        "outputs": str(tmp_path / "o.npz"),
        "total_s": 9.0,
    }
    answers = [_answer(verbs, {**request, "folder": str(tmp_path / name)}) for name in ("300", "100")]
    assert [answer["device_bytes"] for answer in answers] == [first, second]


class Schedules:
    """A bridge of kernels that are named after what they do."""

    class Kernel:
        def __init__(self, name: str) -> None:
            self.digest = name

        def run(self) -> None: ...

        def event_time_s(self) -> None: ...

        def outputs(self) -> list[Any]:
            dtype, _, error = self.digest.partition(" off by ")
            return [np.ones(4, dtype) * (1 + float(error or 0))]

    def threads(self) -> int:
        return 1

    def isolate(self, module: object, name: str) -> str:
        return name

    def kernel_arguments(self, cold_bytes: int, device: str) -> None: ...

    def apply(self, module: object, step: PassSpec, *, factory: str) -> str:
        return step.name

    def open_kernel(self, module: str, copies: None) -> Kernel:
        return self.Kernel(module)

    def build_kernels(self, kernels: list[Kernel]) -> None:
        refused = [kernel.digest for kernel in kernels if kernel.digest.startswith("refused")]
        if refused:
            raise CompileError(refused[0])


def _variants(*names: str, device_lock: Path | None = None) -> dict[str, Any]:
    states = create_autospec(StateCache, instance=True, bridge=Schedules())
    plan = {"first_rounds": 1, "rounds": 2, "margin": 2.0, "longest_s": 1.0, "attempts": 1}
    steps = [{"pass": {"name": name, "arguments": {}}, "factory": "any"} for name in names]
    request = {"verb": "variants", "state": "s", "kernel": "k", "steps": steps, "limit": 1e-4, "plan": plan}
    return _answer(Verbs(states), {**request, "cold_bytes": 0, "device": "cpu", "device_lock": device_lock})


def test_a_schedule_that_does_not_build_spoils_no_other() -> None:
    good, refused = _variants("float32", "refused: too much shared memory")["variants"]
    assert good["seconds"] > 0 and refused["reason"] == "refused: too much shared memory"
    assert _variants("float32", "refused: std::bad_alloc")["error"]["kind"] == "oom", "which is no fact"


def test_nothing_is_known_of_schedules_whose_first_one_does_not_run() -> None:
    refused, *others = _variants("refused", "float32 off by 0.1", "float32")["variants"]
    assert refused["reason"] == "refused"
    assert [each["failure"]["kind"] for each in others] == ["infra", "infra"], "which is no fact"


def test_schedules_run_in_the_turn_of_their_search_and_are_built_before(tmp_path: Path) -> None:
    lock, built = tmp_path / "locks" / "gpu.lock", Event()
    lock.parent.mkdir()
    with ThreadPoolExecutor(1) as pool, patch.object(Schedules, "build_kernels", lambda *_: built.set()):
        with FileLock(lock):  # another search
            answer = pool.submit(_variants, "float32", device_lock=lock)
            assert built.wait(10)
            with pytest.raises(TimeoutError):
                answer.result(0.3)
        assert answer.result(10)["variants"][0]["seconds"] > 0


def test_outputs_of_a_schedule_may_differ_by_roundings_of_their_type() -> None:
    half = _variants("float16", "float16 off by 0.002", "float16 off by 0.1")["variants"]
    assert ["seconds" in each for each in half] == [True, True, False]
    single = _variants("float32", "float32 off by 0.002")["variants"]
    assert "other outputs" in single[1]["reason"]


def test_memory_that_runs_out_in_the_compiler_is_no_fault_of_the_candidate() -> None:
    states = create_autospec(StateCache, instance=True, bridge=Mock())
    states.bridge.phase.side_effect = CompileError("InternalError: std::bad_alloc")
    request = {"verb": "apply", "state": "s", "pass": {"name": "p", "arguments": {}}, "phases": ["loops"]}
    assert _answer(Verbs(states), request)["error"]["kind"] == "oom"


def test_device_memory_is_unknown_where_another_program_gives_back_more_than_the_build_takes(tmp_path: Path) -> None:
    verbs = Verbs(create_autospec(StateCache, instance=True, bridge=Gpu()))
    request = {
        "verb": "verify",
        "device": "cuda:0",
        "inputs": CheckInputs({}).to_json(),
        "cases": [1],
        "outputs": str(tmp_path / "o.npz"),
        "total_s": 9.0,
    }
    assert _answer(verbs, {**request, "folder": str(tmp_path / "-200")})["device_bytes"] is None
