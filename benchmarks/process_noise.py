"""How much two loads of one binary differ from process to process, and why: ``python benchmarks/process_noise.py``.

Every process times three artifacts in turns: a network built by -O3, the same build once more (its twin), and the
network built by another pipeline. The processes run under several conditions, which take turns:

* ``as it is``: as passsearch starts them;
* ``fixed addresses``: the system places stack, heap and libraries where it always does (``ADDR_NO_RANDOMIZE``);
* ``huge pages``: the allocator asks for pages of 2 MB (``GLIBC_TUNABLES=glibc.malloc.hugetlb=1``);
* ``one place on the stack``: every run starts at the same depth of the stack.

``benchmarks/results/process_noise.json`` has the log-ratios of all processes. ``interval_coverage.py`` draws its noise
from those ``as it is``; ``simulate_search.py`` simulates normal noise of three sizes around theirs. ``--table`` prints
the Markdown of ``docs/evidence/measurement.md``.
"""

import argparse
import ctypes
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median, stdev
from typing import Any

from provenance import read_rows, write_row

import passsearch
from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate import TimedArtifacts, TimingRequest, WorkerEvaluator
from passsearch.measure import log_ratio

RESULTS = Path(__file__).parent / "results" / "process_noise.json"
AS_IT_IS, FIXED, HUGE, ONE_PLACE = "as it is", "fixed addresses", "huge pages", "one place on the stack"
CONDITIONS = (AS_IT_IS, FIXED, HUGE, ONE_PLACE)
ADDR_NO_RANDOMIZE = 0x0040000
"""Bit of ``personality`` in Linux's ``personality.h``."""


@contextmanager
def condition(name: str) -> Iterator[None]:
    """Set what the processes started meanwhile inherit."""
    system = ctypes.CDLL(None)
    before = system.personality(0xFFFFFFFF)
    if name == FIXED:
        system.personality(before | ADDR_NO_RANDOMIZE)
    if name == HUGE:
        os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    try:
        yield
    finally:
        system.personality(before)
        os.environ.pop("GLIBC_TUNABLES", None)


def measure(evaluator: WorkerEvaluator, pair: tuple[Candidate, Candidate], *, processes: int) -> dict[str, Any]:
    """Return, by condition, the latency of the first and the log-ratios of its twin and of the second, by process."""
    baseline, candidate = (build(evaluator, each) for each in pair)
    artifacts = TimedArtifacts(baseline, (candidate,), twin=baseline)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in CONDITIONS}
    for turn in range(processes):
        for name in CONDITIONS:
            plan = replace(evaluator.plans.final_rounds, seed=turn, **({"depths": 1} if name == ONE_PLACE else {}))
            with condition(name):
                request = TimingRequest(f"{name} {turn}", artifacts, plan, processes=1, turn=turn)
                timed = evaluator.time_fresh(request)
            assert not isinstance(timed, Failure), timed
            [process] = timed.processes
            rows[name].append(
                {
                    "baseline_s": min(process.baseline),
                    "twin": log_ratio(process.baseline, process.twin),
                    "candidate": log_ratio(process.baseline, process.candidates[0]),
                    # The median of the rounds' ratios, to compare the two estimators.
                    "candidate_by_rounds": median(
                        math.log(a / b) for a, b in zip(process.baseline, process.candidates[0], strict=True)
                    ),
                }
            )
        print(f"{turn + 1} of {processes} processes of each kind", flush=True)
    return {"pipelines": [str(each.pipeline) or each.name for each in pair], "conditions": rows}


def build(evaluator: WorkerEvaluator, candidate: Candidate) -> Path:
    """Return the folder of a candidate's artifact."""
    built = evaluator.build_candidate(candidate)
    assert not isinstance(built, Failure), built
    return built.folder


def twin_noise() -> list[float]:
    """Return the recorded log-ratios of twins without their mean, by network scaled to a standard deviation of 1.

    They are what a process alone does to a ratio.
    """
    values: list[float] = []
    for row in read_rows(RESULTS, "networks").values():
        twins = [process["twin"] for process in row["conditions"][AS_IT_IS]]
        centred = [value - sum(twins) / len(twins) for value in twins]
        values += [value / stdev(centred) for value in centred]
    return values


def table(networks: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/evidence/measurement.md``."""
    lines = [
        "| network | condition | latency, ms | same build, sd | other build, sd | by median of rounds, sd |",
        "|---" * 6 + "|",
    ]
    for network, row in networks.items():
        for name, processes in row["conditions"].items():
            latency_ms = 1e3 * median(process["baseline_s"] for process in processes)
            cells = [_deviation(processes, key) for key in ("twin", "candidate", "candidate_by_rounds")]
            lines.append(f"| {network} | {name} | {latency_ms:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _deviation(processes: Sequence[Mapping[str, float]], key: str) -> str:
    return f"{100 * stdev(process[key] for process in processes):.2f} %"


def main() -> None:
    """Measure a network and add it to the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="zoo:resnet18")
    parser.add_argument("--toolchain", default="relay")
    parser.add_argument("--pipeline", default='SimplifyInference,AlterOpLayout,FoldConstant{evaluator="numpy"}')
    parser.add_argument("--baseline-pipeline", help="time this pipeline instead of the toolchain's default baseline")
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    if not arguments.table:
        with passsearch.session(arguments.model, toolchain=arguments.toolchain, remember=False) as evaluator:
            pipelines = [arguments.baseline_pipeline, arguments.pipeline]
            baseline, other = (Candidate(Pipeline.parse(text)) if text else None for text in pipelines)
            pair = baseline or evaluator.session.dialect.baseline, other or Candidate()
            row = measure(evaluator, pair, processes=arguments.processes)
            name = f"{evaluator.session.model.name}, {arguments.toolchain}"
            write_row(RESULTS, "networks", name=name, row=row, session=evaluator.session)
    print(table(read_rows(RESULTS, "networks")))


if __name__ == "__main__":
    main()
