"""What a pass writes to the pipe of answers neither ends the coordinator nor becomes an answer."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from passsearch.core import UNLIMITED
from passsearch.errors import EnvironmentFault, WorkerDied
from passsearch.evaluate import Session
from passsearch.evaluate.pool import WorkerPool
from passsearch.worker import Worker

PROGRAMS = Path(__file__).parents[1] / "worker" / "programs"


@pytest.mark.parametrize("name", ["garbage", "forgery"])
def test_a_pass_that_writes_to_the_pipe_is_a_crash(name: str, tmp_path: Path) -> None:
    worker = Worker(
        Path(sys.executable),
        bridge="stub_bridge:StubBridge",
        target="any",
        threads=1,
        log=tmp_path / "worker.log",
        paths=(str(PROGRAMS),),
    )
    request = {"verb": "load", "source": {"path": name, "format": "ir", "inputs": {}}}
    with pytest.raises(WorkerDied, match="pipe of its answers") as error:
        worker.ask(request, deadline_s=30)
    assert error.value.kind == "crash" and not worker.alive


def test_one_failed_start_of_a_worker_is_tried_again(tmp_path: Path) -> None:
    starts = []

    class Pool(WorkerPool):
        def _start_once(self, threads: int) -> Worker:
            starts.append(threads)
            if len(starts) == 1:
                raise EnvironmentFault("the compiler does not start")
            return cast(Worker, SimpleNamespace(alive=True))

    pool = Pool(cast(Session, SimpleNamespace(device_lock=None, threads=1)), tmp_path, time_limit=UNLIMITED)
    assert pool.compiler().alive and starts == [1, 1]
