"""Takes the networks of recorded runs into the corpus: ``python -m benchmarks.search.recorded_runs``.

Each run of ``benchmarks/results/relax`` timed the sequences of the catalog against TVM's default in turns, and then
searched. Seconds are those of the default, divided by the ratio of each sequence. Runs do not time ONNX Runtime.
"""

import subprocess
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, ROOT, network_session, read
from benchmarks.search.corpus import CORPUS, SCHEMA, write_corpus
from passsearch.api.common import open_evaluator
from passsearch.search import analyze_network, sequences_in_catalog_order
from passsearch.search.corpus_recommendation import DEFAULT
from passsearch.toolchain import target_cpu

FAMILIES = {
    "resnet18": "resnet",
    "resnet50": "resnet",
    "mobilenet_v2": "mobilenet",
    "ssd_mobilenet": "ssd",
    "bert_base": "bert",
    "bert_base_16": "bert",
    "gpt2": "gpt2",
}
"""Architecture family by network."""


def row(run: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return the row of a recorded run, with the sequences that suit its network today."""
    timed = {each["name"]: each for each in run["trials"] if each.get("ratio") and each["name"]}
    order, same = _suited(f"zoo:{file.stem}", timed)
    default_s = timed[DEFAULT]["latency_s"]["median"]
    seconds = {name: default_s / timed[name]["ratio"]["ratio"] for name in order if name in timed}
    best = run["sequence"]
    gain = {"ratio": 1.0} if best["is_best"] else best["gain"]
    return {
        "family": FAMILIES[file.stem],
        "date": run["measured_at"][:10],
        "code": _code(file),
        "source": str(file.relative_to(ROOT)),
        "inputs": {name: each["shape"] for name, each in run["model"]["inputs"].items()},
        "classes": [each["name"] for each in run["classes"]],
        "features": {name: each["count"] for name, each in sorted(run["fingerprint"].items())},
        "order": order,
        "same": same,
        "failures": {},
        "rounds_s": {name: [float(f"{value:.5g}")] for name, value in {**seconds, DEFAULT: default_s}.items()},
        "foreign_percent": None,
        "search": {
            "seconds": run["limits"]["timeout_s"],
            "sequence": best["name"],
            "best": run["best"]["name"],
            "gain": gain,
        },
    }


def _suited(network: str, timed: Container[str]) -> tuple[list[str], dict[str, str]]:
    """Return the sequences that suit a network and were timed, in order, and those that reach the IR of a timed one."""
    with open_evaluator(network_session(network, "relax"), remember=False) as evaluator:
        analysis = analyze_network(evaluator.session, evaluator.network.summary)
        candidates, _ = sequences_in_catalog_order(evaluator.session, analysis)
        states = {name: evaluator.reach(each.pipeline) for name, each in candidates.items()}
    equal = {state: name for name, state in reversed(states.items()) if name in timed}
    same = {name: equal[state] for name, state in states.items() if name not in timed and state in equal}
    return [name for name in candidates if name in timed or name in same], same


def _code(file: Path) -> str:
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    document = read(CORPUS) or {"schema": SCHEMA, "processors": {}}
    for name in FAMILIES:
        file = RESULTS / "relax" / f"{name}.json"
        run = read(file)
        about = {key: run[key] for key in ("device", "target", "toolchain")}
        processor = document["processors"].setdefault(target_cpu(run["target"]), {**about, "networks": {}})
        processor["networks"][f"zoo:{name}"] = row(run, file)
    write_corpus(document)


if __name__ == "__main__":
    main()
