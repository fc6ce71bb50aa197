"""Measures how engines gain from repeated blocks: ``python benchmarks/depth.py [--minutes 18] [--out FILE]``.

Networks of one block (residual, depthwise or encoder), 1 to 32 times, by every engine: blocks a second against depth,
compile time against depth, and for TVM the number of different kernels. A network is measured as a whole by
``passsearch.bench``, so all of its numbers are of one machine at one time. The JSON is written after every network; the
same command goes on where it stopped, and begins no network once the minutes are over.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import passsearch
from passsearch.engines.batch_scaling import mean_with_interval
from passsearch.errors import PassSearchError

RESULTS = Path(__file__).parent / "results" / "depth.json"
BLOCKS = ("residual", "depthwise", "encoder")
DEPTHS = (1, 2, 4, 8, 16, 32)
ENGINES = {
    "residual": "relax:nhwc-schedule-cpu",
    "depthwise": "relax:nhwc-schedule-cpu",
    "encoder": "relax:schedule-cpu",
}
"""TVM's pipeline for each block; its default takes seconds an inference."""
OTHERS = ("onnxruntime", "openvino", "torch", "inductor")
KEPT = ("engine", "process_fastest_s", "latency_s", "compile_s", "open_s", "memory_bytes", "deviation", "failure")


def main() -> None:
    """Measure what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--minutes", type=float, default=18)
    parser.add_argument("--blocks", default=",".join(BLOCKS))
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)))
    parser.add_argument("--engines", default=",".join(OTHERS), help="engines beside TVM")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    document: dict[str, Any] = {"networks": {}}
    if arguments.out.exists():
        document = json.loads(arguments.out.read_text())
    plan = {"processes": arguments.processes, "rounds": arguments.rounds}
    # Deep networks of all blocks come after shallow ones, so that a short run has something of each.
    for depth in map(int, arguments.depths.split(",")):
        for block in arguments.blocks.split(","):
            name = f"{block}_x{depth}"
            if name in document["networks"] or time.monotonic() > end:
                continue
            print(name, file=sys.stderr)
            document["networks"][name] = _measure(name, ENGINES[block], arguments.engines.split(","), plan)
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(tables(document))


def _measure(name: str, pipeline: str, others: Sequence[str], plan: Mapping[str, int]) -> dict[str, Any]:
    result = passsearch.bench(f"zoo:{name}", [pipeline, *filter(None, others)], **plan)
    rows = [{key: row[key] for key in KEPT if key in row} for row in result["rows"]]
    head = {key: result[key] for key in ("measured_at", "device", "threads", "disturbances")}
    return {**head, "rows": rows, "kernels": _kernels(name, pipeline)}


def _kernels(name: str, pipeline: str) -> dict[str, Any]:
    """Return how many kernels TVM makes of a network, and how often it calls them."""
    toolchain, _, names = pipeline.partition(":")
    try:
        (profile,) = passsearch.profile(f"zoo:{name}", [names], toolchain=toolchain)["pipelines"]
    except PassSearchError as error:
        return {"failure": str(error)}
    return {
        "different": len(profile["kernels"]),
        "calls": len(profile["calls"]),
        "blocks": [row["seconds"] for row in profile["blocks"] or [] if row["part"].startswith("block ")],
    }


def tables(document: Mapping[str, Any]) -> str:
    """Return a table for each block, as Markdown."""
    return "\n\n".join(filter(None, (_table(document, block) for block in BLOCKS)))


def _table(document: Mapping[str, Any], block: str) -> str:
    found = {int(name.rpartition("x")[2]): row for name, row in document["networks"].items() if name.startswith(block)}
    if not found:
        return ""
    engines = list(dict.fromkeys(row["engine"] for network in found.values() for row in network["rows"]))
    lines = [
        f"| {block}: depth | " + " | ".join(f"{engine}: blocks/s | compile s" for engine in engines) + " | kernels |",
        "| ---: |" + " ---: | ---: |" * len(engines) + " ---: |",
    ]
    for depth in sorted(found):
        rows = {row["engine"]: row for row in found[depth]["rows"]}
        cells = [cell for engine in engines for cell in _cells(rows.get(engine), depth)]
        kernels = found[depth]["kernels"]
        shared = f"{kernels['different']} in {kernels['calls']} calls" if "calls" in kernels else "–"
        lines.append(f"| {depth} | {' | '.join(cells)} | {shared} |")
    return "\n".join([*lines, "", *_fits(found, engines)])


def _cells(row: Mapping[str, Any] | None, depth: int) -> list[str]:
    if row is None or "failure" in row:
        return ["–", "–"]
    mean = mean_with_interval([depth / seconds for seconds in row["process_fastest_s"]])
    ends = "" if mean["interval"] is None else " [{:.0f}, {:.0f}]".format(*mean["interval"])
    return [f"{mean['value']:.0f}{ends}", f"{row['compile_s']:.2f}"]


def _fits(found: Mapping[int, Mapping[str, Any]], engines: Sequence[str]) -> list[str]:
    """Return a line for each engine: milliseconds of a further block and of all else, and seconds to compile it."""
    lines = []
    for engine in engines:
        rows = {depth: row for depth, network in found.items() for row in network["rows"] if row["engine"] == engine}
        good = {depth: row for depth, row in rows.items() if "failure" not in row}
        if len(good) < 2:
            continue
        turns = zip(*(row["process_fastest_s"] for row in good.values()), strict=False)
        # By process, so that the slope has an interval; relative errors, as deep networks would decide alone otherwise.
        slopes = [_line(list(good), times) for times in turns]
        block, rest = (mean_with_interval([1e3 * slope[place] for slope in slopes]) for place in (0, 1))
        compile_s, _ = _line(list(good), [row["compile_s"] for row in good.values()])
        lines.append(
            f"* {engine}: {_interval(block)} ms a block and {_interval(rest)} ms beside them; "
            f"{compile_s:.3f} s to compile a further block."
        )
    return lines


def _line(depths: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Return slope and intercept of the line with the least relative errors."""
    slope, intercept = np.polyfit(depths, values, 1, w=1 / np.asarray(values))
    return float(slope), float(intercept)


def _interval(mean: Mapping[str, Any]) -> str:
    ends = "" if mean["interval"] is None else " [{:.3f}, {:.3f}]".format(*mean["interval"])
    return f"{mean['value']:.3f}{ends}"


if __name__ == "__main__":
    main()
