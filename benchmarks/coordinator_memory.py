"""Measures the memory of a search over thousands of trials: ``python benchmarks/coordinator_memory.py``.

The real search evaluates 5,000 pipelines on a simulated machine, so that nothing but the coordinator works.
``sampler_time.py`` has the time of its sampler, ``soak.py`` the memory of a coordinator with real compilers.
``benchmarks/results/coordinator_memory.json`` gets the memory of the process after some numbers of trials, as does
standard output.
"""

import argparse
import json
from datetime import date
from pathlib import Path

import optuna
import psutil

from passsearch.catalog import load
from passsearch.core import BuildOptions, Candidate, PassSpec, Pipeline
from passsearch.evaluate.testing import Machine, Noise, SimulatedEvaluator
from passsearch.measure import probe
from passsearch.objectives import parse_objective
from passsearch.search import RunOptions, Search, Space

RESULTS = Path(__file__).parent / "results" / "coordinator_memory.json"
BASELINE = Candidate(build=BuildOptions(opt_level=3), name="O3")


def main() -> None:
    """Measure, write the JSON and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=5_000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    marks = [mark for mark in (100, 1_000, 2_500, 5_000) if mark <= arguments.trials]
    rows = [{"trials": trials, "bytes": size} for trials, size in memory(arguments.trials, marks).items()]
    document = {"date": date.today().isoformat(), "device": dict(probe("cpu").device), "rows": rows}
    arguments.results.write_text(json.dumps(document, indent=1) + "\n")
    print("| trials | memory, MB |", "| ---: | ---: |", sep="\n")
    for row in rows:
        print(f"| {row['trials']} | {row['bytes'] / 1e6:.0f} |")


def memory(trials: int, marks: list[int]) -> dict[int, int]:
    """Return the memory of this process in bytes after each of these numbers of trials of one search."""
    found: dict[int, int] = {}

    def look(tally: object, _: object) -> None:
        evaluated = getattr(tally, "evaluated", 0)
        for mark in marks:
            if evaluated >= mark and mark not in found:
                found[mark] = psutil.Process().memory_info().rss

    pipelines = [Pipeline((PassSpec.of(f"Pass{number}"),)) for number in range(trials)]
    search = Search(
        SimulatedEvaluator(Machine(Noise(), 0), {}),
        Space(load("relax"), (), frozenset()),  # all candidates are named ones: the sampler proposes none
        options=RunOptions((parse_objective("throughput"),), trials, seed=0, sampler="random"),
        baselines=[BASELINE],
        default_baseline=BASELINE.name,
        first=[Candidate(pipeline) for pipeline in pipelines],
        elapsed_s=lambda: 0.0,
        progress=look,
    )
    search.run()
    return found


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    main()
