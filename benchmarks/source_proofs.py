"""Networks of transformers and others against their own framework, by ``tune``.

    python benchmarks/source_proofs.py [NAME…] [--toolchain relax] [--out FILE]

Each network of ``tests/frontends/architectures.py`` is tuned without trials, in a process of its own: its framework
computes the expected outputs, and the baseline is compared with them. The rows say by what an import was proven, how
far it deviates, and what the proof took; a network that is refused says why. Needs PyTorch and transformers beside
passsearch. What is in the file already is not asked again. For names such as ``zoo:resnet50`` only the framework
runs, and the rows say how long it takes.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "frontends"))

from architectures import ARCHITECTURES  # noqa: E402

import passsearch  # noqa: E402
from passsearch.errors import PassSearchError  # noqa: E402

LONGEST = 400
"""Longest reason in characters."""


def main() -> None:
    """Try the networks, and print how many are proven."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks (all)")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "source_proofs.json")
    parser.add_argument("--timeout", type=float, default=180.0, help="longest time of one network in seconds")
    options = parser.parse_args()
    document = json.loads(options.out.read_text()) if options.out.exists() else {}
    rows = document.setdefault(options.toolchain, {})
    for name in options.names or ARCHITECTURES:
        if name.startswith("zoo:"):
            document.setdefault("seconds", {})[name] = framework_row(name, options.toolchain)
            options.out.write_text(json.dumps(document, indent=1) + "\n")
            print(name, document["seconds"][name], flush=True)
            continue
        if ARCHITECTURES[name].missing or (name in rows and not options.names):
            continue
        rows[name] = {**in_own_process(name, options.toolchain, timeout_s=options.timeout), "date": str(date.today())}
        options.out.write_text(json.dumps(document, indent=1) + "\n")
        print(name, json.dumps(rows[name]), flush=True)
    proven = [row["source_s"] for row in rows.values() if row.get("runtime")]
    kinds = {
        kind: sum(row["answer"] == kind for row in rows.values())
        for kind in dict.fromkeys(row["answer"] for row in rows.values())
    }
    seconds = f"the proofs took {sum(proven):.1f} s, the longest {max(proven, default=0):.2f} s"
    print(f"{len(rows)} networks: {kinds}; {seconds}")


def framework_row(name: str, toolchain: str) -> dict[str, Any]:
    """Return how long the framework of a built-in network takes for all inputs of the check."""
    with passsearch.session(name, toolchain=toolchain, remember=False) as evaluator:
        source = evaluator.builder.source
    row = {"runtime": source.runtime, "source_s": round(source.seconds, 3), "date": str(date.today())}
    return {**row, "processor": evaluator.session.sensors.device["name"], "target": evaluator.session.target}


def in_own_process(name: str, toolchain: str, *, timeout_s: float) -> dict[str, Any]:
    """Return the row of one network; a process that takes too long is ended with its children."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        # A fork, because importing the frameworks takes longer than most networks do.
        process = multiprocessing.get_context("fork").Process(target=prove, args=(name, toolchain, answer))
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return {"answer": "late", "reason": f"no answer within {timeout_s:g} s"}
        return dict(json.loads(answer.read_text())) if answer.exists() else {"answer": "ended"}


def prove(name: str, toolchain: str, answer: Path) -> None:
    """Write the row of one network."""
    os.setsid()
    os.environ["XDG_CACHE_HOME"] = str(answer.parent)
    warnings.simplefilter("ignore")
    folder = answer.with_name("network")
    folder.mkdir()
    network = ARCHITECTURES[name].make(folder)
    options: dict[str, Any] = {"trials": 0, "confirm": 0, "out": answer.parent / "run", "remember": False}
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
    answer.write_text(json.dumps({**row, "deviation": result["baseline"]["outputs"]["deviation"]}))


if __name__ == "__main__":
    main()
