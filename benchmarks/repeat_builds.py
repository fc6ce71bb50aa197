"""Compile the contenders of measured spaces afresh, several times: ``python benchmarks/repeat_builds.py resnet18``.

One build says little of a compile time. Those that keep 98 % of -O3's throughput and whose single build took at most
half as long again as the quickest are compiled again, as a deployment does it, in processes of their own, in rounds, each in
another order, -O3 among them. The seconds go into ``benchmarks/spaces/NAME.json.gz``, beside the single build.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from provenance import provenance, settle

from passsearch.core import BuildOptions, Candidate, Failure, Pipeline
from passsearch.search.closure import Closure
from passsearch.store import Log

SPACES = Path(__file__).parent / "spaces"
KEEP, CLOSE = 0.98, 1.5


def main() -> None:
    """Compile, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for name in arguments.names:
        file = SPACES / f"{name}.json.gz"
        document = json.loads(gzip.decompress(file.read_bytes()))
        repeat(document, arguments.rounds)
        with gzip.GzipFile(file, "wb", mtime=0) as sink:
            sink.write(json.dumps(document, allow_nan=False).encode())


def repeat(document: dict[str, Any], rounds: int) -> None:
    """Adds ``compile_s`` to the rows of contenders, a value for every round."""
    chosen = settle(document["model"]["source"])
    rows = contenders(document)
    ways = Closure.from_json(document["graph"]).ways()
    steps = [Pipeline.parse(step).passes[0] for step in document["graph"]["steps"]]
    for row in rows:
        row["compile_s"] = []
    with TemporaryDirectory(prefix="passsearch-") as folder, Log(Path(folder) / "log.jsonl") as log:
        evaluator = chosen.evaluator(log, Path(folder))
        try:
            for number in range(rounds):
                for place in np.random.default_rng(number).permutation(len(rows)):
                    row = rows[place]
                    way = tuple(steps[column] for column in ways[row["state"]][0])
                    candidate = Candidate(Pipeline(way), BuildOptions(opt_level=row["opt_level"]))
                    fact = evaluator.fresh(f"{number}-{place}", candidate, timed="", kinds=())
                    if isinstance(fact, Failure):
                        raise SystemExit(fact.reason)
                    row["compile_s"].append(round(fact["apply_s"] + fact["seconds"], 3))
                print(f"{document['model']['name']}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        finally:
            evaluator.close()
    document["compiled_again"] = provenance(chosen)["date"]


def contenders(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """-O3 on the network as it is, and whatever may compile quickest at no loss."""
    rows = [row for row in document["builds"] if row.get("ratio", 0.0) >= KEEP]
    quickest = min(row["apply_s"] + row["build_s"] for row in rows)
    return [row for row in rows if row is document["builds"][0] or row["apply_s"] + row["build_s"] <= CLOSE * quickest]


def compile_seconds(row: Mapping[str, Any]) -> float:
    """To apply the cheapest pipeline and build: the median of the fresh compiles, where there are any."""
    return float(median(row["compile_s"]) if "compile_s" in row else row["apply_s"] + row["build_s"])


if __name__ == "__main__":
    main()
