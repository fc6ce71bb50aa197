"""Do states that share one measurement measure the same? ``python benchmarks/collapse.py bert_tiny``.

States of a measured space that lower to the same kernels, called in the same order, are one measurement to a search.
Here up to ``--groups`` such groups are drawn, two states of each (two different IRs) are built apart from each other
and timed side by side in several processes. The JSON goes to ``benchmarks/results/collapse.json``.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measured import SPACES, Ways, read_space
from provenance import settle, write_row
from scipy import stats

from passsearch.api.asking import evaluating
from passsearch.core import Failure
from passsearch.measure import process_ratio
from passsearch.search import FINAL_PLAN, Evaluator

RESULTS = Path(__file__).parent / "results" / "collapse.json"
LEVEL = 0.95


def main() -> None:
    """Build, time, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--processes", type=int, default=3)
    arguments = parser.parse_args()
    for name in arguments.names:
        document = read_space(SPACES / f"{name}.json.gz")
        drawn = pairs(document, arguments.groups)
        if not drawn:
            print(f"{name}: no two states lower to the same kernels")
            continue
        chosen = settle(document["model"]["source"])
        ways = Ways(document)
        with evaluating(chosen, remember=False) as evaluator:
            row = summary([compared(evaluator, ways, pair, processes=arguments.processes) for pair in drawn])
        write_row(RESULTS, "spaces", name, row, chosen)
        print(name, {key: value for key, value in row.items() if key != "pairs"})


def pairs(document: dict[str, Any], most: int) -> list[list[dict[str, Any]]]:
    """Two builds of every group with the same kernels whose states differ; a draw, if there are too many."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in document["builds"]:
        if "failure" not in row:
            groups.setdefault(row["kernels"], []).append(row)
    rng = np.random.default_rng(0)
    found = []
    for group in groups.values():
        first = group[rng.integers(len(group))]
        others = [row for row in group if row["state"] != first["state"]]
        if others:
            found.append([first, others[rng.integers(len(others))]])
    chosen = sorted(rng.permutation(len(found))[:most])
    return [found[place] for place in chosen]


def compared(evaluator: Evaluator, ways: Ways, pair: Sequence[Mapping[str, Any]], *, processes: int) -> dict[str, Any]:
    """The ratio of two builds of one group."""
    folders = []
    for candidate in map(ways.candidate, pair):
        state = evaluator.reach(candidate.pipeline)
        built = state if isinstance(state, Failure) else evaluator.built(state, candidate)
        restored = built if isinstance(built, Failure) else evaluator.restore(built)
        if isinstance(restored, Failure):
            raise SystemExit(f"{candidate}: {restored.reason}")
        folders.append(str(restored.folder))
    answer = evaluator.time_fresh("|".join(folders), folders, FINAL_PLAN, processes=processes)
    if isinstance(answer, Failure):
        raise SystemExit(answer.reason)
    ratio = process_ratio(answer["processes"], 1)
    low, high = ratio.interval.low, ratio.interval.high
    told = [{"state": row["state"], "opt_level": row["opt_level"]} for row in pair]
    ends = [round(end, 5) if math.isfinite(end) else None for end in (low, high)]
    same = pair[0]["binary"] == pair[1]["binary"]
    row = {"pair": told, "same_binary": same, "ratio": round(ratio.value, 5), "interval": ends}
    return {**row, "equal": low <= 1 <= high}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How far apart the pairs read, and the mean of all (Student's t over the logarithms)."""
    logs = np.log([row["ratio"] for row in rows])
    reach = stats.t.ppf((1 + LEVEL) / 2, len(logs) - 1) * stats.sem(logs) if len(logs) > 1 else math.inf
    ends = [float(math.exp(logs.mean() + sign * reach)) for sign in (-1, 1)] if math.isfinite(reach) else None
    return {
        "pairs": rows,
        "measured": len(rows),
        "same_binary": sum(row["same_binary"] for row in rows),
        "intervals_with_1": sum(row["equal"] for row in rows),
        "smallest": float(np.exp(logs.min())),
        "largest": float(np.exp(logs.max())),
        "mean": float(math.exp(logs.mean())),
        "mean_interval": ends,
    }


if __name__ == "__main__":
    main()
