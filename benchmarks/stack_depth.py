"""Times one binary from different depths of the stack: ``python benchmarks/stack_depth.py``.

Three artifacts run in turns in each of several new processes: a network built by -O3, the same once more (its twin),
and the network built without fusion. In half of the processes every run starts at a random depth of the stack, in the
other half all runs start at one depth. ``benchmarks/results/stack_depth.json`` has all runs.

``--table`` prints two things from it: the spread of the runs in one process, and the standard deviation over processes
of the log-ratios to -O3. The latter is computed for two summaries of a process: the median of its rounds' ratios (with
the fastest of ``RoundPlan().runs`` runs per round), and the ratio of its fastest runs.
"""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, stdev
from typing import Any, TypeAlias

from provenance import provenance

import passsearch
from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate import MeasurementPlans, TimedArtifacts, TimingRequest, WorkerEvaluator

RESULTS = Path(__file__).parent / "results" / "stack_depth.json"
NAMES = ("O3", "twin", "unfused")
UNFUSED = Candidate(Pipeline.parse('SimplifyInference,AlterOpLayout,FoldConstant{evaluator="numpy"}'))
FINAL_ROUNDS = MeasurementPlans().final_rounds
SINGLE_RUNS = replace(FINAL_ROUNDS, rounds=FINAL_ROUNDS.rounds * FINAL_ROUNDS.runs, runs=1, run_s=0.0)
"""As many runs as the plan that decides, each in a round of its own, so that no run is dropped."""
PLANS = {"random places": SINGLE_RUNS, "one place": replace(SINGLE_RUNS, depths=1)}
Process: TypeAlias = Sequence[Sequence[float]]
"""Seconds of all runs in one process, by artifact."""


def measure(model: str, processes: int) -> dict[str, Any]:
    """Return the runs of all processes, by plan; the plans take turns."""
    runs: dict[str, list[Process]] = {name: [] for name in PLANS}
    with passsearch.session(model, remember=False) as evaluator:
        baseline, unfused = (build(evaluator, each) for each in (evaluator.session.dialect.baseline, UNFUSED))
        artifacts = TimedArtifacts(baseline, (unfused,), twin=baseline)
        for turn in range(processes):
            for name, plan in PLANS.items():
                timed = evaluator.time_fresh(
                    TimingRequest(f"{name} {turn}", artifacts, replace(plan, seed=turn), processes=1)
                )
                assert not isinstance(timed, Failure), timed
                runs[name] += [[process.baseline, process.twin, *process.candidates] for process in timed.processes]
    return {"model": model, "names": NAMES, "runs": runs, **provenance(evaluator.session)}


def build(evaluator: WorkerEvaluator, candidate: Candidate) -> Path:
    """Return the folder of a candidate's artifact."""
    built = evaluator.build_candidate(candidate)
    assert not isinstance(built, Failure), built
    return built.folder


def by_rounds(process: Process, artifact: int) -> float:
    """Return an artifact's log-ratio to -O3 as the median of the rounds' ratios."""
    visits = [
        [min(runs[start : start + FINAL_ROUNDS.runs]) for start in range(0, len(runs), FINAL_ROUNDS.runs)]
        for runs in (process[0], process[artifact])
    ]
    return median(math.log(one / other) for one, other in zip(*visits, strict=True))


def by_fastest(process: Process, artifact: int) -> float:
    """Return an artifact's log-ratio to -O3 as the ratio of the fastest runs."""
    return math.log(min(process[0]) / min(process[artifact]))


def table(document: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/evidence/measurement.md``."""
    rows: dict[str, Callable[[Sequence[Process]], str]] = {
        "-O3: slowest run of a process over its fastest, median": lambda runs: f"{_run_spread(runs, 0):.2f}",
        "unfused: slowest run of a process over its fastest, median": lambda runs: f"{_run_spread(runs, 2):.2f}",
        "-O3: median run, slowest process over fastest": lambda runs: f"{_process_spread(runs, 0):.3f}",
        "unfused: median run, slowest process over fastest": lambda runs: f"{_process_spread(runs, 2):.3f}",
        "-O3 again / -O3, sd of processes, by median of rounds": lambda runs: _deviation(runs, by_rounds, artifact=1),
        "-O3 again / -O3, sd of processes, by fastest runs": lambda runs: _deviation(runs, by_fastest, artifact=1),
        "unfused / -O3, sd of processes, by median of rounds": lambda runs: _deviation(runs, by_rounds, artifact=2),
        "unfused / -O3, sd of processes, by fastest runs": lambda runs: _deviation(runs, by_fastest, artifact=2),
    }
    lines = ["| | " + " | ".join(document["runs"]) + " |", "|---" * (1 + len(document["runs"])) + "|"]
    lines += [f"| {name} | " + " | ".join(map(cell, document["runs"].values())) + " |" for name, cell in rows.items()]
    return "\n".join(lines)


def _run_spread(processes: Sequence[Process], artifact: int) -> float:
    return median(max(process[artifact]) / min(process[artifact]) for process in processes)


def _process_spread(processes: Sequence[Process], artifact: int) -> float:
    medians = [median(process[artifact]) for process in processes]
    return max(medians) / min(medians)


def _deviation(processes: Sequence[Process], ratio: Callable[[Process, int], float], *, artifact: int) -> str:
    return f"{100 * stdev(ratio(process, artifact) for process in processes):.2f} %"


def main() -> None:
    """Time and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="zoo:resnet18")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    if not arguments.table:
        RESULTS.write_text(json.dumps(measure(arguments.model, arguments.processes)) + "\n")
    print(table(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
