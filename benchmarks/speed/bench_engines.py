"""Measures all engines of the CPU side by side on eight networks at two batch sizes.

``python -m benchmarks.speed.bench_engines`` takes all networks; names choose some. Each network is one ``passsearch
bench`` with a file of its own in ``benchmarks/results/engines/bench``; its batch sizes are measured in turns. Files
that are there are not measured again, so an interrupted run goes on. ``--tuned 'runs/engines/{network}'`` adds the
winner of a run on the network with batch size 1 as ``relax:tuned``, at all batch sizes. ``--table``, ``--ratios`` and
``--friction`` print Markdown from the files. ``--plan`` prints what would be measured.

TVM's default pipeline of Relax has no schedules, and takes seconds to minutes an inference, so it is left out.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import passsearch
from passsearch.errors import PassSearchError

RESULTS = Path(__file__).parents[1] / "results" / "engines" / "bench"
NETWORKS: Mapping[str, str] = {
    "resnet50": "winograd-schedule-cpu",
    "mobilenet_v2": "nhwc-schedule-cpu",
    "vgg19": "winograd-schedule-cpu",
    "bert_base": "schedule-cpu",
    "vit": "schedule-cpu",
    "gpt2": "schedule-cpu",
    "ssd_mobilenet": "nhwc-schedule-cpu",
    "unet": "winograd-schedule-cpu",
}
"""The sequence of the catalog that stands for TVM with passsearch, by network."""
BATCHES = (1, 8)
OTHERS = ("onnxruntime", "openvino", "openvino:own", "inductor", "torch", "xla")
RELAY, TUNED = "relay:O3", "relax:tuned"
CATALOG = "TVM, catalog"
"""Name of the row that has another sequence for each network."""
DRAWN = (CATALOG, "onnxruntime", "openvino", "inductor")
"""Engines in the picture of the friction; the table has all."""
DEFAULT = {"engine": "relax:default", "failure": "left out: without schedules an inference takes seconds to minutes"}
REQUESTS = (2,)


def engines(network: str, *, tuned: str) -> list[str]:
    """Return the engines of one measurement, TVM's with the catalog's best sequence first."""
    run = tuned.format(network=network)
    pipelines = [f"relax:{NETWORKS[network]}", *([f"relax:{run}"] if run and Path(run).exists() else []), RELAY]
    return [*pipelines, *OTHERS]


def measure(network: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the document of one network."""
    batches = list(map(int, options.batches.split(",")))
    document = dict(
        passsearch.bench(
            f"zoo:{network}",
            engines(network, tuned=options.tuned),
            batches=batches,
            baseline="onnxruntime",
            requests=REQUESTS,
            own_threads=options.own_threads,
            processes=options.processes,
            rounds=options.rounds,
            progress=True,
        )
    )
    names = {f"relax:{options.tuned.format(network=network)}": TUNED}
    rows = [{**row, "engine": names.get(row["engine"], row["engine"])} for row in document["rows"]]
    friction = {names.get(engine, engine): value for engine, value in document.get("friction", {}).items()}
    return {**document, "rows": [*rows, *({**DEFAULT, "batch": batch} for batch in batches)], "friction": friction}


def table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network, batch size and engine."""
    titles = ("network", "batch", "engine", "latency ms", "of ONNX Runtime", "items/s, 2 at once", "compile s", "MB")
    lines = [titles, ("---", "---:", "---", *["---:"] * 5)]
    lines += [_cells(document["model"]["name"], row) for document in documents for row in document["rows"]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(network: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    name = (network, str(row["batch"]), row["engine"])
    if "failure" in row:
        return (*name, row["failure"], "", "", "", "")
    ratio, rate = row.get("ratio", {}).get("by fastest"), row["together"]["2"].get("inferences_per_s")
    return (
        *name,
        f"{1e3 * row['latency_s']['median']:.2f}",
        _interval(ratio["ratio"], ratio["interval"]) if ratio else "–",
        f"{row['batch'] * rate['median']:.1f}" if rate else "–",
        f"{row['compile_s']:.1f}",
        "–" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 1e6:.0f}",
    )


def ratio_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network and batch size, the throughput of each engine by ONNX Runtime's."""
    titles = ("network", "batch", CATALOG, "TVM, tuned", RELAY, *OTHERS[1:], "ONNX Runtime, ms")
    lines = [titles, ("---", "---:", *["---"] * (len(titles) - 3), "---:")]
    for document in documents:
        name = document["model"]["name"]
        for batch in document["batches"]:
            rows = {row["engine"]: row for row in document["rows"] if row["batch"] == batch}
            names = (f"relax:{NETWORKS[name]}", TUNED, RELAY, *OTHERS[1:])
            cells = [_ratio_cell(rows.get(engine)) for engine in names]
            lines.append((name, str(batch), *cells, f"{1e3 * rows[OTHERS[0]]['latency_s']['median']:.1f}"))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _ratio_cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    ratio = row.get("ratio", {}).get("by fastest")
    return _interval(ratio["ratio"], ratio["interval"]) if ratio else str(row.get("failure", "–"))


