"""Makes the paper's tables and figures from the results of ``run.py``: ``python tables.py --out docs/evidence/paper``.

The paper's own numbers stand beside the measured ones. Prints Markdown; with ``--out`` also writes CSV files and
figures 2a, 2b and 3 there.
"""

import argparse
import csv
import json
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from cells import PAPER, Row, Table, markdown, share, span
from compile_times import against_o3, attributed, floors, graph_passes, levels, passes
from figures import SELECTIONS, draw_figures
from networks import NETWORKS
from selections import paper_candidates

from passsearch.catalog import CatalogEntry, load

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"

BUILDS = ("O3", "AS-best", "fastest")
"""-O3, the quickest compile that keeps -O3's throughput, and the highest throughput."""

FEATURES = (
    "explicit_padding",
    "transpose",
    "sibling_conv2d",
    "sibling_dense",
    "dense",
    "batch_matmul",
    "dropout",
    "activation_softmax",
    "activation_gelu",
    "activation_relu6",
    "constant_division",
    "common_subexpression",
)
"""Features of the graphs that the table shows, in this order."""

LENGTH = 8
"""Number of passes in the sequences that are counted: as many as the paper's longest sequence has."""

MIN_APPLICATIONS = 10
"""Applications without effect, on the networks of a class, after which the pass's place in the class is contradicted.

Fewer could be chance: a pass that needs a rare order of others before it acts seldom.
"""


def main(command_line: Sequence[str] | None = None) -> None:
    """Print the tables, and write them to files if a folder is given."""
    parser = argparse.ArgumentParser(description="Make the paper's tables and figures from the results of run.py.")
    parser.add_argument("--results", type=Path, default=RESULTS / "relay" / "cf22", help="folder of run.py's results")
    parser.add_argument("--out", type=Path, help="folder for CSV files and figures; figures need matplotlib")
    arguments = parser.parse_args(command_line)
    folder: Path = arguments.results
    documents = read(folder)
    if not documents:
        sys.exit(f"No result of `run.py` in `{folder}`; --results names its folder.")
    graphs, runs = (fingerprints, effects, acts, contradictions), (against_o3, baselines, selections)
    compiles = (graph_passes, levels, floors, passes)
    tables = [make(documents) for make in (table3, *graphs, *runs, *compiles, kernels, table5, table6)]
    machines = [documents, *(read(each) for each in sorted(folder.glob("*/")) if each.is_dir())]
    tables += [make(machines) for make in (cf22, permuted, attributed, other_baselines)]
    for name, heads, rows in (each for each in tables if each[2]):
        print(f"\n<!-- {name} -->\n\n{markdown(heads, rows)}")
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            with (arguments.out / f"{name}.csv").open("w", newline="") as sink:
                csv.writer(sink, lineterminator="\n").writerows([heads, *rows])
    if arguments.out and find_spec("matplotlib") is None:
        sys.exit(f"The CSV files are in `{arguments.out}`; the figures need matplotlib: pip install matplotlib")
    if arguments.out:
        draw_figures(documents, PAPER["claims"], arguments.out)


def read(folder: Path) -> dict[str, Any]:
    """Return the results of one machine by network, in the order of the paper."""
    files = (folder / f"{name}.json" for name in NETWORKS)
    return {file.stem: json.loads(file.read_text()) for file in files if file.exists()}


def fingerprints(documents: Mapping[str, Any]) -> Table:
    """Return the features and classes of each network's graph, and the number of passes they leave to a search."""
    heads = [
        "network",
        "agrees to",
        "classes",
        *(name.replace("_", " ") for name in FEATURES),
        "passes",
        "choices",
        f"sequences of {LENGTH}",
    ]
    rows = []
    for name, document in documents.items():
        analysis, agreement = document.get("analyze"), document.get("agree", {})
        if analysis is None:
            continue
        passes, choices = (f"{analysis[key]['all']} → {analysis[key]['classes']}" for key in ("passes", "choices"))
        disagrees = "disagrees" if agreement else "–"
        deviation = f"{max(agreement['deviations']):.1e}" if agreement.get("agrees") else disagrees
        counts = [str(analysis["features"].get(feature, 0)) for feature in FEATURES]
        sequences = " → ".join(f"{analysis['choices'][key] ** LENGTH:.1e}" for key in ("all", "classes"))
        rows.append([name, deviation, ", ".join(analysis["classes"]), *counts, passes, choices, sequences])
    return "fingerprints", heads, rows


