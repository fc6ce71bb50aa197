"""Compile the contenders of measured spaces afresh, several times: ``python benchmarks/repeat_builds.py resnet18``.

One build says little of a compile time. Those that keep 98 % of -O3's throughput and whose single build took at most
half as long again as the quickest are compiled again, as a deployment does it, in processes of their own, in rounds,
each in another order, -O3 among them. The seconds go into ``benchmarks/spaces/NAME.json.gz``, beside the single build.
"""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from measured import SPACES, candidate, contenders, read_space, write_space
from provenance import provenance, settle

from passsearch.api.common import evaluating
from passsearch.core import Failure
from passsearch.evaluate.closure import Closure

CLOSE = 1.5


def main() -> None:
    """Compile, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="print what the files have")
    arguments = parser.parse_args()
    for name in arguments.names:
        file = SPACES / f"{name}.json.gz"
        document = read_space(file)
        if arguments.table:
            print(table(name, document))
            continue
        repeat(document, arguments.rounds)
        write_space(file, document)


def repeat(document: dict[str, Any], rounds: int) -> None:
    """Adds ``compile_s`` to the rows of contenders, a value for every round."""
    chosen = settle(document["model"]["source"])
    rows = contenders(document, close=CLOSE)
    closure = Closure.from_json(document["graph"])
    for row in rows:
        row["compile_s"] = []
    with evaluating(chosen, remember=False) as evaluator:
        for number in range(rounds):
            for place in np.random.default_rng(number).permutation(len(rows)):
                row = rows[place]
                fact = evaluator.fresh(f"{number}-{place}", candidate(closure, row), timed="", kinds=())
                if isinstance(fact, Failure):
                    raise SystemExit(fact.reason)
                row["compile_s"].append(round(fact["apply_s"] + fact["seconds"], 3))
            print(f"{document['model']['name']}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    document["compiled_again"] = provenance(chosen)["date"]


def table(name: str, document: Mapping[str, Any]) -> str:
    """How many times quicker than -O3, the quickest first, with the standard error over the rounds."""
    lines = ["| space | state | level | rounds | times quicker | standard error | throughput |", "|---" * 7 + "|"]
    rows = [row for row in document["builds"] if "compile_s" in row]
    baseline = np.log(rows[0]["compile_s"])
    for row in sorted(rows, key=lambda row: float(row["compile_seconds"])):
        gains = baseline - np.log(row["compile_s"])
        error = gains.std(ddof=1) / len(gains) ** 0.5
        told = (name, row["state"], row["opt_level"], len(gains), f"{np.exp(gains.mean()):.2f}", f"{error:.1%}")
        lines.append("| " + " | ".join(map(str, (*told, row["ratio"]))) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
