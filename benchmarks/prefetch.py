"""Measures what prefetched weights give: ``python benchmarks/prefetch.py [NETWORK …]``.

Each network is one ``passsearch bench`` of a sequence of the catalog, whose ``ScheduleCPU`` decides where products
prefetch their weights (``with``) or never does so (``without``), beside ONNX Runtime and OpenVINO. Outputs are the
same, as prefetches compute nothing. Networks that the JSON has are not measured again; ``--table`` prints it and
measures nothing.
"""

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bench_engines

import passsearch
from passsearch.catalog import load
from passsearch.measure import mean_ratio

RESULTS = Path(__file__).parent / "results" / "relax" / "prefetch.json"
NETWORKS = {"bert_base_16": "schedule-cpu", **bench_engines.NETWORKS}
"""A sequence of the catalog by network."""
ARGUMENTS = {"without": "{prefetch=0}", "with": ""}
OTHERS = ("onnxruntime", "openvino")
KEPT = ("process_fastest_s", "latency_s", "compile_s", "deviation", "failure")


def measure(network: str, *, processes: int, rounds: int) -> dict[str, Any]:
    """Return the samples of one network by row."""
    text = str(load("relax").sequences[NETWORKS[network]].pipeline)
    engines = [f"relax:{text.replace('ScheduleCPU', 'ScheduleCPU' + arguments)}" for arguments in ARGUMENTS.values()]
    result = passsearch.bench(
        f"zoo:{network}", [*engines, *OTHERS], processes=processes, rounds=rounds, baseline=engines[0], progress=True
    )
    names = dict(zip(engines, ARGUMENTS, strict=True))
    rows = {
        names.get(row["engine"], row["engine"]): {key: row[key] for key in KEPT if key in row} for row in result["rows"]
    }
    head = {key: result[key] for key in ("measured_at", "device", "threads", "disturbances")}
    return {**head, "sequence": NETWORKS[network], "rows": rows}


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: milliseconds, and the throughput with prefetches as a multiple of that of the other rows."""
    others = ("without", *OTHERS)
    lines = [
        "| network | without, ms | with, ms | with / without | with / ONNX Runtime | with / OpenVINO |",
        "|---|---:|---:|---|---|---|",
    ]
    for network in filter(document["networks"].__contains__, NETWORKS):
        rows = document["networks"][network]["rows"]
        times = [f"{1e3 * min(rows[name]['process_fastest_s']):.2f}" for name in ARGUMENTS]
        lines.append(f"| {' | '.join([network, *times, *(_gain(rows, other) for other in others)])} |")
    return "\n".join(lines)


def _gain(rows: Mapping[str, Any], other: str) -> str:
    """Return how many times as fast a network is with prefetches as another row, paired by process."""
    if "failure" in rows[other]:
        return str(rows[other]["failure"])
    pairs = zip(rows[other]["process_fastest_s"], rows["with"]["process_fastest_s"], strict=True)
    gain = mean_ratio([math.log(seconds / own) for seconds, own in pairs])
    return f"{gain.value:.2f} [{gain.interval.low:.2f}, {gain.interval.high:.2f}]"


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
            measured = measure(network, processes=options.processes, rounds=options.rounds)
            document["networks"][network] = measured
            options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(table(document))


if __name__ == "__main__":
    main()
