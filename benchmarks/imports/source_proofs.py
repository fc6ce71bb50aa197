"""Networks of transformers, timm and others against their own framework, by ``tune``.

    python -m benchmarks.imports.source_proofs [NAME…] [--toolchain relax] [--out FILE]

Each network of ``proof_networks.py`` is tuned without trials, in a process of its own: its framework
computes the expected outputs, and the baseline is compared with them. The rows say by what an import was proven, how
far it deviates, and what the proof took; a network that is refused says why. Needs PyTorch, transformers and timm
beside passsearch. What is in the file already is not asked again, unless its time
limit ended; ``--limit`` sets another. For names such as ``zoo:resnet50`` only the framework
runs, and the rows say how long it takes.
"""

import argparse
import json
import multiprocessing
import os
import signal
import tempfile
import warnings
from contextlib import suppress
from datetime import date
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import passsearch
from benchmarks.imports.proof_networks import NETWORKS
from passsearch.errors import PassSearchError

ROOT = Path(__file__).parents[2]
LONGEST = 400
"""Longest reason in characters."""
LATE, LONGEST_S = "time limit of", 900.0
"""Words in the reason of a network that had no time, and the longest time of its process in seconds."""


def main() -> None:
    """Try the networks, and print how many are proven."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks (all)")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "source_proofs.json")
    parser.add_argument("--limit", type=float, default=120.0, help="time limit of one search in seconds")
    options = parser.parse_args()
    # The processes are forks, because importing the frameworks takes longer than most networks do.
    for package in ("transformers", "timm", "onnxscript"):
        with suppress(ImportError):
            import_module(package)
    document = json.loads(options.out.read_text()) if options.out.exists() else {}
    rows = document.setdefault(options.toolchain, {})
    for name in options.names or NETWORKS:
        if name.startswith("zoo:"):
            document.setdefault("seconds", {})[name] = framework_row(name, options.toolchain)
            options.out.write_text(json.dumps(document, indent=1) + "\n")
            print(name, document["seconds"][name], flush=True)
            continue
        if NETWORKS[name].missing or (name in rows and LATE not in rows[name].get("reason", "") and not options.names):
            continue
        row = in_own_process(name, options.toolchain, limit_s=options.limit)
        rows[name] = {**row, "date": str(date.today())}
        options.out.write_text(json.dumps(document, indent=1) + "\n")
        print(name, json.dumps(rows[name]), flush=True)
    proven = [row["source_s"] for row in rows.values() if row.get("runtime")]
    kinds = {
        kind: sum(row["answer"] == kind for row in rows.values())
        for kind in dict.fromkeys(row["answer"] for row in rows.values())
    }
    seconds = (
        f"a proof takes {median(proven):.2f} s in the median, {max(proven):.2f} s at most" if proven else "no proof"
    )
    print(f"{len(rows)} networks: {kinds}; {seconds}")


def framework_row(name: str, toolchain: str) -> dict[str, Any]:
    """Return how long the framework of a built-in network takes for all inputs of the check."""
    with passsearch.session(name, toolchain=toolchain, remember=False) as evaluator:
        source = evaluator.builder.source
    row = {"runtime": source.runtime, "source_s": round(source.seconds, 3), "date": str(date.today())}
    return {**row, "processor": evaluator.session.sensors.device["name"], "target": evaluator.session.target}


def in_own_process(name: str, toolchain: str, *, limit_s: float) -> dict[str, Any]:
    """Return the row of one network; a process that takes too long is ended with its children."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        process = multiprocessing.get_context("fork").Process(target=prove, args=(name, toolchain, limit_s, answer))
        process.start()
        process.join(LONGEST_S)
        if process.is_alive():
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return {"answer": "late", "reason": f"{LATE} {LONGEST_S:g} s ended"}
        return dict(json.loads(answer.read_text())) if answer.exists() else {"answer": "ended"}


def prove(name: str, toolchain: str, limit_s: float, answer: Path) -> None:
    """Write the row of one network."""
    os.setsid()
    os.environ["XDG_CACHE_HOME"] = str(answer.parent)
    warnings.simplefilter("ignore")
    folder = answer.with_name("network")
    folder.mkdir()
    network = NETWORKS[name].make(folder)
    options: dict[str, Any] = {"trials": 0, "confirm": 0, "timeout": limit_s, "remember": False}
    options |= {"out": answer.parent / "run"}
    try:
        result = passsearch.tune(
            network.model, network.example_inputs, inputs=network.inputs, toolchain=toolchain, **options
        ).document
    except PassSearchError as error:
        reason = str(error).replace(str(Path.home()), "~")[:LONGEST]
        answer.write_text(json.dumps({"answer": "refused", "reason": reason}))
        return
    reference = result["reference"]
    row = {"answer": "proven" if reference["runtime"] else "unproven", "runtime": reference["runtime"]}
    row |= {"reason": reference["reason"], "source_s": reference["seconds"], "total_s": result["seconds"]["total"]}
    row |= {"processor": result["device"]["name"], "target": result["target"]}
    answer.write_text(json.dumps({**row, "deviation": result["baseline"]["outputs"]["deviation"]}))


if __name__ == "__main__":
    main()
