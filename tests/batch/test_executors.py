"""Real jobs, killed half-way, submitted again and collected: nothing is measured twice."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import pytest
from slurm_cluster import slurm_cluster

from passsearch.evaluate.records import RECALLED
from passsearch.toolchain import Toolchain

LIMIT_S = 1800
FINISHED = 4

pytest.importorskip("submitit", reason="needs: pip install -e '.[batch]'")

Passsearch = Callable[..., dict[str, Any]]


@pytest.fixture
def jobs(tmp_path: Path, small_network: Path, tiny_network: Path, relay: Toolchain) -> Path:
    """A file of two networks by two objectives."""
    file = tmp_path / "jobs.yaml"
    file.write_text(
        f"runs: runs\nnetworks: [{small_network}, {tiny_network}]\nobjectives: [throughput, compile_time]\n"
        f"toolchains: [{relay.name}]\noptions: {{trials: 3, confirm: 0, passes: [SimplifyInference, FuseOps]}}\n"
    )
    return file


@pytest.fixture(params=["local", "slurm"])
def passsearch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Passsearch]:
    """A function that runs one ``batch`` command with one executor and returns its JSON document."""
    variables = dict(os.environ)

    def run(command: str, file: Path, *words: str) -> dict[str, Any]:
        executor = [f"--executor={request.param}"] if command in ("submit", "resubmit", "cross") else []
        line = [sys.executable, "-m", "passsearch", "batch", command, str(file), "--json", *executor, *words]
        done = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    if request.param == "local":
        yield run
        return
    with slurm_cluster(tmp_path / "slurm") as cluster:
        variables |= cluster
        yield run


def _await(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.2)
    raise AssertionError("nothing happened")


def _facts(runs: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the names of the facts of each run, in the order in which they were measured."""
    logs = {path.parent.name: path.read_bytes().split(b"\n")[:-1] for path in runs.glob("*/log.jsonl")}
    entries = {name: [json.loads(line.partition(b" ")[2]) for line in lines] for name, lines in logs.items()}
    # The running total of an exploration's seconds is no measurement, and is written again after each part. What a run
    # takes over from the cache is none either, and a build among it is made again.
    return {
        name: [
            (entry["kind"], entry["key"])
            for entry in facts
            if entry["kind"] not in ("exploring", "explored") and not entry["fact"].get(RECALLED)
        ]
        for name, facts in entries.items()
    }


def _kill_one(runs: Path, number: signal.Signals) -> str:
    """End the process of a job that has measured something, and return the name of the job."""

    def job() -> tuple[str, int] | None:
        facts = _facts(runs)
        for path in runs.glob("batch/*.report.json"):
            name, report = path.name.removesuffix(".report.json"), json.loads(path.read_text())
            # Early in a run, so that it does not end by itself in the meantime.
            running = report["state"] == "running" and psutil.pid_exists(report["pid"])
            if running and report["starts"] == 1 and len(facts.get(name, ())) >= 3:
                return name, report["pid"]
        return None

    name, pid = _await(job)
    os.kill(pid, number)
    return str(name)


def _state(passsearch: Passsearch, jobs: Path, name: str) -> str:
    [state] = [row["state"] for row in passsearch("status", jobs)["jobs"] if row["job"] == name]
    return str(state)


@pytest.mark.slow
@pytest.mark.timeout(2 * LIMIT_S)
def test_nothing_is_measured_twice(passsearch: Passsearch, jobs: Path) -> None:
    runs = jobs.parent / "runs"
    assert len(passsearch("submit", jobs)["submitted"]) == FINISHED
    assert passsearch("submit", jobs)["submitted"] == []
    # Without a warning to the job, as a node that loses power or a scheduler whose patience ends.
    killed = _kill_one(runs, signal.SIGKILL)
    _await(lambda: _state(passsearch, jobs, killed) == "interrupted")
    ended = _kill_one(runs, signal.SIGTERM)
    _await(lambda: _state(passsearch, jobs, ended) == "interrupted")
    before = _facts(runs)
    assert set(passsearch("resubmit", jobs)["submitted"]) == {killed, ended}
    document = passsearch("submit", jobs, "--wait")
    assert document["submitted"] == [] and {row["state"] for row in document["jobs"]} == {"finished"}
    assert {row["job"]: row["starts"] for row in document["jobs"] if row["starts"] > 1} == {killed: 2, ended: 2}
    after = _facts(runs)
    for name, facts in after.items():
        assert len(set(facts)) == len(facts) >= 3, name
        assert facts[: len(before.get(name, []))] == before.get(name, []), name
    assert passsearch("submit", jobs)["submitted"] == [] and _facts(runs) == after
    _check_collection(passsearch, jobs)


