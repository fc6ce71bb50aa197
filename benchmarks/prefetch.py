"""Measures what prefetched weights give: ``python benchmarks/prefetch.py [NETWORK …]``.

Each network is one ``passsearch bench`` of a sequence of the catalog, whose ``ScheduleCPU`` decides where products
prefetch their weights (``with``) or never does so (``without``), beside ONNX Runtime and OpenVINO. Outputs are the
same, as prefetches compute nothing. Networks that the JSON has are not measured again; ``--table`` prints it and
measures nothing.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import bench_engines
import with_and_without

from passsearch.catalog import load

RESULTS = Path(__file__).parent / "results" / "relax" / "prefetch.json"
NETWORKS = {"bert_base_16": "schedule-cpu", **bench_engines.NETWORKS}
"""A sequence of the catalog by network."""


def pipelines(network: str) -> dict[str, str]:
    """Return the network's sequence without and with prefetches."""
    text = str(load("relax").sequences[NETWORKS[network]].pipeline)
    return {"without": text.replace("ScheduleCPU", "ScheduleCPU{prefetch=0}"), "with": text}


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args()
    if unknown := [name for name in options.networks if name not in NETWORKS]:
        parser.error(f"unknown network {unknown[0]}; choose from {', '.join(NETWORKS)}")
    document: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {"networks": {}}
    for network in options.networks:
        if network not in document["networks"] and not options.table:
            plan = {"processes": options.processes, "rounds": options.rounds}
            measured = with_and_without.measure(f"zoo:{network}", pipelines(network), **plan)
            document["networks"][network] = {"sequence": NETWORKS[network], **measured}
            options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(with_and_without.table(document, NETWORKS))


if __name__ == "__main__":
    main()
