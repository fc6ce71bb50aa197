"""Turns on a device that several searches share."""

from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any, cast

import pytest
from filelock import FileLock

from passsearch.evaluate.pool import Workers
from passsearch.worker import Worker


class Idle:
    """A worker that answers at once."""

    alive = True

    def ask(self, request: dict[str, Any], **_: object) -> dict[str, Any]:
        return {"verb": request["verb"]}

    def close(self) -> None:
        pass


@pytest.fixture
def workers(tmp_path: Path) -> Workers:
    return Workers(lambda _: cast(Worker, Idle()), threads=1, deadline_s=5.0, lock=tmp_path / "GPU-1.lock")


def hold(lock: Path, *, held: Event, release: Event) -> None:
    with FileLock(lock):
        held.set()
        release.wait(10.0)


def test_whoever_measures_on_the_same_gpu_is_waited_for_at_nobodys_cost(workers: Workers, tmp_path: Path) -> None:
    held, release = Event(), Event()
    other = Thread(target=hold, args=(tmp_path / "GPU-1.lock",), kwargs={"held": held, "release": release})
    other.start()
    assert held.wait(5.0)
    Timer(0.4, release.set).start()
    answer = workers.ask_new("measure", {"verb": "measure"})
    assert release.is_set()
    assert answer["wall_s"] < 0.2 and workers.seconds["measure"] < 0.2
    other.join()


def test_compiling_waits_for_nobody(workers: Workers, tmp_path: Path) -> None:
    with FileLock(tmp_path / "GPU-1.lock"):
        build = Thread(target=workers.ask_new, args=("build", {"verb": "build"}), daemon=True)
        build.start()
        build.join(2.0)
        assert not build.is_alive()


def test_a_compiler_goes_with_the_thread_that_started_it(workers: Workers) -> None:
    """The system ends it then, but not at once: until then it looks alive."""
    started = list[Worker]()
    thread = Thread(target=lambda: started.append(workers.compiler()))
    thread.start()
    thread.join()
    assert started[0].alive and workers.compiler() is not started[0]
    assert workers.compiler() is workers.compiler()
