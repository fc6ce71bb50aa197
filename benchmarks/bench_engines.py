"""Measures all engines of the CPU side by side on six networks at two batch sizes.

``python benchmarks/bench_engines.py`` takes all networks; names choose some. Each network and batch size is one
``passsearch bench`` with a file of its own in ``benchmarks/results/engines/bench``; files that are there are not
measured again, so an interrupted run goes on. At batch size 1, ``relax:tuned`` is the pipeline that a search found
(``against_engines.py``, whose files hold it). ``--table`` prints Markdown from the files. ``--plan`` prints what would
be measured.

TVM's default pipeline of Relax has no schedules: it takes seconds to minutes an inference. It is measured at batch size
1 of the networks in ``DEFAULT_AT_ONE`` only; elsewhere its row says why there is no value.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import passsearch
from passsearch.errors import PassSearchError

ENGINES = Path(__file__).parent / "results" / "engines"
RESULTS = ENGINES / "bench"
NETWORKS: Mapping[str, str] = {
    "resnet50": "nhwc-schedule-cpu",
    "mobilenet_v2": "nhwc-schedule-cpu",
    "vgg19": "nhwc-schedule-cpu",
    "bert_base": "schedule-cpu",
    "gpt2": "schedule-cpu",
    "ssd_mobilenet": "nhwc-schedule-cpu",
}
"""The sequence of the catalog that stands for TVM with passsearch, by network."""
BATCHES = (1, 8)
OTHERS = ("onnxruntime", "openvino", "openvino:own", "inductor", "torch", "xla")
DEFAULT, RELAY, TUNED = "relax:default", "relay:O3", "relax:tuned"
DEFAULT_AT_ONE = frozenset({"resnet50", "mobilenet_v2", "ssd_mobilenet"})
TOO_SLOW = "left out: without schedules an inference takes tens of seconds to minutes"


def engines(network: str, batch: int) -> list[str]:
    """Return the engines of one measurement, TVM's with the catalog's best sequence first."""
    pipelines = [f"relax:{NETWORKS[network]}", *([tuned] if (tuned := tuned_engine(network, batch)) else []), RELAY]
    return [*pipelines, *([DEFAULT] if has_default(network, batch) else []), *OTHERS]


def tuned_engine(network: str, batch: int) -> str:
    """Return the pipeline that a search found at batch size 1 as an engine; empty if it found none."""
    file = ENGINES / f"{network}.json"
    document = json.loads(file.read_text()) if file.exists() and batch == 1 else {}
    is_composed = (document.get("search") or {}).get("source", {}).get("kind") == "composition"
    return f"relax:{document['engines']['tvm tuned']['pipeline']}" if is_composed else ""


def has_default(network: str, batch: int) -> bool:
    """Return True if TVM's default pipeline is measured."""
    return batch == 1 and network in DEFAULT_AT_ONE


def measure(network: str, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the document of one network at one batch size."""
    document = dict(
        passsearch.bench(
            f"zoo:{network}",
            engines(network, batch),
            batch=batch,
            baseline="onnxruntime",
            requests=[1, 2, 4],
            own_threads=options.own_threads,
            processes=options.processes,
            rounds=options.rounds,
            progress=True,
        )
    )
    for row in document["rows"]:
        row["engine"] = TUNED if row["engine"] == tuned_engine(network, batch) else row["engine"]
    if not has_default(network, batch):
        document["rows"] = [*document["rows"], {"engine": DEFAULT, "batch": batch, "failure": TOO_SLOW}]
    return document


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
        f"{row['memory_bytes'] / 1e6:.0f}",
    )


def _interval(value: float, interval: Sequence[float] | None) -> str:
    return f"{value:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=tuple(NETWORKS), help="(%(default)s)")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="(%(default)s)")
    parser.add_argument("--processes", type=int, default=4, help="of each engine (%(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="of each process (%(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the files (%(default)s)")
    parser.add_argument("--own-threads", action="store_true", help="also with each engine's own number of threads")
    parser.add_argument("--plan", action="store_true", help="print what would be measured, and do nothing")
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.networks if name not in NETWORKS]:
        parser.error(f"unknown network {unknown[0]}; choose from {', '.join(NETWORKS)}")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, and print the table; return the exit status."""
    options = parse(argv)
    options.results.mkdir(parents=True, exist_ok=True)
    is_complete, files = True, []
    for batch in map(int, options.batches.split(",")):
        for network in options.networks:
            file = options.results / f"{network}-{batch}.json"
            files.append(file)
            if file.exists() or options.table:
                continue
            if options.plan:
                print(f"{network}, batch {batch}: {', '.join(engines(network, batch))}")
                continue
            try:
                document = measure(network, batch, options)
            except PassSearchError as error:
                print(f"{network}, batch {batch}: {error}", file=sys.stderr)
                is_complete = False
                continue
            file.write_text(json.dumps(document, indent=1) + "\n")
    if not options.plan:
        print(table([json.loads(file.read_text()) for file in files if file.exists()]))
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
