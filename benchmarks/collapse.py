"""Compares binaries that share one measurement: ``python benchmarks/collapse.py mobilenet_v2``.

A search measures states once that lower to the same kernels, called in the same order, though their binaries may
differ. Such pairs occur where a convolution follows another without an activation between: the scale of a batch_norm
can go into the weights before it or after it, which makes two IRs and two binaries with one list of kernels. Here both
members of several pairs are built and timed side by side in several processes. The result is in
``benchmarks/results/collapse.json``.
"""

import argparse
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from provenance import write_row
from scipy import stats

import passsearch
from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate import Built, TimedArtifacts, TimingRequest, WorkerEvaluator
from passsearch.measure import process_ratio
from passsearch.search import BUILDS

RESULTS = Path(__file__).parent / "results" / "collapse.json"
LEVEL = 0.95
FOLD, FUSE = 'FoldConstant{evaluator="numpy"}', "FuseOps{fuse_opt_level=2}"
BEGIN = f"SimplifyInference,{FOLD}"
SCALES = ("BackwardFoldScaleAxis", f"ForwardFoldScaleAxis,{FOLD},BackwardFoldScaleAxis")
"""Two pipelines that move a scale into different weights."""
ENDS = (f"{FOLD},AlterOpLayout,{FOLD},{FUSE}", FOLD)


def main() -> None:
    """Build and time the pairs, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--processes", type=int, default=6, help="from six on a pair has an interval of its own")
    arguments = parser.parse_args()
    for name in arguments.names:
        with passsearch.session(f"zoo:{name}", remember=False) as evaluator:
            rows = [compare(evaluator, pair, processes=arguments.processes) for pair in pairs()]
        row = summary([row for row in rows if row])
        write_row(RESULTS, "networks", name=name, row=row, session=evaluator.session)
        print(name, {key: value for key, value in row.items() if key != "pairs"})


def pairs() -> list[list[Candidate]]:
    """Return pairs of candidates that differ only in the weights that get the scales."""
    return [
        [Candidate(Pipeline.parse(f"{BEGIN},{scales},{end}"), build) for scales in SCALES]
        for end, build in product(ENDS, BUILDS)
    ]


def compare(evaluator: WorkerEvaluator, pair: Sequence[Candidate], *, processes: int) -> dict[str, Any] | None:
    """Return the ratio of two builds.

    Return ``None`` if a search would measure both (their kernels differ) or only one (they are one binary).
    """
    first, second = (build(evaluator, candidate) for candidate in pair)
    if first.kernels != second.kernels or first.digest == second.digest:
        return None
    artifacts = TimedArtifacts(first.folder, (second.folder,))
    key, plan = f"{first.folder}|{second.folder}", evaluator.plans.final_rounds
    timed = evaluator.time_fresh(TimingRequest(key, artifacts, plan, processes=processes))
    if isinstance(timed, Failure):
        raise SystemExit(timed.reason)
    ratio = process_ratio([(process.baseline, process.candidates[0]) for process in timed.processes])
    low, high = ratio.interval.low, ratio.interval.high
    bounded = low > 0 and math.isfinite(high)
    return {
        "pipelines": [str(candidate.pipeline) for candidate in pair],
        "opt_level": pair[0].build.opt_level,
        "ratio": round(ratio.value, 5),
        "interval": [round(low, 5), round(high, 5)] if bounded else None,
        "equal": low <= 1 <= high if bounded else None,
    }


def build(evaluator: WorkerEvaluator, candidate: Candidate) -> Built:
    """Return the artifact of a candidate, or exit with the reason why there is none."""
    built = evaluator.build_candidate(candidate)
    if isinstance(built, Failure):
        raise SystemExit(f"{candidate}: {built.reason}")
    return built


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the spread of the ratios, and their mean with its interval (Student's t over the logarithms)."""
    logs = np.log([row["ratio"] for row in rows])
    half = stats.t.ppf((1 + LEVEL) / 2, len(logs) - 1) * stats.sem(logs) if len(logs) > 1 else math.inf
    ends = [float(math.exp(logs.mean() + sign * half)) for sign in (-1, 1)] if math.isfinite(half) else None
    return {
        "pairs": rows,
        "measured": len(rows),
        "intervals": sum(row["interval"] is not None for row in rows),
        "intervals_with_1": sum(bool(row["equal"]) for row in rows),
        "smallest": float(np.exp(logs.min())),
        "largest": float(np.exp(logs.max())),
        "mean": float(math.exp(logs.mean())),
        "mean_interval": ends,
    }


if __name__ == "__main__":
    main()
