"""How much it matters where a process's memory comes to lie: ``python benchmarks/placement.py``.

One artifact, -O3's, is loaded several times in each of several new processes, and the project's own rounds visit all
loads in turn. They run the same kernels on the same numbers, so whatever lasts between them is where they lie.
``benchmarks/results/placement.json`` has the samples' medians by process and load, and the summary that
``docs/measurement.md``, ``passsearch/measure`` and ``benchmarks/simulate_search.py`` speak of; ``--table`` prints it.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from provenance import provenance, settle
from scipy.stats import binomtest

from passsearch.core import Failure
from passsearch.measure import LEVEL
from passsearch.search import FINAL_PLAN, Built, Evaluator
from passsearch.search.setting import Setting
from passsearch.store import Log

RESULTS = Path(__file__).parent / "results" / "placement.json"
SLOW = 0.05
"""A load this much slower than its process's fastest is misplaced."""


def measure(model: str, *, processes: int, loads: int, rounds: int) -> dict[str, Any]:
    """Samples of every load of every process, and what they say."""
    chosen = settle(model)
    with TemporaryDirectory(prefix="passsearch-") as folder, Log(Path(folder) / "log.jsonl") as log:
        evaluator = chosen.evaluator(log, Path(folder))
        try:
            artifact = str(_built(chosen, evaluator).folder)
            timed = [_time(evaluator, artifact, turn, loads=loads, rounds=rounds) for turn in range(processes)]
        finally:
            evaluator.close()
    rows = [row(each["processes"][0], each["conditions"][0]) for each in timed]
    return {"model": model, "rounds": rounds, **provenance(chosen), "summary": summary(rows), "processes": rows}


def _built(chosen: Setting, evaluator: Evaluator) -> Built:
    built = evaluator.built(evaluator.graph.root, chosen.dialect.baseline.build)
    if isinstance(built, Failure):
        raise SystemExit(f"The build failed: {built.reason}.")
    return built


def _time(evaluator: Evaluator, artifact: str, turn: int, *, loads: int, rounds: int) -> Mapping[str, Any]:
    """One process. The artifact is listed once for every load, so none is left out as the worse of two."""
    plan = replace(FINAL_PLAN, rounds=rounds, loads=1, seed=turn)
    timed = evaluator.time_fresh(f"process {turn}", [artifact] * loads, plan, processes=1)
    if isinstance(timed, Failure):
        raise SystemExit(f"The measurement failed: {timed.reason}.")
    print(f"process {turn + 1}: {row(timed['processes'][0])['slower_by']}", file=sys.stderr, flush=True)
    return timed


def row(samples: Sequence[Sequence[float]], conditions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One process: every load's median, and its lag in log-ratios of one round, over all rounds and over two halves.

    The halves are every other round: what both say of a load is no noise of the rounds.
    """
    logs = np.log(np.asarray(samples))
    lags = logs - np.median(logs, axis=0)
    middle = np.median(lags, axis=1)
    halves = [np.median(lags[:, first::2], axis=1) for first in (0, 1)]
    kept = ("steal_percent", "foreign_percent", "rounds_dropped")
    return {
        "latency_s": [round(math.exp(each), 7) for each in np.median(logs, axis=1)],
        "slower_by": [round(math.exp(each) - 1, 4) for each in middle - middle.min()],
        "halves": [[round(float(each), 5) for each in half] for half in halves],
        "conditions": {key: conditions[key] for key in kept} if conditions else {},
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many loads are misplaced and by how much, and how much the others differ.

    ``rest_sd`` is the standard deviation of the others' speed that lasts: the root of the covariance, within a
    process, of what two halves of the rounds say of a load, which noise of the rounds has no part in.
    """
    slower = [np.asarray(each["slower_by"]) for each in rows]
    slow = [each > SLOW for each in slower]
    total, bad = sum(map(len, slow)), int(sum(each.sum() for each in slow))
    pairs = sum(math.comb(len(each), 2) for each in slow)
    span = binomtest(bad, total).proportion_ci(LEVEL)
    sizes = np.concatenate([each[bad] for each, bad in zip(slower, slow, strict=True)])
    return {
        "loads": total,
        "misplaced": bad,
        "misplaced_share": round(bad / total, 4),
        "misplaced_interval": [round(span.low, 4), round(span.high, 4)],
        "misplaced_mean": round(float(sizes.mean()), 4) if bad else None,
        "both_of_two_share": round(sum(math.comb(int(each.sum()), 2) for each in slow) / pairs, 4),
        "processes": len(rows),
        "processes_with_any": sum(bool(each.any()) for each in slow),
        "largest": max(float(each.max()) for each in slower),
        "rest_sd": round(_lasting(rows, slow), 5),
    }


def _lasting(rows: Sequence[Mapping[str, Any]], slow: Sequence[Any]) -> float:
    products, freedom = 0.0, 0
    for each, bad in zip(rows, slow, strict=True):
        first, second = (np.asarray(half)[~bad] for half in each["halves"])
        products += float(((first - first.mean()) * (second - second.mean())).sum())
        freedom += len(first) - 1
    return math.sqrt(max(0.0, products / max(freedom, 1)))


def table(document: Mapping[str, Any]) -> str:
    """By process, then the summary in a sentence."""
    loads = range(len(document["processes"][0]["slower_by"]))
    lines = ["| process | " + " | ".join(f"load {load + 1}" for load in loads) + " |"]
    lines.append("|---" * (1 + len(loads)) + "|")
    for number, each in enumerate(document["processes"]):
        cells = [f"+{100 * value:.1f} %" for value in each["slower_by"]]
        lines.append("| " + " | ".join([str(number + 1), *cells]) + " |")
    return "\n".join([*lines, "", _sentences(document["summary"])])


def _sentences(found: Mapping[str, Any]) -> str:
    low, high = (100 * end for end in found["misplaced_interval"])
    mean = "" if found["misplaced_mean"] is None else f" ({100 * found['misplaced_mean']:.0f} % in the mean)"
    return (
        f"{found['misplaced']} of {found['loads']} loads, {100 * found['misplaced_share']:.1f} % "
        f"[{low:.1f}, {high:.1f}],\nare more than {100 * SLOW:.0f} % slower than their process's fastest{mean}, "
        f"at most {100 * found['largest']:.1f} %.\nOf two loads of one process both are in "
        f"{100 * found['both_of_two_share']:.1f} % of cases; {found['processes_with_any']} of {found['processes']} "
        f"processes have any.\nThe speed of the others has a lasting standard deviation of "
        f"{100 * found['rest_sd']:.2f} %."
    )


def main() -> None:
    """Measure and write the JSON, or print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="zoo:resnet18")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--loads", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=FINAL_PLAN.rounds)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print from the JSON there is")
    arguments = parser.parse_args()
    if not arguments.table:
        shape = {"processes": arguments.processes, "loads": arguments.loads, "rounds": arguments.rounds}
        arguments.out.write_text(json.dumps(measure(arguments.model, **shape), indent=1) + "\n")
    print(table(json.loads(arguments.out.read_text())))


if __name__ == "__main__":
    main()
