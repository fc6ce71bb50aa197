"""Measures how engines gain from repeated blocks: ``python benchmarks/depth.py [--minutes 18] [--draw FOLDER]``.

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
from colours import COLOURS

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
TVM = "TVM, catalog"
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
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="draw depth-BLOCK.svg there, and measure nothing")
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    document: dict[str, Any] = {"networks": {}}
    if arguments.out.exists():
        document = json.loads(arguments.out.read_text())
    if arguments.draw:
        for block in BLOCKS:
            (arguments.draw / f"depth-{block}.svg").write_text(picture(_by_depth(document, block), block) + "\n")
        return
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
    """Return a table for each block, and one of what a further block costs, as Markdown."""
    found = {block: _by_depth(document, block) for block in BLOCKS}
    return "\n\n".join([*(_table(networks, block) for block, networks in found.items() if networks), _costs(found)])


def _by_depth(document: Mapping[str, Any], block: str) -> dict[int, Any]:
    """Return the networks of a block by depth. TVM's row has the same name for all blocks."""
    networks = {}
    for name, network in document["networks"].items():
        if name.startswith(block):
            rows = {TVM if row["engine"] == ENGINES[block] else row["engine"]: row for row in network["rows"]}
            networks[int(name.rpartition("x")[2])] = {"rows": rows, "kernels": network["kernels"]}
    return dict(sorted(networks.items()))


def _table(networks: Mapping[int, Any], block: str) -> str:
    engines = list(dict.fromkeys(engine for network in networks.values() for engine in network["rows"]))
    lines = [
        f"| {block}: depth | " + " | ".join(f"{engine}: blocks/s | compile s" for engine in engines) + " | kernels |",
        "| ---: |" + " ---: | ---: |" * len(engines) + " ---: |",
    ]
    for depth, network in networks.items():
        cells = [cell for engine in engines for cell in _cells(network["rows"].get(engine), depth)]
        kernels = network["kernels"]
        shared = f"{kernels['different']} in {kernels['calls']} calls" if "calls" in kernels else "–"
        lines.append(f"| {depth} | {' | '.join(cells)} | {shared} |")
    return "\n".join(lines)


def _cells(row: Mapping[str, Any] | None, depth: int) -> list[str]:
    if row is None or "failure" in row:
        return ["–", "–"]
    mean = mean_with_interval([depth / seconds for seconds in row["process_fastest_s"]])
    ends = "" if mean["interval"] is None else " [{:.0f}, {:.0f}]".format(*mean["interval"])
    return [f"{mean['value']:.0f}{ends}", f"{row['compile_s']:.2f}"]


def _costs(found: Mapping[str, Mapping[int, Any]]) -> str:
    """Return a line for each engine: milliseconds of a further block, and seconds to compile it."""
    blocks = [block for block, networks in found.items() if len(networks) > 1]
    titles = [f"{block}, ms a block | seconds to compile" for block in blocks]
    lines = [f"| engine | {' | '.join(titles)} |", "| --- |" + " ---: | ---: |" * len(blocks)]
    engines = dict.fromkeys(name for block in blocks for network in found[block].values() for name in network["rows"])
    for engine in engines:
        cells = [cell for block in blocks for cell in _cost(found[block], engine)]
        lines.append(f"| {engine} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cost(networks: Mapping[int, Any], engine: str) -> list[str]:
    rows = {depth: network["rows"][engine] for depth, network in networks.items() if engine in network["rows"]}
    good = {depth: row for depth, row in rows.items() if "failure" not in row}
    if len(good) < 2:
        return ["–", "–"]
    turns = zip(*(row["process_fastest_s"] for row in good.values()), strict=False)
    # By process, so that the slope has an interval; relative errors, as deep networks would decide alone otherwise.
    milliseconds = mean_with_interval([1e3 * _slope(list(good), times) for times in turns])
    ends = "" if milliseconds["interval"] is None else " [{:.3f}, {:.3f}]".format(*milliseconds["interval"])
    compile_s = _slope(list(good), [row["compile_s"] for row in good.values()])
    return [f"{milliseconds['value']:.3f}{ends}", f"{compile_s:.3f}"]


def picture(networks: Mapping[int, Any], block: str) -> str:
    """Return the blocks a second of every engine against depth, as SVG."""
    from passsearch.report.charts import Chart, chart_svg
    from passsearch.report.charts.chart import Axis, Point, Series

    lines = []
    for engine, colour in zip((TVM, *OTHERS), COLOURS, strict=False):
        points = []
        for depth, network in networks.items():
            row = network["rows"].get(engine, {"failure": "not measured"})
            if "failure" not in row:
                value = mean_with_interval([depth / seconds for seconds in row["process_fastest_s"]])["value"]
                points.append(Point(depth, value, f"{engine}, {depth}: {value:.0f}"))
        lines.append(Series(engine, tuple(points), kind="line", colour=colour))
    axes = Axis("blocks in the network", is_log=True), Axis("blocks a second")
    return chart_svg(Chart(f"Throughput of {block} blocks by depth", *axes, tuple(lines)))


def _slope(depths: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of the line with the least relative errors."""
    return float(np.polyfit(depths, values, 1, w=1 / np.asarray(values))[0])


if __name__ == "__main__":
    main()
