"""How long it takes to close the ten-pass space: ``python benchmarks/close_space.py resnet18 mobilenet_v2``.

Each network's space is closed anew (nothing is recalled), then, with ``--plain``, once more by a plain loop over TVM's
own passes in one process, and the states of both are compared by TVM's structural hash. The JSON goes to
``benchmarks/results/close_space.json``.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from provenance import read_rows, settle, write_row

from passsearch.api.common import evaluating
from passsearch.core import Pipeline
from passsearch.evaluate import Session
from passsearch.evaluate.closure import Closure
from passsearch.evaluate.exploration import Exploration, Limits
from passsearch.search.pass_selection import explored_passes

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "close_space.json"
PASSES = (
    "SimplifyInference,FoldConstant,FoldScaleAxis,SimplifyExpr,AlterOpLayout,EliminateCommonSubexpr,"
    "CombineParallelConv2D{min_num_branches=3},FastMath,FuseOps,DeadCodeElimination"
)


def main() -> None:
    """Close, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--plain", action="store_true", help="by a plain loop as well")
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    for name in arguments.names:
        chosen = settle(f"zoo:{name}")
        row, hashes = closed(chosen)
        if arguments.plain:
            row["plain"] = plain(chosen, hashes)
        write_row(RESULTS, "networks", name=name, row={"passes": PASSES, **row}, chosen=chosen)
    if arguments.table:
        print(table(read_rows(RESULTS, "networks")))


def table(rows: dict[str, Any]) -> str:
    """The Markdown of ``docs/search.md``."""
    heads = ("network", "states", "edges", "depth", "closed in", "a plain loop", "same states")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, row in rows.items():
        loop = row.get("plain")
        told = (f"{loop['seconds']:.0f} s", "yes" if loop["same"] else "no") if loop else ("not run", "–")
        cells = [name, row["states"], row["edges"], row["depth"], f"{row['seconds']:.0f} s", *told]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def closed(chosen: Session) -> tuple[dict[str, Any], set[str]]:
    """By passsearch; the hashes TVM gives to the states."""
    with evaluating(chosen, remember=False) as evaluator:
        steps, _ = explored_passes(chosen, evaluator.summary, passes=[PASSES])
        silent = {"compilers": chosen.explorers, "progress": lambda *_: None}
        growth = Exploration(evaluator, steps, limits=Limits(), **silent).run()
        closure = Closure.of(evaluator.graph, steps)
        hashes = [evaluator.hashes(closure.graph.cheapest(state)[0])[-1] for state in closure.states]
    row = {
        "ended": growth.ended,
        "seconds": round(growth.seconds, 1),
        "compilers": chosen.explorers,
        "states": len(closure.states),
        "edges": closure.table.size,
        "failed": int((closure.table < 0).sum()),
        "depth": closure.depth,
        "structural_hashes": len(set(hashes)),
        "seconds_by_step": dict(zip(closure.steps, closure.seconds.sum(axis=0).round(1).tolist(), strict=True)),
    }
    return row, set(hashes)


def plain(chosen: Session, hashes: set[str]) -> dict[str, Any]:
    """By the plain loop, with TVM evaluating constants."""
    steps = Pipeline.parse(PASSES).passes
    request = {
        "bridge": chosen.dialect.bridge,
        "target": chosen.target,
        "path": str(chosen.model.path),
        "format": chosen.model.format,
        "passes": [
            {"name": step.name, "arguments": step.argument_values | _level(step.name), "factory": chosen.factories[step.name]}
            for step in steps
        ],
    }
    run = subprocess.run(
        [str(chosen.toolchain.python), str(ROOT / "plain_loop.py")],
        input=json.dumps(request),
        env={"PYTHONPATH": str(ROOT.parent), "TVM_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    answer = json.loads(run.stdout.splitlines()[-1])
    found = set(answer.pop("hashes"))
    return {**answer, "states": len(found), "same": found == hashes, "only_here": len(found - hashes)}


def _level(name: str) -> dict[str, int]:
    """FuseOps at a fixed level, as the search has it; all else as TVM has it."""
    return {"fuse_opt_level": 2} if name == "FuseOps" else {}


if __name__ == "__main__":
    sys.exit(main())