def effects(documents: Mapping[str, Any]) -> Table:
    """Return the effect of every pass of table 4 on the networks as imported, after the passes it needs."""
    by_network = {name: document["analyze"]["effects"] for name, document in documents.items() if "analyze" in document}
    names = list(dict.fromkeys(step for words in by_network.values() for step in words))
    cells = {"changes": "yes", "nothing": "–"}
    rows = [[step, *(cells.get(words[step], words[step]) for words in by_network.values())] for step in names]
    return "effects", ["pass", *by_network], rows


def acts(documents: Mapping[str, Any]) -> Table:
    """Return on how many of the IRs in all searches each pass of the paper changed something."""
    by_network = {name: document["acts"]["passes"] for name, document in documents.items() if "acts" in document}
    names = [name for name, *_ in effects(documents)[2] if any(name in counts for counts in by_network.values())]
    rows = [[name, *(changed(counts.get(name)) for counts in by_network.values())] for name in names]
    return "acts", ["pass", *by_network], rows


def changed(counts: Mapping[str, int] | None) -> str:
    """Return the cell of one pass on one network: ``3 of 40``, and how often it failed."""
    if not counts:
        return "not searched"
    failed = f", {counts['failed']} failed" if counts.get("failed") else ""
    return f"{counts.get('changed', 0)} of {sum(counts.values())}{failed}"


def contradictions(documents: Mapping[str, Any]) -> Table:
    """Return the places of passes in table 4 that the measurements contradict, with the evidence.

    The catalog has the same evidence under ``contradicted``.
    """
    analyzed = {name: document for name, document in documents.items() if "analyze" in document}
    dialects = {document["analyze"]["toolchain"]["dialect"] for document in analyzed.values()}
    rows = [
        [entry.name, category, reason]
        for name in sorted(dialects)
        for entry in load(name).entries.values()
        for category in entry.paper
        if (reason := evidence(entry, category, analyzed))
    ]
    return "contradictions", ["pass", "class", "evidence"], rows


def evidence(entry: CatalogEntry, category: str, documents: Mapping[str, Any]) -> str:
    """Return the evidence that a pass has no place in a class; empty if there is none.

    Evidence is that the pass fails on all networks of the class, or was applied to them without any effect.
    """
    members = {name: each for name, each in sorted(documents.items()) if category in each["analyze"]["classes"]}
    counts = Counter[str]()
    for document in members.values():
        effect = document["analyze"]["effects"][entry.name]
        counts.update([{"changes": "changed", "nothing": "idle"}.get(effect, "failed")])
        counts.update(document.get("acts", {"passes": {}})["passes"].get(entry.name, {}))
    if counts["changed"] or not members:
        return ""
    networks, no_ops = ", ".join(members), counts["idle"]
    if not no_ops:
        return f"fails on {networks}"
    return f"changed nothing in {no_ops} applications on {networks}" if no_ops >= MIN_APPLICATIONS else ""


def selections(documents: Mapping[str, Any]) -> Table:
    """Return figures 2a, 2b and 3 as numbers, and table 5: the passes and the measurements of every selection."""
    heads = ["network", "selection", "passes, in order", "put in", "throughput / -O3", "throughput", "latency"]
    heads += ["compiles in", "of that its passes", "-O3 against itself"]
    rows = [
        [
            name,
            selection,
            *selection_cells(document["compare"]["rows"][selection], put_in=put_in(name, document, selection)),
            f"within {share(document['compare']['noise_floor'])}",
        ]
        for name, document in documents.items()
        for selection in ("O3", *SELECTIONS)
        if selection in document.get("compare", {}).get("rows", {})
    ]
    return "selections", heads, rows


def baselines(documents: Mapping[str, Any]) -> Table:
    """Return -O3's throughput and latency here and in the paper, which used other machines.

    Ratios in the other tables refer to these numbers.
    """
    rows = []
    for name, document in documents.items():
        row = document.get("compare", {}).get("rows", {}).get("O3")
        paper = PAPER["rtx2080_baseline"].get(name)
        cells = [f"{paper['throughput_per_s']:.2f} /s", f"{paper['latency_ms']:.2f} ms"] if paper else ["–", "–"]
        rows.append([name, *(selection_cells(row, put_in="–")[3:5] if row else ["–", "–"]), *cells])
    heads = ["network", "-O3 throughput", "-O3 latency", "paper's throughput, RTX 2080", "paper's latency, RTX 2080"]
    return "baselines", heads, rows


