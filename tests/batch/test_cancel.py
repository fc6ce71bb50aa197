"""A job that is cancelled ends, keeps what it has, and can be submitted again; no other process is ended."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock

from passsearch.batch.queues import LocalQueue
from passsearch.batch.records import JobRecords, Submission
from passsearch.toolchain import Toolchain, lock_file

pytest.importorskip("submitit", reason="needs: pip install -e '.[batch]'")


def batch(command: str, file: Path) -> dict[str, Any]:
    line = [sys.executable, "-m", "passsearch", "batch", command, str(file), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_jobs_that_wait_for_the_device_are_cancelled_and_go_on_later(
    tmp_path: Path, tiny_network: Path, relax: Toolchain
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        f"runs: runs\nnetworks: [{tiny_network}]\nobjectives: [throughput, latency]\ntoolchains: [{relax.name}]\n"
        "options: {trials: 1, confirm: 0, passes: [FoldConstant]}\n"
    )
    with FileLock(lock_file(f"batch-{socket.gethostname()}.lock")):
        submitted = batch("submit", file)["submitted"]
        end = time.monotonic() + 300
        while not all(row["host"] for row in batch("status", file)["jobs"]):
            assert time.monotonic() < end, "no job has begun"
        document = batch("cancel", file)
    assert sorted(document["cancelled"]) == sorted(submitted) and len(submitted) == 2
    assert {row["state"] for row in document["jobs"]} == {"interrupted"}
    pids = [int(row["id"].rpartition(":")[2]) for row in document["jobs"]]
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)
    assert batch("cancel", file)["cancelled"] == []


def test_a_record_with_the_number_of_another_process_ends_nothing(tmp_path: Path) -> None:
    host = socket.gethostname()
    JobRecords(tmp_path, "job").write_submission(Submission("local", f"{host}:{os.getppid()}", "", 0))
    with subprocess.Popen(["sleep", "60"]) as other:
        assert LocalQueue(tmp_path / "output").cancel([f"{host}:{other.pid}", f"elsewhere:{other.pid}"]) == []
        assert other.poll() is None
        other.kill()