def _check_collection(passsearch: Passsearch, jobs: Path) -> None:
    table = jobs.parent / "table.csv"
    rows = passsearch("collect", jobs, f"--csv={table}")["rows"]
    assert len(rows) == FINISHED and all(row["finished"] and row["best_compile_s"] > 0 for row in rows)
    with table.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["job"] for row in written] == [row["job"] for row in rows]
    assert [float(row["gain"]) for row in written] == [row["gain"] for row in rows]


@pytest.mark.slow
@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize("passsearch", ["local"], indirect=True)
def test_the_winner_of_each_device_is_measured_on_the_other(
    passsearch: Passsearch, jobs: Path, tiny_network: Path, relay: Toolchain
) -> None:
    """Two CPUs of one family, by their instruction sets, take the place of two machines."""
    jobs.write_text(
        f"runs: runs\nnetworks: [{tiny_network}]\nobjectives: [throughput]\ntoolchains: [{relay.name}]\n"
        "options: {trials: 2, confirm: 0, passes: [SimplifyInference, FuseOps]}\n"
        "devices:\n  sse: {targets: [llvm -mcpu=nehalem]}\n  avx: {targets: [llvm -mcpu=haswell]}\n"
    )
    assert {row["state"] for row in passsearch("submit", jobs, "--wait")["jobs"]} == {"finished"}
    document = passsearch("cross", jobs, "--wait")
    assert len(document["submitted"]) == 2
    places = [(row["found_on"], row["measured_on"]) for row in document["cross"]]
    assert sorted(places) == sorted(product(("sse", "avx"), repeat=2))
    for row in document["cross"]:
        assert row["failure"] is None and row["baseline_ratio"] > 0 and row["compile_s"] > 0
        assert row["found_on"] == row["measured_on"] or row["own_ratio"] > 0
    again = passsearch("cross", jobs)
    assert again["submitted"] == [] and again["cross"] == document["cross"] == passsearch("collect", jobs)["cross"]


@pytest.mark.slow
@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize("passsearch", ["slurm"], indirect=True)
def test_a_preempted_job_is_queued_again_and_goes_on(
    passsearch: Passsearch, jobs: Path, tiny_network: Path, relay: Toolchain, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    jobs.write_text(
        f"runs: runs\nnetworks: [{tiny_network}]\nobjectives: [throughput]\ntoolchains: [{relay.name}]\n"
        "options: {trials: 2, confirm: 0, passes: [SimplifyInference, FuseOps]}\n"
    )
    [name] = passsearch("submit", jobs)["submitted"]
    _await(lambda: len(_facts(runs).get(name, ())) >= 3)
    before = _facts(runs)[name]
    job_id = json.loads((runs / "batch" / f"{name}.submission.json").read_text())["id"]
    # The signal that Slurm sends before a preemption, and before the end of a job's time.
    environment = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm" / "slurm.conf")}
    subprocess.run(["scancel", "--signal=USR2", job_id], env=environment, check=True)
    _await(lambda: json.loads((runs / "batch" / f"{name}.report.json").read_text())["starts"] == 2)
    [row] = passsearch("submit", jobs, "--wait")["jobs"]
    assert (row["state"], row["id"], row["starts"]) == ("finished", job_id, 2)
    facts = _facts(runs)[name]
    assert facts[: len(before)] == before and len(set(facts)) == len(facts)