def steps_of(machines: Sequence[Mapping[str, Any]], step: str) -> Iterator[tuple[Row, Mapping[str, Any]]]:
    """Yield device and network, as cells, with the result of one step, wherever it was measured."""
    for documents in machines:
        for name, document in documents.items():
            if step in document:
                yield [device_name(document[step]), name], document[step]


def cf22(machines: Sequence[Mapping[str, Any]]) -> Table:
    """Return throughputs by the paper's protocol, which times each selection by itself, in one process.

    They have no interval: runs in sequence share every drift of the machine.
    """
    rows = []
    for cells, measured in steps_of(machines, "cf22"):
        ratios = [span(measured["rows"].get(each, {}).get("ratio")) for each in SELECTIONS]
        rows.append([*cells, str(measured.get("runs", 1000)), *ratios])
    return "cf22", ["device", "network", "runs", *SELECTIONS], rows


def permuted(machines: Sequence[Mapping[str, Any]]) -> Table:
    """Return the spread of each selection over its orders and build levels, and its best one measured again."""
    heads = ["device", "network", "selection", "orders and levels", "failed", "binaries"]
    heads += ["throughput / -O3, one process", "best, interleaved", "its level", "compiles in", "its passes, in order"]
    rows = []
    for cells, step in steps_of(machines, "permute"):
        for selection, tried in step["rows"].items():
            best = step["best"].get(f"{selection} best")
            rows.append([*cells, selection, *spread_cells(tried), *best_cells(best)])
    return "permuted", heads, rows


def spread_cells(tried: Sequence[Mapping[str, Any]]) -> Row:
    """Return the number of candidates, failures and binaries, and lowest, median and highest throughput."""
    ratios = sorted(row["ratio"]["ratio"] for row in tried if "ratio" in row)
    binaries = {row["binary"] for row in tried if "binary" in row}
    spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}, median {median(ratios):.3f}" if ratios else "–"
    return [str(len(tried)), str(sum("failure" in row for row in tried)), str(len(binaries)), spread]


def best_cells(best: Mapping[str, Any] | None) -> Row:
    """Return ratio, build level, compile time and passes of the best order of a selection."""
    if best is None:
        return ["–"] * 4
    level, steps = str(best["build"]["opt_level"]), best["pipeline"].replace(",", ", ")
    return [span(best["ratio"]), level, f"{best['compile_s']:.1f} s", steps]


def other_baselines(machines: Sequence[Mapping[str, Any]]) -> Table:
    """Return the throughput of the catalog's baselines that are not levels of TVM, beside the searches' winners."""
    rows = [
        [*cells, name, span(row["ratio"]), f"{1e3 * row['latency_s']['median']:.1f} ms"]
        for cells, step in steps_of(machines, "attribute")
        for name, row in step["rows"].items()
    ]
    return "other-baselines", ["device", "network", "pipeline", "throughput / -O3", "latency"], rows


def put_in(name: str, document: Mapping[str, Any], selection: str) -> str:
    """Return the passes that a selection of the paper needs and does not have, so that they were put into it."""
    if "analyze" not in document:  # the selections are of the classes
        return "–"
    dialect = document["compare"]["toolchain"]["dialect"]
    paper = paper_candidates(name, document["analyze"]["classes"], catalog=load(dialect))
    for candidate in (each for each in paper if each.name == selection):
        own = Counter(str(step) for step in candidate.pipeline.passes)
        return ", ".join((Counter(document["compare"]["rows"][selection]["steps"]) - own).elements()) or "nothing"
    return "–"


