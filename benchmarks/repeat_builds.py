"""Compiles the contenders of measured spaces several times afresh: ``python benchmarks/repeat_builds.py resnet18``.

A single build says little of a compile time. Contenders are -O3 and the builds that keep 98 % of its throughput and
whose single build took at most half as long again as the shortest. Each is compiled in a process of its own, as a
deployment compiles, in rounds of random order. The seconds are added to ``benchmarks/spaces/NAME.json.gz``, beside the
single build.
"""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from measured import SPACES, candidate, contenders, read_space, write_space
from provenance import provenance

import passsearch
from passsearch.core import Failure
from passsearch.evaluate import Closure

CLOSE = 1.5
"""Longest single build of a contender, as a multiple of the shortest."""


def main() -> None:
    """Compile and write the spaces, or print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the files")
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
    """Add ``compile_s``, with one value per round, to the rows of the contenders."""
    rows = contenders(document, close=CLOSE)
    closure = Closure.from_json(document["graph"])
    for row in rows:
        row["compile_s"] = []
    with passsearch.session(document["model"]["source"], remember=False) as evaluator:
        for number in range(rounds):
            for place in np.random.default_rng(number).permutation(len(rows)):
                row = rows[place]
                # No samples are taken from these compiles, hence the empty timing key.
                compiled = evaluator.compile_fresh(
                    f"{number}-{place}", candidate(closure, row), timing_key="", kinds=()
                )
                if isinstance(compiled, Failure):
                    raise SystemExit(compiled.reason)
                row["compile_s"].append(round(compiled.compile_s, 3))
            print(f"{document['model']['name']}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    document["compiled_again"] = provenance(evaluator.session)["date"]


def table(name: str, document: Mapping[str, Any]) -> str:
    """Return the gains in compile time over -O3, the largest first, with their standard errors over the rounds."""
    lines = ["| space | state | level | rounds | times quicker | standard error | throughput |", "|---" * 7 + "|"]
    rows = [row for row in document["builds"] if "compile_s" in row]
    baseline = np.log(rows[0]["compile_s"])
    for row in sorted(rows, key=lambda row: float(row["compile_seconds"])):
        gains = baseline - np.log(row["compile_s"])
        error = gains.std(ddof=1) / len(gains) ** 0.5
        cells = (name, row["state"], row["opt_level"], len(gains), f"{np.exp(gains.mean()):.2f}", f"{error:.1%}")
        lines.append("| " + " | ".join(map(str, (*cells, row["ratio"]))) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
