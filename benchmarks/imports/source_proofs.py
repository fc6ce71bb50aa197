"""Networks of transformers, timm and others against their own framework, by ``tune``.

``python -m benchmarks.imports.source_proofs [NAME…]``: each network of ``proof_networks.py`` is tuned without trials,
in a process of its own. Its framework computes the expected outputs, and the baseline is compared with them. The rows
say by what an import was proven, how far it deviates, and what the proof took; a network that is refused says why.
Needs PyTorch, transformers and timm beside passsearch. What is in the file is not asked again, unless it is named. For
names such as ``zoo:resnet50`` only the framework runs, and the rows say how long it takes.
"""

import json
import os
import tempfile
import warnings
from collections import Counter
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import passsearch
from benchmarks.common import RESULTS, in_own_process, options, read, today, write
from benchmarks.imports.proof_networks import NETWORKS
from passsearch.errors import PassSearchError

LONGEST, LONGEST_S = 400, 900.0
"""Longest reason in characters, and the longest time of a network in seconds."""


def main() -> None:
    arguments = options(
        __doc__, ("names", ()), toolchain="relax", out=RESULTS / "source_proofs.json", limit=(120.0, "of one search, s")
    )
    # The processes are forks, because importing the frameworks takes longer than most networks do.
    for package in ("transformers", "timm", "onnxscript"):
        with suppress(ImportError):
            import_module(package)
    document = read(arguments.out)
    rows = document.setdefault(arguments.toolchain, {})
    for name in arguments.names or [name for name in NETWORKS if name not in rows and not NETWORKS[name].missing]:
        if name.startswith("zoo:"):
            answer = document.setdefault("seconds", {})[name] = framework_row(name, arguments.toolchain)
        else:
            answer = rows[name] = row(name, arguments.toolchain, limit_s=arguments.limit)
        write(arguments.out, document)
        print(name, json.dumps(answer), flush=True)
    proven_s = [row["source_s"] for row in rows.values() if row.get("runtime")] or [0.0]
    print(len(rows), "networks:", dict(Counter(row["answer"] for row in rows.values())))
    print(f"a proof takes {median(proven_s):.2f} s in the median, {max(proven_s):.2f} s at most")


def framework_row(name: str, toolchain: str) -> dict[str, Any]:
    """Return how long the framework of a built-in network takes for all inputs of the check."""
    with passsearch.session(name, toolchain=toolchain, remember=False) as evaluator:
        source = evaluator.builder.source
    row = {"runtime": source.runtime, "source_s": round(source.seconds, 3), "date": today()}
    return {**row, "processor": evaluator.session.sensors.device["name"], "target": evaluator.session.target}


def row(name: str, toolchain: str, *, limit_s: float) -> dict[str, Any]:
    """Return the row of one network, which a process of its own makes."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        reason = in_own_process(prove, name, toolchain, limit_s, answer, timeout_s=LONGEST_S)
        return {**({"answer": "ended", "reason": reason} if reason else read(answer)), "date": today()}


def prove(name: str, toolchain: str, limit_s: float, answer: Path) -> None:
    """Write the row of one network."""
    os.environ["XDG_CACHE_HOME"] = str(answer.parent)
    warnings.simplefilter("ignore")
    folder = answer.with_name("network")
    folder.mkdir()
    network = NETWORKS[name].make(folder)
    limits: dict[str, Any] = {"trials": 0, "confirm": 0, "timeout": limit_s, "remember": False, "rivals": []}
    source = {"example_inputs": network.example_inputs, "inputs": network.inputs, "toolchain": toolchain}
    try:
        result = passsearch.tune(network.model, **source, **limits, out=answer.parent / "run").document
    except PassSearchError as error:
        write(answer, {"answer": "refused", "reason": str(error).replace(str(Path.home()), "~")[:LONGEST]})
        return
    reference = result["reference"]
    row = {"answer": "proven" if reference["runtime"] else "unproven", "runtime": reference["runtime"]}
    row |= {"reason": reference["reason"], "source_s": reference["seconds"], "total_s": result["seconds"]["total"]}
    row |= {"processor": result["device"]["name"], "target": result["target"]}
    write(answer, {**row, "deviation": result["baseline"]["outputs"]["deviation"]})


if __name__ == "__main__":
    main()
