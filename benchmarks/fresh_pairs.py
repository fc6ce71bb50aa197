"""Intervals of two fresh compiles against the truth: ``python benchmarks/fresh_pairs.py zoo:resnet_tiny --load``.

Compiles two pipelines afresh, again and again, and times each pair in new processes, as one repetition of a
confirmation does; ``--load`` keeps all cores busy with as many other processes meanwhile. Two neighbouring repetitions
are one short confirmation. Its interval should hold the ratio that all other repetitions give together, by both
estimators and under both conditions. ``benchmarks/results/fresh_pairs.json`` has the samples of every process; a
repetition in it is not measured again. ``--table`` prints how many intervals hold the truth, by rule.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from provenance import provenance

import passsearch
from passsearch.api.common import read_candidate
from passsearch.core import Failure
from passsearch.evaluate import TimedArtifacts, TimingRequest, WorkerEvaluator

RESULTS = Path(__file__).parent / "results" / "fresh_pairs.json"
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


def main() -> None:
    """Measure what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="zoo:resnet_tiny")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--pipelines", default="default-passes,nhwc-schedule-cpu", metavar="A,B")
    parser.add_argument("--repetitions", type=int, default=24)
    parser.add_argument("--load", type=int, default=0, metavar="N", help="number of other processes that are busy")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
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
