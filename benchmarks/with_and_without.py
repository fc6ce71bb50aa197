"""Measures a network by one sequence with and without a pass or an argument, beside other engines, in turns."""

import argparse
import json
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import onnx

import passsearch
from passsearch.catalog import load
from passsearch.measure import mean_ratio

OTHERS = ("onnxruntime", "openvino")
Networks: TypeAlias = Mapping[str, tuple[Callable[[], onnx.ModelProto], str]]
"""How a network is made, and its sequence of the catalog."""
KEPT = ("process_fastest_s", "latency_s", "compile_s", "deviation", "failure")


def main(description: str, networks: Networks, *, without: str, results: Path) -> None:
    """Measure the networks that the file of results lacks, and print the table.

    Args:
        description: What is measured, in one line.
        networks: The networks.
        without: The pass that is left out.
        results: The file.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the networks; without it nothing is measured")
    options = parser.parse_args()
    document: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {"networks": {}}
    for name, (make, sequence) in networks.items():
        if options.folder and name not in document["networks"]:
            options.folder.mkdir(parents=True, exist_ok=True)
            file = options.folder / f"{name}.onnx"
            onnx.save(make(), file)
            text = str(load("relax").sequences[sequence].pipeline)
            pipelines = {"without": text.replace(f"{without},", ""), "with": text}
            measured = measure(file, pipelines, processes=4, rounds=6)
            document["networks"][name] = {"sequence": sequence, **measured}
            results.write_text(json.dumps(document, indent=1) + "\n")
    print(table(document, networks))


def measure(model: str | Path, pipelines: Mapping[str, str], *, processes: int, rounds: int) -> dict[str, Any]:
    """Return the samples of one network by row.

    Args:
        model: The network.
        pipelines: Pipelines of TVM, by ``without`` and ``with``.
        processes: Processes of each row, in turns.
        rounds: Rounds in each process.
    """
    engines = {f"relax:{pipeline}": name for name, pipeline in pipelines.items()}
    result = passsearch.bench(
        model, [*engines, *OTHERS], processes=processes, rounds=rounds, baseline=next(iter(engines)), progress=True
    )
    rows = {
        engines.get(row["engine"], row["engine"]): {key: row[key] for key in KEPT if key in row}
        for row in result["rows"]
    }
    return {**{key: result[key] for key in ("measured_at", "device", "threads", "disturbances")}, "rows": rows}


def table(document: Mapping[str, Any], names: Collection[str]) -> str:
    """Return Markdown: milliseconds, and the throughput with the pass as a multiple of that of the other rows."""
    lines = [
        "| network | without, ms | with, ms | throughput with / without | with / ONNX Runtime | with / OpenVINO |",
        "|---|---:|---:|---|---|---|",
    ]
    for network in filter(document["networks"].__contains__, names):
        rows = document["networks"][network]["rows"]
        times = [f"{1e3 * min(rows[name]['process_fastest_s']):.2f}" for name in ("without", "with")]
        lines.append(f"| {' | '.join([network, *times, *(_gain(rows, other) for other in ('without', *OTHERS))])} |")
    return "\n".join(lines)


def _gain(rows: Mapping[str, Any], other: str) -> str:
    """Return how many times as fast a network is with the pass as another row, paired by process."""
    if "failure" in rows[other]:
        return str(rows[other]["failure"])
    pairs = zip(rows[other]["process_fastest_s"], rows["with"]["process_fastest_s"], strict=True)
    gain = mean_ratio([math.log(seconds / own) for seconds, own in pairs])
    return f"{gain:.2f}"
