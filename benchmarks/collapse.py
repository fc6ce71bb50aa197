"""Do states that share one measurement measure the same? ``python benchmarks/collapse.py mobilenet_v2``.

States that lower to the same kernels, called in the same order, are one measurement to a search, though their binaries
may differ. Where a convolution follows another without an activation between, the scale of a batch_norm goes into the
weights before it or after it: two IRs, two binaries, one list of kernels. Pairs of them, brought to several ends, are
built and timed side by side in several processes. The JSON goes to ``benchmarks/results/collapse.json``.
"""

import argparse
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from provenance import settle, write_row
from scipy import stats

from passsearch.api.common import evaluating
from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate import FINAL_PLAN, Built, Evaluator
from passsearch.measure import process_ratio
from passsearch.search import BUILDS

RESULTS = Path(__file__).parent / "results" / "collapse.json"
LEVEL = 0.95
FOLD, FUSE = 'FoldConstant{evaluator="numpy"}', "FuseOps{fuse_opt_level=2}"
BEGIN = f"SimplifyInference,{FOLD}"
SCALES = ("BackwardFoldScaleAxis", f"ForwardFoldScaleAxis,{FOLD},BackwardFoldScaleAxis")
ENDS = (f"{FOLD},AlterOpLayout,{FOLD},{FUSE}", FOLD)


def main() -> None:
    """Build, time, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--processes", type=int, default=6, help="from six on a pair has an interval of its own")
    arguments = parser.parse_args()
    for name in arguments.names:
        chosen = settle(f"zoo:{name}")
        with evaluating(chosen, remember=False) as evaluator:
            rows = [compared(evaluator, pair, processes=arguments.processes) for pair in pairs()]
        row = summary([row for row in rows if row])
        write_row(RESULTS, "networks", name=name, row=row, chosen=chosen)
        print(name, {key: value for key, value in row.items() if key != "pairs"})


def pairs() -> list[list[Candidate]]:
    """Scales moved in two ways, and then the same."""
    return [
        [Candidate(Pipeline.parse(f"{BEGIN},{scales},{end}"), build) for scales in SCALES]
        for end, build in product(ENDS, BUILDS)
    ]


def compared(evaluator: Evaluator, pair: Sequence[Candidate], *, processes: int) -> dict[str, Any] | None:
    """The ratio of two builds; nothing where a search would measure both, or knows them for one binary."""
    found = [built(evaluator, candidate) for candidate in pair]
    if found[0].kernels != found[1].kernels or found[0].digest == found[1].digest:
        return None
    folders = [str(each.folder) for each in found]
    answer = evaluator.time_fresh("|".join(folders), folders, plan=FINAL_PLAN, processes=processes)
    if isinstance(answer, Failure):
        raise SystemExit(answer.reason)
    ratio = process_ratio(answer["processes"], 1)
    low, high = ratio.interval.low, ratio.interval.high
    bounded = low > 0 and math.isfinite(high)
    told = {"pipelines": [str(each.pipeline) for each in pair], "opt_level": pair[0].build.opt_level}
    ends = [round(low, 5), round(high, 5)] if bounded else None
    return {**told, "ratio": round(ratio.value, 5), "interval": ends, "equal": low <= 1 <= high if bounded else None}


def built(evaluator: Evaluator, candidate: Candidate) -> Built:
    """One candidate, its files there."""
    state = evaluator.reach(candidate.pipeline)
    made = state if isinstance(state, Failure) else evaluator.built(state, candidate)
    if isinstance(made, Failure):
        raise SystemExit(f"{candidate}: {made.reason}")
    return made


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How far apart the pairs read, and the mean of all (Student's t over the logarithms)."""
    logs = np.log([row["ratio"] for row in rows])
    reach = stats.t.ppf((1 + LEVEL) / 2, len(logs) - 1) * stats.sem(logs) if len(logs) > 1 else math.inf
    ends = [float(math.exp(logs.mean() + sign * reach)) for sign in (-1, 1)] if math.isfinite(reach) else None
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
