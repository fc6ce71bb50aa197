"""Tries pipelines that were tuned at one batch size at the others: ``python benchmarks/batch_regret.py``.

A network is tuned at every batch size for the same time. Then, at every batch size, all winners are compared in one
interleaved measurement. The regret of a pipeline is how many times as long it takes as the fastest of them at that
batch size: 1 on the diagonal if tuning at the right size pays. The JSON is written after every step, and the same
command goes on where it stopped. Two batch sizes with ``--timeout 240`` take about 12 minutes.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import passsearch
from passsearch.errors import PassSearchError

RESULTS = Path(__file__).parent / "results" / "batch_regret.json"


def main() -> None:
    """Tune and compare what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="mobilenet_v2")
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--timeout", type=float, default=240, help="seconds of each search")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    batches = arguments.batches.split(",")
    document: dict[str, Any] = {"networks": {}}
    if arguments.out.exists():
        document = json.loads(arguments.out.read_text())
    network = document["networks"].setdefault(arguments.network, {"tuned": {}, "compared": {}})
    for batch in batches:
        if batch not in network["tuned"]:
            print(f"tuning at batch {batch}", file=sys.stderr)
            model = f"zoo:{arguments.network}@{batch}"
            network["tuned"][batch] = _tune(model, arguments.toolchain, arguments.timeout)
            _write(arguments.out, document)
    for batch in batches:
        if batch not in network["compared"]:
            print(f"comparing at batch {batch}", file=sys.stderr)
            model = f"zoo:{arguments.network}@{batch}"
            network["compared"][batch] = _compare(model, network["tuned"], arguments.toolchain)
            _write(arguments.out, document)
    print(table(network))


def _write(out: Path, document: Mapping[str, Any]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n")


def _tune(model: str, toolchain: str, timeout: float) -> dict[str, Any]:
    """Return the winner of a search as the content of its pipeline file."""
    with TemporaryDirectory() as folder:
        result = passsearch.tune(model, toolchain=toolchain, timeout=timeout, out=Path(folder) / "run")
        deployed = result.export(Path(folder) / "deploy")
        file: dict[str, Any] = json.loads((deployed / "pipeline.json").read_text())
        return file


def _compare(model: str, tuned: Mapping[str, Any], toolchain: str) -> dict[str, Any]:
    """Return rows and pairs of a comparison of all winners at one batch size."""
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"tuned_at_{batch}.json" for batch in tuned]
        for file, content in zip(files, tuned.values(), strict=True):
            file.write_text(json.dumps(content))
        try:
            result = passsearch.compare(model, [*map(str, files)], toolchain=toolchain)
        except PassSearchError as error:
            return {"failure": str(error)}
    kept = ("name", "failure", "latency_s", "throughput_per_s", "compile_s", "ratio")
    rows = [{key: row[key] for key in kept if key in row} for row in result["rows"]]
    head = {key: result[key] for key in ("measured_at", "device", "noise_floor", "processes")}
    return {**head, "rows": rows, "pairs": result["pairs"]}


def table(network: Mapping[str, Any]) -> str:
    """Return the regret of every winner at every batch size, as Markdown."""
    batches = list(network["compared"])
    lines = ["| tuned at | " + " | ".join(f"at batch {batch}" for batch in batches) + " |"]
    lines.append("| ---: |" + " ---: |" * len(batches))
    for tuned in network["tuned"]:
        cells = [regret(network["compared"][batch], f"tuned_at_{tuned}") for batch in batches]
        lines.append(f"| {tuned} | {' | '.join(cells)} |")
    return "\n".join(lines)


def regret(comparison: Mapping[str, Any], name: str) -> str:
    """Return how many times as long a pipeline takes as the fastest one of a comparison, with its interval."""
    rows: Sequence[Mapping[str, Any]] = comparison.get("rows", ())
    good = {row["name"]: row for row in rows if "failure" not in row}
    if name not in good:
        failure = next((row["failure"] for row in rows if row["name"] == name), comparison.get("failure"))
        return str(failure["reason"] if isinstance(failure, Mapping) else failure)
    best = max(good, key=lambda each: good[each]["throughput_per_s"])
    if best == name:
        return "1"
    pair = next(pair for pair in comparison["pairs"] if {pair["first"], pair["second"]} == {name, best})
    # A pair's ratio is the throughput of the second over that of the first.
    ratio, (low, high) = pair["ratio"], pair["interval"]
    if pair["second"] == name:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    return f"{ratio:.3f} [{low:.3f}, {high:.3f}]" + ("" if pair["verdict"] in ("faster", "slower") else " (tie)")


if __name__ == "__main__":
    main()
