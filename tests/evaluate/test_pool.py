"""The lock of a device that several searches share, and restarts of the compiling process."""

import shutil
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread, Timer
from types import SimpleNamespace
from typing import Any, cast

import pytest
from filelock import FileLock

from passsearch.core import UNLIMITED, TimeLimit
from passsearch.errors import UserError
from passsearch.evaluate import Session, WorkerLimits, open_session
from passsearch.evaluate.pool import WorkerPool
from passsearch.frontends import resolve
from passsearch.toolchain import Toolchain
from passsearch.worker import Worker


class InstantWorker:
    """A worker that answers at once."""

    alive = True

    def ask(self, request: dict[str, Any], **_: object) -> dict[str, Any]:
        return {"verb": request["verb"]}

    def close(self) -> None:
        pass


class InstantPool(WorkerPool):
    """A pool whose workers are no processes."""

    def start(self, *, threads: int) -> Worker:
        return cast(Worker, InstantWorker())


@pytest.fixture
def pool(tmp_path: Path) -> WorkerPool:
    session = SimpleNamespace(device_lock=tmp_path / "GPU-1.lock", threads=1, limits=WorkerLimits(5.0))
    return InstantPool(cast(Session, session), tmp_path, time_limit=UNLIMITED)


def hold(lock: Path, *, locked: Event, release: Event) -> None:
    with FileLock(lock):
        locked.set()
        release.wait(10.0)


def test_waiting_for_another_search_on_the_device_is_not_charged(pool: WorkerPool, tmp_path: Path) -> None:
    locked, release = Event(), Event()
    other = Thread(target=hold, args=(tmp_path / "GPU-1.lock",), kwargs={"locked": locked, "release": release})
    other.start()
    assert locked.wait(5.0)
    Timer(0.4, release.set).start()
    answer = pool.ask_new("measure", {"verb": "measure"})
    assert release.is_set()
    assert answer["wall_s"] < 0.2 and pool.seconds["measure"] < 0.2
    other.join()


def test_compiling_does_not_wait_for_the_device(pool: WorkerPool, tmp_path: Path) -> None:
    with FileLock(tmp_path / "GPU-1.lock"):
        build = Thread(target=pool.ask_new, args=("build", {"verb": "build"}), daemon=True)
        build.start()
        build.join(2.0)
        assert not build.is_alive()


@pytest.mark.parametrize("kind", ["compile_error", "timeout"])
@pytest.mark.parametrize("free_bytes", [1 << 10, 1 << 40])
def test_a_failure_on_a_full_disk_says_nothing_of_the_candidate(
    kind: str, free_bytes: int, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    monkeypatch.setattr(InstantWorker, "ask", lambda *_, **__: {"error": {"kind": kind, "reason": "no answer"}})
    answer = pool.ask_new("build", {"verb": "build"})
    assert answer["failure"]["kind"] == (kind if free_bytes > 1 << 30 else "infra")


def test_a_compiler_is_started_again_when_its_starting_thread_has_ended(pool: WorkerPool) -> None:
    """The system kills it then, but not at once: until then it looks alive."""
    started = list[Worker]()
    thread = Thread(target=lambda: started.append(pool.compiler()))
    thread.start()
    thread.join()
    assert started[0].alive and pool.compiler() is not started[0]
    assert pool.compiler() is pool.compiler()


@pytest.mark.parametrize("way_out", ["close", "interrupt"])
def test_a_timing_process_is_ended_though_its_start_was_interrupted(
    way_out: str, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = list[str]()

    def wait(_: InstantWorker) -> None:
        if way_out == "interrupt":
            pool.interrupt()
        raise KeyboardInterrupt

    monkeypatch.setattr(InstantWorker, "wait_until_ready", wait, raising=False)
    for name in ("close", "kill"):
        monkeypatch.setattr(InstantWorker, name, lambda _, name=name: ended.append(name), raising=False)
    monkeypatch.setattr(pool, "_start_once", lambda *_, **__: InstantWorker())
    pool.start_timer()
    with pytest.raises(KeyboardInterrupt):
        pool.timer()
    pool.close()
    assert ended == (["kill", "close"] if way_out == "interrupt" else ["close"])


def test_a_toolchain_whose_tvm_was_replaced_is_not_used(relax: Toolchain, tiny_network: Path, tmp_path: Path) -> None:
    session = open_session(resolve(tiny_network, folder=tmp_path), toolchain=relax.name, target=None)
    earlier = replace(session, toolchain=replace(session.toolchain, tvm_version="0.26.0"))
    with pytest.raises(UserError, match=r"recorded with TVM 0\.26\.0 .* passsearch toolchain remove"):
        WorkerPool(earlier, tmp_path / "pool", time_limit=UNLIMITED).compiler()


def test_no_request_of_a_search_lasts_beyond_the_time_limit_of_its_run(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines: dict[str, float] = {}

    def ask(_: InstantWorker, request: dict[str, Any], *, deadline_s: float) -> dict[str, Any]:
        deadlines[request["verb"]] = deadline_s
        return {"error": {"kind": "timeout", "reason": "no answer"}}

    monkeypatch.setattr(InstantWorker, "ask", ask)
    session = SimpleNamespace(device_lock=None, threads=1, limits=WorkerLimits(600.0, timeout_s=40.0))
    late = InstantPool(cast(Session, session), pool._folder, time_limit=TimeLimit(40.0, lambda: 34.0))
    answer = late.ask(late.compiler, "apply", request={"verb": "apply"})
    late.ask(late.compiler, "build", request={"verb": "build"})
    assert 3.0 < deadlines["apply"] <= 6.0
    assert answer["deadline_s"] == deadlines["apply"]
    assert deadlines["build"] == 600.0  # builds of the result too


def test_a_timing_process_that_starts_beside_the_first_one_is_the_one_that_times(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    session = open_session(resolve(tiny_network, folder=tmp_path), toolchain=relax.name, target=None)
    pool = WorkerPool(session, tmp_path / "pool", time_limit=UNLIMITED)
    try:
        pool.start_timer()
        started = pool._starting
        timer = pool.timer()
        assert timer is started and timer.tvm_version == session.toolchain.tvm_version
        assert pool.timer() is timer and pool._starting is None
    finally:
        pool.close()
    assert not timer.alive
