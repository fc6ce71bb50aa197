"""How fast one binary is from different places on the stack: ``python benchmarks/stack_depth.py``.

In each of several new processes a network built by -O3, the same once more (its twin) and the network built without
fusion run in turns, in every run from another place on the stack; and in as many other processes always from one.
``benchmarks/results/stack_depth.json`` has all runs. ``--table`` prints from it how far the runs of one process lie
apart, and the standard deviation over processes of ratios to -O3 (in log) when a process is summed up by the median of
its rounds' ratios (fastest of ``RoundPlan().runs`` runs each) and when it is by its fastest runs.
"""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, stdev
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from provenance import provenance, settle

from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate import FINAL_PLAN, Built
from passsearch.store import Log

RESULTS = Path(__file__).parent / "results" / "stack_depth.json"
NAMES = ("O3", "twin", "unfused")
UNFUSED = Candidate(Pipeline.parse('SimplifyInference,AlterOpLayout,FoldConstant{evaluator="numpy"}'))
PLANS = {
    "random places": replace(FINAL_PLAN, rounds=FINAL_PLAN.rounds * FINAL_PLAN.runs, runs=1, run_s=0.0),
    "one place": replace(FINAL_PLAN, rounds=FINAL_PLAN.rounds * FINAL_PLAN.runs, runs=1, run_s=0.0, depths=1),
}
Process: TypeAlias = Sequence[Sequence[float]]
"""Seconds of all runs, by artifact."""


def measured(model: str, processes: int) -> dict[str, Any]:
    """Runs of all processes, by plan; the plans take turns."""
    chosen = settle(model)
    found: dict[str, list[Process]] = {name: [] for name in PLANS}
    with TemporaryDirectory(prefix="passsearch-") as folder, Log(Path(folder) / "log.jsonl") as log:
        evaluator = chosen.evaluator(log, Path(folder))
        try:
            folders = []
            for candidate in (chosen.dialect.baseline, UNFUSED):
                state = evaluator.reach(candidate.pipeline)
                built = state if isinstance(state, Failure) else evaluator.built(state, candidate)
                assert isinstance(built, Built), built
                folders.append(str(built.folder))
            for turn in range(processes):
                for name, plan in PLANS.items():
                    key = f"{name} {turn}"
                    timed = evaluator.time_fresh(
                        key, [folders[0], *folders], plan=replace(plan, seed=turn), processes=1
                    )
                    assert not isinstance(timed, Failure), timed
                    found[name] += timed["processes"]
        finally:
            evaluator.close()
    return {"model": model, "names": NAMES, "runs": found, **provenance(chosen)}


def by_rounds(process: Process, artifact: int) -> float:
    """Log-ratio of an artifact to -O3: the median of the rounds' ratios."""
    visits = [
        [min(runs[at : at + FINAL_PLAN.runs]) for at in _starts(runs)] for runs in (process[0], process[artifact])
    ]
    return median(math.log(one / other) for one, other in zip(*visits, strict=True))


def by_fastest(process: Process, artifact: int) -> float:
    """Likewise: of the fastest runs."""
    return math.log(min(process[0]) / min(process[artifact]))


def _starts(runs: Sequence[float]) -> range:
    return range(0, len(runs), FINAL_PLAN.runs)


def table(document: Mapping[str, Any]) -> str:
    """The Markdown of ``docs/measurement.md``."""
    shown: dict[str, Callable[[Sequence[Process]], str]] = {
        "-O3: slowest run of a process over its fastest, median": lambda runs: f"{_spread(runs, 0):.2f}",
        "unfused: slowest run of a process over its fastest, median": lambda runs: f"{_spread(runs, 2):.2f}",
        "-O3: median run, slowest process over fastest": lambda runs: f"{_between(runs, 0):.3f}",
        "unfused: median run, slowest process over fastest": lambda runs: f"{_between(runs, 2):.3f}",
        "twin / -O3, sd of processes, by median of rounds": lambda runs: _percent(runs, by_rounds, artifact=1),
        "twin / -O3, sd of processes, by fastest runs": lambda runs: _percent(runs, by_fastest, artifact=1),
        "unfused / -O3, sd of processes, by median of rounds": lambda runs: _percent(runs, by_rounds, artifact=2),
        "unfused / -O3, sd of processes, by fastest runs": lambda runs: _percent(runs, by_fastest, artifact=2),
    }
    lines = ["| | " + " | ".join(document["runs"]) + " |", "|---" * (1 + len(document["runs"])) + "|"]
    lines += [f"| {name} | " + " | ".join(map(cell, document["runs"].values())) + " |" for name, cell in shown.items()]
    return "\n".join(lines)


def _spread(processes: Sequence[Process], artifact: int) -> float:
    return median(max(process[artifact]) / min(process[artifact]) for process in processes)


def _between(processes: Sequence[Process], artifact: int) -> float:
    medians = [median(process[artifact]) for process in processes]
    return max(medians) / min(medians)


def _percent(processes: Sequence[Process], ratio: Callable[[Process, int], float], *, artifact: int) -> str:
    return f"{100 * stdev(ratio(process, artifact) for process in processes):.2f} %"


def main() -> None:
    """Run and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="zoo:resnet18")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    if not arguments.table:
        RESULTS.write_text(json.dumps(measured(arguments.model, arguments.processes)) + "\n")
    print(table(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
