"""Measures the time to close the ten-pass space: ``python benchmarks/close_space.py resnet18 mobilenet_v2``.

Each network's space is closed without the fact cache. With ``--plain`` it is closed again by a plain loop over TVM's
own passes in one process, and the states of both are compared by TVM's structural hash. The result is in
``benchmarks/results/close_space.json``.
"""

import argparse
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provenance import read_rows, write_row

import passsearch
from passsearch.core import Pipeline
from passsearch.evaluate import Closure, Exploration, Limits, Session, WorkerEvaluator
from passsearch.search import explored_passes

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "close_space.json"
PASSES = (
    "SimplifyInference,FoldConstant,FoldScaleAxis,SimplifyExpr,AlterOpLayout,EliminateCommonSubexpr,"
    "CombineParallelConv2D{min_num_branches=3},FastMath,FuseOps,DeadCodeElimination"
)


def main() -> None:
    """Close the spaces and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--plain", action="store_true", help="close each space by a plain loop as well")
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    for name in arguments.names:
        with passsearch.session(f"zoo:{name}", remember=False) as evaluator:
            session = evaluator.session
            row, hashes = close(evaluator)
        if arguments.plain:
            row["plain"] = close_plainly(session, hashes)
        write_row(RESULTS, "networks", name=name, row={"passes": PASSES, **row}, session=session)
    if arguments.table:
        print(table(read_rows(RESULTS, "networks")))


def table(rows: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/evidence/search.md``."""
    heads = ("network", "states", "edges", "depth", "closed in", "a plain loop", "same states")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, row in rows.items():
        loop = row.get("plain")
        loop_cells = (f"{loop['seconds']:.0f} s", "yes" if loop["same"] else "no") if loop else ("not run", "–")
        cells = [name, row["states"], row["edges"], row["depth"], f"{row['seconds']:.0f} s", *loop_cells]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def close(evaluator: WorkerEvaluator) -> tuple[dict[str, Any], set[str]]:
    """Close the space with passsearch; return the row and TVM's hashes of the states."""
    session = evaluator.session
    steps, _ = explored_passes(session, evaluator.network.summary, passes=[PASSES])
    growth = Exploration(
        evaluator.applier, steps, limits=Limits(), compilers=session.explorers, progress=lambda *_: None
    ).run()
    closure = Closure.of(evaluator.graph, steps)
    hashes = [evaluator.applier.hashes(closure.graph.cheapest(state)[0])[-1] for state in closure.states]
    row = {
        "ended": growth.ended,
        "seconds": round(growth.seconds, 1),
        "compilers": session.explorers,
        "states": len(closure.states),
        "edges": closure.table.size,
        "failed": int((closure.table < 0).sum()),
        "depth": closure.depth,
        "structural_hashes": len(set(hashes)),
        "seconds_by_step": dict(zip(closure.steps, closure.seconds.sum(axis=0).round(1).tolist(), strict=True)),
    }
    return row, set(hashes)


def close_plainly(session: Session, hashes: set[str]) -> dict[str, Any]:
    """Close the space with ``plain_loop.py``, where TVM evaluates constants, and compare the states."""
    request = {
        "bridge": session.dialect.bridge,
        "target": session.target,
        "path": str(session.model.path),
        "format": session.model.format,
        "passes": [
            {
                "name": step.name,
                "arguments": step.argument_values | _fixed_level(step.name),
                "factory": session.factories[step.name],
            }
            for step in Pipeline.parse(PASSES).passes
        ],
    }
    run = subprocess.run(
        [str(session.toolchain.python), str(ROOT / "plain_loop.py")],
        input=json.dumps(request),
        env={"PYTHONPATH": str(ROOT.parent), "TVM_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    answer = json.loads(run.stdout.splitlines()[-1])
    states = set(answer.pop("hashes"))
    return {**answer, "states": len(states), "same": states == hashes, "only_here": len(states - hashes)}


def _fixed_level(name: str) -> dict[str, int]:
    # Without the argument FuseOps follows the level of the surrounding PassContext, which differs between the two.
    return {"fuse_opt_level": 2} if name == "FuseOps" else {}


if __name__ == "__main__":
    main()