def friction_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each engine, a column for each network."""
    friction = {document["model"]["name"]: _friction(document) for document in documents}
    names = dict.fromkeys(name for values in friction.values() for name in values)
    lines = [("engine", *friction), ("---", *["---:"] * len(friction))]
    for name in names:
        cells = (values.get(name) for values in friction.values())
        lines.append((name, *(_interval(it["value"], it["interval"]) if it else "–" for it in cells)))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def friction_picture(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the friction of some engines by network as SVG, green or red where it is certainly not 1."""
    from passsearch.report.charts import chart_svg, ratio_chart
    from passsearch.report.charts.chart import BASELINE, BEST, OTHER

    rows, colours = [], []
    for document in documents:
        for engine, value in _friction(document).items():
            if engine in DRAWN:
                low, high = value["interval"] or (-math.inf, math.inf)
                ratio = {"ratio": value["value"], "interval": value["interval"]}
                rows.append((f"{document['model']['name']}: {engine}", ratio))
                colours.append(BEST if high < 1 else BASELINE if low > 1 else OTHER)
    title = "friction: below 1 a larger batch makes an item cheaper"
    return chart_svg(ratio_chart("Friction", title, rows, colours=colours))


def _friction(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the friction by engine; TVM's sequences have one name."""
    own = f"relax:{NETWORKS[document['model']['name']]}"
    return {CATALOG if name == own else name: value for name, value in document["friction"].items()}


def _interval(value: float, interval: Sequence[float] | None) -> str:
    return f"{value:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=tuple(NETWORKS), help="(%(default)s)")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="(%(default)s)")
    parser.add_argument("--processes", type=int, default=3, help="of each engine (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of each process (%(default)s)")
    parser.add_argument("--tuned", default="", metavar="RUN", help="run folder; {network} is the network's name")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the files (%(default)s)")
    parser.add_argument("--own-threads", action="store_true", help="also with each engine's own number of threads")
    parser.add_argument("--plan", action="store_true", help="print what would be measured, and do nothing")
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    parser.add_argument("--ratios", action="store_true", help="print the throughputs only, and measure nothing")
    parser.add_argument("--friction", action="store_true", help="print the friction as Markdown, and measure nothing")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="with --friction: write a picture of it as SVG")
    options = parser.parse_args(argv)
    if options.draw and not options.friction:
        parser.error("--draw draws the friction; add --friction")
    if unknown := [name for name in options.networks if name not in NETWORKS]:
        parser.error(f"unknown network {unknown[0]}; choose from {', '.join(NETWORKS)}")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, and print the tables; return the exit status."""
    options = parse(argv)
    files = {network: options.results / f"{network}.json" for network in options.networks}
    missing = [network for network, file in files.items() if not file.exists()]
    if options.plan:
        print("\n".join(f"{network}: {', '.join(engines(network, tuned=options.tuned))}" for network in missing))
        return 0
    printed = ratio_table if options.ratios else friction_table if options.friction else table
    reads = options.table or options.ratios or options.friction
    measured = [reads or _measured(network, files[network], options) for network in missing]
    documents = [json.loads(file.read_text()) for file in files.values() if file.exists()]
    print(printed(documents))
    if options.friction and options.draw:
        options.draw.write_text(friction_picture(documents) + "\n")
    return 0 if all(measured) else 1


def _measured(network: str, file: Path, options: argparse.Namespace) -> bool:
    """Measure one network and write its file; return False if that cannot be."""
    try:
        document = measure(network, options)
    except PassSearchError as error:
        print(f"{network}: {error}", file=sys.stderr)
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n")
    return True


if __name__ == "__main__":
    sys.exit(main())