def selection_cells(row: Mapping[str, Any], *, put_in: str) -> Row:
    """Return the cells of one selection, with the reason where there is no measurement.

    Args:
        row: Its measurement.
        put_in: Passes that were put into it.
    """
    steps = ", ".join(row.get("steps", [])) or "TVM's own"
    if "failure" in row:
        failure = row["failure"]
        reason = f"{failure['kind']}: {failure['reason']}".replace("|", "/")
        return [steps, put_in, textwrap.shorten(reason, 160, placeholder=" …"), "–", "–", "–", "–"]
    latency_s = row["latency_s"]["median"]
    numbers = [f"{1 / latency_s:.2f} /s", f"{1e3 * latency_s:.1f} ms", f"{row['compile_s']:.1f} s"]
    numbers.append(f"{row['apply_s']:.1f} s" if "apply_s" in row else "–")
    note = " (one process)" if row.get("unavailable", {}).get("interval") else ""
    return [steps, put_in, span(row["ratio"]) + note, *numbers]


def kernels(documents: Mapping[str, Any]) -> Table:
    """Return the kernels that take most of the latency, of -O3 and of the searches' results."""
    rows = [
        [name, selection, f"{sum(kernel['us'] for kernel in costs['kernels']) / 1e3:.1f} ms", longest(costs["kernels"])]
        for name, document in documents.items()
        for selection, costs in document.get("profile", {}).items()
        if selection in BUILDS
    ]
    return "kernels", ["network", "build", "kernels together", "the five longest kinds"], rows


def longest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the first five kernels with their number of calls and their share."""
    return ", ".join(f"`{row['kernel']}` x{row['calls']} {100 * row['share']:.0f} %" for row in rows[:5])


def table3(documents: Mapping[str, Any]) -> Table:
    """Return the networks of table 3 and of section 5.2, and what they are built from here."""
    rows = [[*row, ", ".join(name for name in names if name in documents) or "–"] for *row, names in PAPER["table3"]]
    return "table3", ["paper's network", "framework", "task", "here"], rows


def table5(documents: Mapping[str, Any]) -> Table:
    """Return the sequences of table 5, what had to be put into each of them, and their throughput here."""
    rows = []
    name = "ssd_resnet50_pytorch"
    document = documents.get(name, {})
    compared = document.get("compare", {}).get("rows", {})
    for selection, printed in PAPER["table5"].items():
        row = compared.get(selection, {})
        # The paper prints no measurement of a sequence: its figures show the best of several orders.
        _, inserted, cell = selection_cells(row, put_in=put_in(name, document, selection))[:3] if row else "–––"
        rows.append([selection, ", ".join(printed), inserted, cell])
    return "table5", ["selection", "the paper's sequence", "put in front here", "throughput / -O3 here"], rows


def table6(documents: Mapping[str, Any]) -> Table:
    """Return power, temperature and memory of -O3 and of AS-best, beside the paper's on its GPUs."""
    heads = ["device", "network", "selection", "power W (median, max)", "temperature °C", "memory MiB"]
    paper = [
        [
            f"{device} (paper)",
            f"{network} {framework}",
            selection,
            *(f"{a}, {b}" for a, b in zip(numbers[::2], numbers[1::2], strict=True)),
        ]
        for device, network, framework, selection, *numbers in PAPER["table6"]
    ]
    rows = []
    for name, document in documents.items():
        comparison = document.get("compare", {})
        for selection in ("O3", "AS-best"):
            row = comparison.get("rows", {}).get(selection)
            if row and "failure" not in row:
                rows.append([device_name(comparison), name, selection, *consumption_cells(row)])
    return "table6", heads, [*rows, *paper]


def consumption_cells(row: Mapping[str, Any]) -> Row:
    """Return power, temperature and memory of one row, with the reason where a value could not be read."""
    reasons = row.get("unavailable", {})
    power, temperature = (
        f"{row[key]['median']:.0f}, {row[key]['max']:.0f}" if row.get(key) else f"– ({reasons.get(key, 'not read')})"
        for key in ("power_w", "temperature_c")
    )
    memory = row.get("memory_bytes") or {}
    parts = [
        f"{kind.replace('_', ' ')} {memory[kind] / 2**20:.0f}"
        for kind in ("plan", "peak_rss", "device")
        if memory.get(kind)
    ]
    return [power, temperature, ", ".join(parts) or "–"]


def device_name(document: Mapping[str, Any]) -> str:
    """Return the name of the device that a measurement was made on."""
    return str(document.get("device", {}).get("name", "this machine"))


if __name__ == "__main__":
    main()
