"""Searches with one cache on a machine that is busy and quiet in turns.

``python -m benchmarks.measurement.busy_and_quiet``.

Every search is a command of its own with a time limit, and all share one fact cache. The machine is left alone, kept
busy by other processes, or kept busy for some seconds in turns. A search passes if no row of its table contradicts
itself (the baseline's latency divided by the row's is the printed ratio), if no time of an earlier search is in its
result, and if it ends by its time limit and a tenth, with time left over only where it had something confirmed. Where
the baseline alone took longer than the limit, there was no plan to keep.

``benchmarks/results/busy_and_quiet.json`` has a row for each search, with the plan that it told its user.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from benchmarks.common import network_session, write_row
from benchmarks.faults.tiny_networks import write_network
from passsearch.core import parse_json
from passsearch.report.formatting import lookup
from passsearch.report.rows import MOST_CONTRADICTION, Row, level_rows, result_rows

RESULTS = Path(__file__).parents[1] / "results" / "busy_and_quiet.json"
NETWORK = "residual"
"""One of ``tiny_networks.NETWORKS``: a search of half a minute measures some candidates even on a busy machine."""

LIMITS_S = (30, 45, 60)
LOADS = ("quiet", "busy", "in turns")
TURN_S = 7.0
"""Seconds after which the load changes, where it does."""
OVERTIME = 0.1
TIME_LIMIT = "time limit"
HOG = "while True: pass"


def main() -> None:
    """Search again and again and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--toolchain", default="relax")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="passsearch-") as folder:
        session = network_session(str(write_network(NETWORK, Path(folder))), arguments.toolchain)
        for number in range(arguments.searches):
            # Another order of loads in every round of limits.
            load, limit_s = LOADS[number % 3], LIMITS_S[(number // 3) % 3]
            with loaded(load):
                row = search(Path(folder), number, limit_s=limit_s, toolchain=arguments.toolchain)
            row = {"load": load, "limit_s": limit_s, **row}
            row["passes"] = passes(row)
            write_row(RESULTS, "searches", name=f"{number + 1:02}", row=row, session=session)
            print(number + 1, json.dumps(row), flush=True)


@contextmanager
def loaded(load: str) -> Iterator[None]:
    """Keep the machine busy, always or in turns, until the block is left."""
    end = Event()
    thread = Thread(target=_keep_busy, args=(load, end))
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _keep_busy(load: str, end: Event) -> None:
    while not end.is_set():
        hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(0 if load == "quiet" else os.cpu_count())]
        end.wait(TURN_S if load == "in turns" else None)
        for hog in hogs:
            hog.kill()
            hog.wait()
        if load == "in turns":
            end.wait(TURN_S)


def search(folder: Path, number: int, *, limit_s: float, toolchain: str) -> dict[str, Any]:
    """Search once as a user does, and return what its result says and whether it may say that."""
    run = folder / f"run{number}"
    words = [
        sys.executable,
        "-m",
        "passsearch",
        "tune",
        str(folder / f"{NETWORK}.onnx"),
        "--toolchain",
        toolchain,
        "--trials",
        "1000",
    ]
    words += ["--timeout", str(limit_s), "--confirm", "2", "--out", str(run), "--json"]
    begin = time.monotonic()
    done = subprocess.run(
        words, env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}, capture_output=True, text=True, check=False
    )
    wall_s = time.monotonic() - begin
    if done.returncode not in (0, 1, 5):
        return {"failure": done.stderr.strip().splitlines()[-1]}
    document = json.loads(done.stdout)
    contradictions = [rows_factor(rows) for rows in (result_rows(document), level_rows(document))]
    verdict, total_s = document["verdict"], document["seconds"]["total"]
    return {
        "wall_s": round(wall_s, 1),
        "total_s": round(total_s, 1),
        "plans": [line for line in done.stderr.splitlines() if line.startswith("plan: ")],
        "ended": ended(document),
        "confirmed": verdict["confirmed"],
        "reason": verdict["reason"],
        "ratio": verdict["ratio"],
        "baseline_ms": _ms(document["baseline"]),
        "best_ms": _ms(document["best"]),
        "baseline_compile_s": round(document["baseline"]["compile_s"], 2),
        "foreign_percent": lookup(document["best"], "conditions", "foreign_percent"),
        "trials": len(document["trials"]),
        "largest_contradiction": round(max(contradictions), 3),
        "withheld": sum(row.measurement.get("withheld", False) for row in rows_of(document)),
        "recalled": recalled_times(run),
        "recalled_edges": sum(fact.get("earlier", False) for fact in facts(run, "edge").values()),
    }


def passes(row: Mapping[str, Any]) -> bool:
    """Return whether a search says nothing that contradicts itself or that it did not measure, and keeps its plan."""
    if "failure" in row or row["largest_contradiction"] > MOST_CONTRADICTION or row["recalled"]:
        return False
    has_used = row["confirmed"] or row["total_s"] >= (1 - OVERTIME) * row["limit_s"] or row["ended"] != TIME_LIMIT
    return row["trials"] < 2 or (row["total_s"] <= (1 + OVERTIME) * row["limit_s"] and has_used)


def ended(document: Mapping[str, Any]) -> str:
    """Return why the search ended."""
    return str(lookup(document, "space", "ended") or "")


def rows_of(document: Mapping[str, Any]) -> list[Row]:
    """Return the rows of the tables that a user sees."""
    return [*result_rows(document), *level_rows(document)]


def rows_factor(rows: list[Row]) -> float:
    """Return by which factor a row's ratio differs from that of the latencies in its table, at most."""
    baseline_s = [lookup(row.measurement, "latency_s", "median") for row in rows[:1]]
    factors = [1.0]
    for row in rows[1:]:
        own_s, ratio = lookup(row.measurement, "latency_s", "median"), lookup(row.throughput_ratio, "ratio")
        base_ratio = lookup(rows[0].throughput_ratio, "ratio")
        if own_s and ratio and base_ratio and baseline_s[0]:
            factor = baseline_s[0] / own_s / (ratio / base_ratio)
            factors.append(max(factor, 1 / factor))
    return max(factors)


def recalled_times(run: Path) -> int:
    """Return how many facts with times in a run's log an earlier search has made."""
    kinds = ("samples", "timed", "fresh", "applied", "places")
    recalled = [fact for kind in kinds for fact in facts(run, kind).values() if fact.get("earlier")]
    builds = [fact for fact in facts(run, "build").values() if fact.get("earlier") and "failure" not in fact]
    return len(recalled) + len(builds)


def facts(run: Path, kind: str) -> dict[str, Any]:
    """Return the latest facts of one kind in a run's log, by key."""
    lines = (run / "log.jsonl").read_text().splitlines()
    entries: list[Any] = [parse_json(line.partition(" ")[2]) for line in lines]
    return {entry["key"]: entry["fact"] for entry in entries if entry["kind"] == kind}


def _ms(row: Mapping[str, Any]) -> float | None:
    seconds = lookup(row, "latency_s", "median")
    return None if seconds is None else round(1e3 * seconds, 4)


if __name__ == "__main__":
    main()
