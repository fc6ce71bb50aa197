"""Measures the time to fold constants, by TVM's own evaluator and by numpy: ``python benchmarks/fold_constant.py``.

Both fold the state that ``BEFORE`` leads to. Every fold runs in a new process that has folded nothing before, and the
two evaluators take turns in going first. ``benchmarks/results/fold_constant-DIALECT.json`` has the seconds;
``--table DIALECT`` prints the Markdown of the docs from it.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from provenance import network_session, provenance

from passsearch.core import PassSpec, Pipeline
from passsearch.evaluate import Session
from passsearch.measure import mean_ratio
from passsearch.toolchain import get_toolchain
from passsearch.worker import Worker

RESULTS = Path(__file__).parent / "results"
NETWORKS = ("resnet18", "mobilenet_v2", "resnet50")
BEFORE = {
    "relay": Pipeline.parse("SimplifyInference,BackwardFoldScaleAxis,AlterOpLayout"),
    "relax": Pipeline.parse("DecomposeOpsForInference"),
}
EVALUATORS = {"tvm": PassSpec.of("FoldConstant"), "numpy": PassSpec.of("FoldConstant", evaluator="numpy")}


def fold(session: Session, evaluator: str, *, log: Path) -> tuple[float, str]:
    """Fold once in a new process; return the seconds and the resulting state."""
    python, bridge = session.toolchain.python, session.dialect.bridge
    worker = Worker(python, bridge=bridge, target=session.target, threads=1, log=log)
    try:
        answer = _ask(worker, session, request={"verb": "load", "source": session.model.to_request()})
        for step in (*BEFORE[session.toolchain.dialect].passes, EVALUATORS[evaluator]):
            step_request = {
                "pass": {"name": step.name, "arguments": step.argument_values},
                "factory": session.factories[step.name],
            }
            answer = _ask(worker, session, request={"verb": "apply", "state": answer["state"], **step_request})
    finally:
        worker.close()
    return answer["seconds"], answer["state"]


def _ask(worker: Worker, session: Session, *, request: Mapping[str, Any]) -> dict[str, Any]:
    answer = worker.ask(request, deadline_s=session.limits.deadline_s)
    if "state" not in answer:
        raise SystemExit(f"`{request['verb']}` failed: {answer['error']['reason']}.")
    return answer


def folds(session: Session, pairs: int) -> dict[str, Any]:
    """Return the seconds of several folds of one network by both evaluators."""
    seconds: dict[str, list[float]] = {evaluator: [] for evaluator in EVALUATORS}
    states = set()
    with TemporaryDirectory(prefix="passsearch-") as folder:
        for pair in range(pairs):
            for evaluator in sorted(EVALUATORS, reverse=pair % 2 == 0):
                fold_s, state = fold(session, evaluator, log=Path(folder) / "workers.log")
                seconds[evaluator].append(round(fold_s, 4))
                states.add(state)
            latest = [seconds[evaluator][-1] for evaluator in EVALUATORS]
            print(f"{session.model.name}: {latest} s", file=sys.stderr, flush=True)
    before = str(BEFORE[session.toolchain.dialect])
    return {"before": before, "seconds": seconds, "same_ir": len(states) == 1, **provenance(session)}


def table(document: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/evidence/results.md``."""
    lines = ["| network | TVM's own | numpy | ratio | same IR | pairs |", "|---|---|---|---|---|---|"]
    for name, row in document.items():
        by_tvm, by_numpy = row["seconds"]["tvm"], row["seconds"]["numpy"]
        ratio = mean_ratio([math.log(one / other) for one, other in zip(by_tvm, by_numpy, strict=True)])
        cells = [
            f"{median(by_tvm):.1f} s",
            f"{median(by_numpy):.2f} s",
            f"{ratio:.0f}",
            "yes" if row["same_ir"] else "no",
        ]
        lines.append("| " + " | ".join([name, *cells, str(len(by_tvm))]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Fold and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help=f"{' '.join(NETWORKS)} by default")
    parser.add_argument("--toolchain", help="name of an installed toolchain (the first)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--table", metavar="DIALECT", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    file = RESULTS / f"fold_constant-{arguments.table or get_toolchain(arguments.toolchain).dialect}.json"
    document = json.loads(file.read_text()) if file.exists() else {}
    for name in () if arguments.table else arguments.networks:
        document[name] = folds(network_session(f"zoo:{name}", arguments.toolchain), arguments.pairs)
        file.write_text(json.dumps(document, indent=1) + "\n")
    print(table(document))


if __name__ == "__main__":
    main()
