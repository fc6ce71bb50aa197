"""Intervals of two fresh compiles against the truth.

``python -m benchmarks.measurement.fresh_pairs zoo:resnet_tiny --load``.

Compiles two pipelines afresh, again and again, and times each pair in new processes, as one repetition of a
confirmation does; ``--load`` keeps all cores busy with as many other processes meanwhile. Two neighbouring repetitions
are one short confirmation. Its interval should hold the ratio that all other repetitions give together, by both
estimators and under both conditions. ``benchmarks/results/fresh_pairs.json`` has the samples of every process; a
repetition in it is not measured again. ``--table`` prints how many intervals hold the truth, by rule.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import passsearch
from benchmarks.common import provenance
from passsearch.api.common import read_candidate
from passsearch.core import Failure
from passsearch.evaluate import TimedArtifacts, TimingRequest, WorkerEvaluator
from passsearch.measure import log_ratio, log_ratio_at_end, log_ratio_of_medians, mean_interval

RESULTS = Path(__file__).parents[1] / "results" / "fresh_pairs.json"
Estimator: TypeAlias = Callable[[Sequence[float], Sequence[float]], float]
IDLE, LOADED = "idle", "loaded"
PROCESSES = 2
"""Timing processes of a repetition: the fewest of a confirmation."""

BURN = "import math\nwhile True:\n    sum(math.sqrt(value) for value in range(100_000))"


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep other processes busy."""
    with ExitStack() as stack:
        for _ in range(processes):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURN]))
            stack.callback(process.kill)
        yield


def repetition(evaluator: WorkerEvaluator, pipelines: Sequence[str], *, turn: int, condition: str) -> dict[str, Any]:
    """Return the samples of one pair of fresh compiles, by process and artifact, and the digests of the binaries."""
    compiles = []
    for place, text in enumerate(pipelines):
        candidate = read_candidate(evaluator.session, text, trust=False)
        compiled = evaluator.compile_fresh(f"{condition}-{turn}-{place}", candidate, timing_key="", kinds=())
        assert not isinstance(compiled, Failure), compiled
        compiles.append(compiled)
    plan = replace(evaluator.plans.final_rounds, seed=1000 + turn)
    artifacts = TimedArtifacts(compiles[0].folder, (compiles[1].folder,))
    request = TimingRequest(f"{condition} {turn}", artifacts, plan, processes=PROCESSES, turn=turn * PROCESSES)
    timed = evaluator.time_fresh(request)
    assert not isinstance(timed, Failure), timed
    return {
        "digests": [compiled.digest for compiled in compiles],
        "processes": [[list(process.baseline), list(process.candidates[0])] for process in timed.processes],
        "foreign_percent": [process.conditions["foreign_percent"] for process in timed.processes],
    }


ESTIMATORS = {"fastest": log_ratio, "median": log_ratio_of_medians, "last rounds": log_ratio_at_end}


def covered(repetitions: Sequence[Mapping[str, Any]], estimator: Estimator, *, state: float = 0.0) -> tuple[int, int]:
    """Return how many intervals of two neighbouring repetitions hold the mean of all others, and how many there are.

    Args:
        repetitions: The repetitions.
        estimator: Returns the log-ratio of one process.
        state: With another number than 0, neighbours are left out whose means differ by more than this log-ratio: the
            machine changed its state between them.
    """
    logs = [[estimator(*process) for process in repetition["processes"]] for repetition in repetitions]
    hits, number = 0, 0
    for place in range(len(logs) - 1):
        own = logs[place] + logs[place + 1]
        others = [value for other, values in enumerate(logs) if other not in (place, place + 1) for value in values]
        near = [value for value in others if not state or abs(value - fmean(own)) <= state]
        if (state and max(own) - min(own) > state) or not near:
            continue
        _, interval = mean_interval(own)
        number += 1
        hits += interval.low <= fmean(near) <= interval.high
    return hits, number


def table(document: Mapping[str, Any]) -> str:
    """Return how many intervals hold the truth as Markdown."""
    lines = ["| network, condition | estimator | ratio | all | within one state of the machine |", "|---" * 5 + "|"]
    for name, row in document.items():
        for title, estimator in ESTIMATORS.items():
            values = [estimator(*process) for each in row["repetitions"] for process in each["processes"]]
            # Loaded, processes differ by more than the two states that an idle machine has.
            state = math.log(1.5) if not row["load"] else 0.0
            both = (covered(row["repetitions"], estimator, state=each) for each in (0.0, state))
            counts = [f"{hits} of {number}" for hits, number in both]
            lines.append(f"| {name} | {title} | {math.exp(fmean(values)):.2f} | " + " | ".join(counts) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="zoo:resnet_tiny")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--pipelines", default="default-passes,nhwc-schedule-cpu", metavar="A,B")
    parser.add_argument("--repetitions", type=int, default=24)
    parser.add_argument("--load", type=int, default=0, metavar="N", help="number of other processes that are busy")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the file")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(arguments.out.read_text())))
        return
    document: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    condition = LOADED if arguments.load else IDLE
    row = document.setdefault(f"{arguments.model} {condition}", {"pipelines": arguments.pipelines, "repetitions": []})
    with load(arguments.load), passsearch.session(arguments.model, toolchain=arguments.toolchain) as evaluator:
        row |= {"load": arguments.load, **provenance(evaluator.session)}
        for turn in range(len(row["repetitions"]), arguments.repetitions):
            pipelines = arguments.pipelines.split(",")
            row["repetitions"].append(repetition(evaluator, pipelines, turn=turn, condition=condition))
            arguments.out.write_text(json.dumps(document) + "\n")
            print(f"{condition}: repetition {turn + 1} of {arguments.repetitions}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
