"""Searches with one cache on a machine that is busy and quiet in turns.

``python -m benchmarks.measurement.busy_and_quiet``: every search is a command of its own with a time limit, and all
share one fact cache. The machine is left alone, kept busy by other processes, or kept busy for some seconds in turns. A
search passes if no row of its table contradicts itself (the baseline's latency divided by the row's is the printed
ratio), if no time of an earlier search is in its result, and if it ends by its time limit and a tenth, with time left
over only where it had something confirmed. Where the baseline alone took longer than the limit, there was no plan to
keep.

``benchmarks/results/busy_and_quiet.json`` has a row for each search, with the plan that it told its user.
"""

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

from benchmarks.common import RESULTS, busy, network_session, options, write_row
from benchmarks.faults.disturbed_run import read_facts
from benchmarks.faults.tiny_networks import write_network
from passsearch.report.rows import Row, level_rows, result_rows
from passsearch.results import Candidate, RunResult
from passsearch.results.shown_latency import MOST_CONTRADICTION

NETWORK = "residual"
"""One of ``tiny_networks.NETWORKS``: a search of half a minute measures some candidates even on a busy machine."""
LIMITS_S, LOADS = (30, 45, 60), ("quiet", "busy", "in turns")
TURN_S = 7.0
"""Seconds after which the load changes, where it does."""
OVERTIME = 0.1


def main() -> None:
    arguments = options(__doc__, searches=20, toolchain="relax", out=RESULTS / "busy_and_quiet.json")
    with TemporaryDirectory(prefix="passsearch-") as folder:
        network = write_network(NETWORK, Path(folder))
        session = network_session(str(network), arguments.toolchain)
        for number in range(arguments.searches):
            # Another order of loads in every round of limits.
            load, limit_s = LOADS[number % 3], LIMITS_S[(number // 3) % 3]
            with loaded(load):
                row = search(network, number, limit_s=limit_s, toolchain=arguments.toolchain)
            row = {"load": load, "limit_s": limit_s, **row}
            row["passes"] = passes(row)
            write_row(arguments.out, "searches", name=f"{number + 1:02}", row=row, session=session)
            print(number + 1, json.dumps(row), flush=True)


@contextmanager
def loaded(load: str) -> Iterator[None]:
    """Keep the machine busy, always or in turns, until the block is left."""
    end = Event()

    def work() -> None:
        while not end.is_set():
            with busy(0 if load == "quiet" else os.cpu_count() or 1):
                end.wait(TURN_S if load == "in turns" else None)
            end.wait(TURN_S)

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def search(network: Path, number: int, *, limit_s: float, toolchain: str) -> dict[str, Any]:
    """Search once as a user does, and return what its result says and whether it may say that."""
    run = network.with_name(f"run{number}")
    words = [sys.executable, "-m", "passsearch", "tune", str(network), "--toolchain", toolchain, "--trials", "1000"]
    words += ["--timeout", str(limit_s), "--confirm", "2", "--rivals", "none", "--out", str(run), "--json"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(network.with_name("cache"))}
    begin = time.monotonic()
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    wall_s = time.monotonic() - begin
    if done.returncode not in (0, 4, 5):  # whole, undecided, not confirmed
        return {"failure": done.stderr.strip().splitlines()[-1]}
    document = json.loads(done.stdout)
    result = RunResult.from_json(document)
    tables = (result_rows(result), level_rows(result))
    edges = [fact for (kind, _), fact in dict(read_facts(run / "log.jsonl")).items() if kind == "edge"]
    return {
        "wall_s": round(wall_s, 1),
        "total_s": round(document["seconds"]["total"], 1),
        "plans": [line for line in done.stderr.splitlines() if line.startswith("plan: ")],
        "ended": result.space.ended or "",
        **{key: document["verdict"][key] for key in ("confirmed", "reason", "ratio")},
        "baseline_ms": _ms(result.baseline),
        "best_ms": _ms(result.best),
        "baseline_compile_s": round(document["baseline"]["compile_s"], 2),
        "foreign_percent": (result.best.conditions or {}).get("foreign_percent"),
        "trials": len(document["trials"]),
        "largest_contradiction": round(max(map(contradiction, tables)), 3),
        "withheld": sum(row.is_withheld for rows in tables for row in rows),
        "recalled": recalled_times(run),
        "recalled_edges": sum(fact.get("earlier", False) for fact in edges),
    }


def passes(row: Mapping[str, Any]) -> bool:
    """Return whether a search says nothing that contradicts itself or that it did not measure, and keeps its plan."""
    if "failure" in row or row["largest_contradiction"] > MOST_CONTRADICTION or row["recalled"]:
        return False
    has_used = row["confirmed"] or row["total_s"] >= (1 - OVERTIME) * row["limit_s"] or row["ended"] != "time limit"
    return row["trials"] < 2 or (row["total_s"] <= (1 + OVERTIME) * row["limit_s"] and has_used)


def contradiction(rows: list[Row]) -> float:
    """Return by which factor a row's ratio differs from that of the latencies in its table, at most."""
    latencies = [None if row.is_withheld else row.candidate.latency_s for row in rows]
    medians = [latency and latency.median for latency in latencies]
    ratios = [row.throughput_ratio and row.throughput_ratio.ratio for row in rows]
    factors = [1.0]
    for own_s, ratio in zip(medians[1:], ratios[1:], strict=True):
        if own_s and ratio and ratios[0] and medians[0]:
            factor = medians[0] / own_s / (ratio / ratios[0])
            factors.append(max(factor, 1 / factor))
    return max(factors)


def recalled_times(run: Path) -> int:
    """Return how many facts with times in a run's log an earlier search has made."""
    kinds = ("samples", "timed", "fresh", "applied", "places")
    earlier = [(kind, fact) for (kind, _), fact in dict(read_facts(run / "log.jsonl")).items() if fact.get("earlier")]
    return sum(kind in kinds or (kind == "build" and "failure" not in fact) for kind, fact in earlier)


def _ms(row: Candidate) -> float | None:
    seconds = row.latency_s and row.latency_s.median
    return None if seconds is None else round(1e3 * seconds, 4)


if __name__ == "__main__":
    main()
