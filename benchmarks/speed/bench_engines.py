"""Measures all engines of the CPU side by side on eight networks at two batch sizes.

``python -m benchmarks.speed.bench_engines`` takes all networks; names choose some. Each network is one ``passsearch
bench`` with a file of its own in ``benchmarks/results/engines/bench``; its batch sizes are measured in turns. Files
that are there are not measured again, so an interrupted run goes on. ``--tuned 'runs/engines/{network}'`` adds the
winner of a run on the network with batch size 1 as ``relax:tuned``, at all batch sizes. ``--table`` and ``--friction``
print Markdown from the files.

TVM's default pipeline of Relax has no schedules, and takes seconds to minutes an inference, so it is left out.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import passsearch
from benchmarks.common import RESULTS, markdown, note, options, ratio_text, read, write
from passsearch.errors import PassSearchError

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
OTHERS = ("onnxruntime", "openvino", "openvino:own", "inductor", "torch", "xla")
RELAY, TUNED = "relay:O3", "relax:tuned"
CATALOG = "TVM, catalog"
"""Name of the row that has another sequence for each network."""
DRAWN = (CATALOG, "onnxruntime", "openvino", "inductor")
"""Engines in the picture of the friction; the table has all."""


def engines(network: str, *, tuned: str) -> list[str]:
    """Return the engines of one measurement, TVM's with the catalog's best sequence first."""
    run = tuned.format(network=network)
    pipelines = [f"relax:{NETWORKS[network]}", *([f"relax:{run}"] if run and Path(run).exists() else []), RELAY]
    return [*pipelines, *OTHERS]


def measure(network: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the document of one network."""
    document = passsearch.bench(
        f"zoo:{network}",
        engines(network, tuned=arguments.tuned),
        batches=[*map(int, arguments.batches.split(","))],
        baseline="onnxruntime",
        requests=(2,),
        processes=arguments.processes,
        rounds=arguments.rounds,
        progress=True,
    )
    names = {f"relax:{arguments.tuned.format(network=network)}": TUNED}
    rows = [{**row, "engine": names.get(row["engine"], row["engine"])} for row in document["rows"]]
    friction = {names.get(engine, engine): value for engine, value in document.get("friction", {}).items()}
    return {**document, "rows": rows, "friction": friction}


def table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network and batch size, the throughput of each engine by ONNX Runtime's."""
    lines = []
    for document in documents:
        name = document["model"]["name"]
        for batch in document["batches"]:
            rows = {row["engine"]: row for row in document["rows"] if row["batch"] == batch}
            cells = [_cell(rows.get(engine)) for engine in (f"relax:{NETWORKS[name]}", TUNED, RELAY, *OTHERS[1:])]
            median_s = rows.get(OTHERS[0], {}).get("latency_s", {}).get("median", math.nan)
            lines.append((name, batch, *cells, f"{1e3 * median_s:.1f}"))
    return markdown(("network", "batch", CATALOG, "TVM, tuned", RELAY, *OTHERS[1:], "ONNX Runtime, ms"), lines)


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    ratio = row.get("ratio", {}).get("by fastest")
    return ratio_text(ratio) if ratio else str(row.get("failure", "–"))


def friction_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each engine, a column for each network."""
    friction = {document["model"]["name"]: _friction(document) for document in documents}
    names = dict.fromkeys(name for values in friction.values() for name in values)
    lines = [(name, *(ratio_text(values.get(name)) for values in friction.values())) for name in names]
    return markdown(("engine", *friction), lines)


def friction_picture(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the friction of some engines by network as SVG, green or red where it is certainly not 1."""
    from passsearch.report.charts import chart_svg, ratio_chart
    from passsearch.report.charts.chart import BASELINE, BEST, OTHER
    from passsearch.results import StatedRatio

    rows, colours = [], []
    for document in documents:
        for engine, value in _friction(document).items():
            if engine in DRAWN:
                low, high = value["interval"] or (-math.inf, math.inf)
                ratio = StatedRatio(value["value"], value["interval"])
                rows.append((f"{document['model']['name']}: {engine}", ratio))
                colours.append(BEST if high < 1 else BASELINE if low > 1 else OTHER)
    title = "friction: below 1 a larger batch makes an item cheaper"
    return chart_svg(ratio_chart("Friction", title, rows, colours=colours))


def _friction(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the friction by engine; TVM's sequences have one name."""
    own = f"relax:{NETWORKS[document['model']['name']]}"
    return {CATALOG if name == own else name: value for name, value in document["friction"].items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, and print a table; return the exit status."""
    arguments = options(
        __doc__,
        ("networks", tuple(NETWORKS)),
        argv=argv,
        batches="1,8",
        processes=(3, "of each engine"),
        rounds=(3, "of each process"),
        tuned=("", "run folder; {network} is the network's name"),
        results=(RESULTS / "engines" / "bench", "folder of the files"),
        table=(False, "measure nothing"),
        friction=(False, "print the friction, and measure nothing"),
        draw=(Path, "with --friction: write a picture of it as SVG"),
    )
    files = {network: arguments.results / f"{network}.json" for network in arguments.networks}
    is_complete = True
    for network, file in files.items():
        if file.exists() or arguments.table or arguments.friction:
            continue
        try:
            write(file, measure(network, arguments))
        except PassSearchError as error:
            note(f"{network}: {error}")
            is_complete = False
    documents = [read(file) for file in files.values() if file.exists()]
    print(friction_table(documents) if arguments.friction else table(documents))
    if arguments.draw:
        arguments.draw.write_text(friction_picture(documents) + "\n")
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
