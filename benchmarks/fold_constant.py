"""What folding constants costs, by TVM's own evaluator and by numpy: ``python benchmarks/fold_constant.py``.

Both fold the state that ``BEFORE`` leads to, each in a new process that has folded nothing before, and take turns in
which goes first. ``benchmarks/results/fold_constant-DIALECT.json`` has the seconds, ``--table DIALECT`` prints
the Markdown of the docs from it.
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

from provenance import provenance, settle

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


def fold(chosen: Session, evaluator: str, *, log: Path) -> tuple[float, str]:
    """Seconds of one fold in a new process, and the state it leads to."""
    python, bridge = chosen.toolchain.python, chosen.dialect.bridge
    worker = Worker(python, bridge=bridge, target=chosen.target, threads=1, log=log)
    try:
        answer = _ask(worker, chosen, request={"verb": "load", "source": chosen.model.to_request()})
        for step in (*BEFORE[chosen.toolchain.dialect].passes, EVALUATORS[evaluator]):
            named = {"pass": {"name": step.name, "arguments": step.argument_values}, "factory": chosen.factories[step.name]}
            answer = _ask(worker, chosen, request={"verb": "apply", "state": answer["state"], **named})
    finally:
        worker.close()
    return answer["seconds"], answer["state"]


def _ask(worker: Worker, chosen: Session, *, request: Mapping[str, Any]) -> dict[str, Any]:
    answer = worker.ask(request, deadline_s=chosen.deadline_s)
    if "state" not in answer:
        raise SystemExit(f"`{request['verb']}` failed: {answer['error']['reason']}.")
    return answer


def folds(chosen: Session, pairs: int) -> dict[str, Any]:
    """One network: both evaluators so many times."""
    seconds: dict[str, list[float]] = {evaluator: [] for evaluator in EVALUATORS}
    states = set()
    with TemporaryDirectory(prefix="passsearch-") as folder:
        for pair in range(pairs):
            for evaluator in sorted(EVALUATORS, reverse=pair % 2 == 0):
                spent, state = fold(chosen, evaluator, log=Path(folder) / "workers.log")
                seconds[evaluator].append(round(spent, 4))
                states.add(state)
            last = [seconds[evaluator][-1] for evaluator in EVALUATORS]
            print(f"{chosen.model.name}: {last} s", file=sys.stderr, flush=True)
    before = str(BEFORE[chosen.toolchain.dialect])
    return {"before": before, "seconds": seconds, "same_ir": len(states) == 1, **provenance(chosen)}


def table(document: Mapping[str, Any]) -> str:
    """The Markdown of ``docs/results.md``."""
    lines = ["| network | TVM's own | numpy | ratio | same IR | pairs |", "|---|---|---|---|---|---|"]
    for name, each in document.items():
        own, faster = each["seconds"]["tvm"], each["seconds"]["numpy"]
        ratio = mean_ratio([math.log(one / other) for one, other in zip(own, faster, strict=True)])
        span = f"{ratio.value:.0f} [{ratio.interval.low:.0f}, {ratio.interval.high:.0f}]"
        cells = [f"{median(own):.1f} s", f"{median(faster):.2f} s", span, "yes" if each["same_ir"] else "no"]
        lines.append("| " + " | ".join([name, *cells, str(len(own))]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Fold and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help=f"{' '.join(NETWORKS)} by default")
    parser.add_argument("--toolchain", help="name of an installed toolchain (the first)")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--table", metavar="DIALECT", help="print the Markdown from the JSON there is")
    arguments = parser.parse_args()
    file = RESULTS / f"fold_constant-{arguments.table or get_toolchain(arguments.toolchain).dialect}.json"
    document = json.loads(file.read_text()) if file.exists() else {}
    for name in () if arguments.table else arguments.networks:
        document[name] = folds(settle(f"zoo:{name}", arguments.toolchain), arguments.pairs)
        file.write_text(json.dumps(document, indent=1) + "\n")
    print(table(document))


if __name__ == "__main__":
    main()
