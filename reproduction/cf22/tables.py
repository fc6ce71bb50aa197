"""Makes the paper's tables and figures from the results of ``run.py``: ``python tables.py --out docs/paper``.

The paper's own numbers stand beside the measured ones. Prints Markdown; with ``--out`` also writes CSV files and
figures 2a, 2b and 3 there.
"""

import argparse
import csv
import json
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from figures import SELECTIONS, draw_figures
from networks import NETWORKS

from passsearch.catalog import CatalogEntry, load
from passsearch.dialects import dialect

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"
PAPER = json.loads((HERE / "paper.json").read_text())

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

Row: TypeAlias = list[str]
Table: TypeAlias = tuple[str, Row, list[Row]]
"""Name, column heads and rows."""


def main() -> None:
    """Print the tables, and write them to files if a folder is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dialect", default="relay")
    parser.add_argument("--out", type=Path, help="folder for CSV files and figures; figures need matplotlib")
    arguments = parser.parse_args()
    files = (RESULTS / arguments.dialect / "cf22" / f"{name}.json" for name in NETWORKS)
    documents = {file.stem: json.loads(file.read_text()) for file in files if file.exists()}
    graphs, runs = (fingerprints, effects, acts, contradictions), (against_o3, baselines, selections, cf22)
    tables = [make(documents) for make in (table3, *graphs, *runs, floors, passes, kernels, table5, table6)]
    for name, heads, rows in (each for each in tables if each[2]):
        print(f"\n<!-- {name} -->\n\n{markdown(heads, rows)}")
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            with (arguments.out / f"{name}.csv").open("w", newline="") as sink:
                csv.writer(sink, lineterminator="\n").writerows([heads, *rows])
    if arguments.out:
        draw_figures(documents, PAPER["claims"], arguments.out)


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


def against_o3(documents: Mapping[str, Any]) -> Table:
    """Return the results of the searches, each confirmed from fresh compiles, beside the paper's claims."""
    heads = [
        "network",
        "compile time less",
        "by selection alone",
        "paper",
        "found by",
        "at throughput / -O3",
        "same binary",
        "-O3 compiles in",
        "best in",
    ]
    heads += ["highest throughput / -O3", "found by", "paper", "audit"]
    rows = []
    for name, document in documents.items():
        quickest, fastest = document.get("compile_time"), document.get("throughput")
        cells = [name, "–", "–", share(claim("compile_time_reduction", name)), "–", "–", "–", "–", "–", "–", "–"]
        if quickest:
            ratios, verdict = quickest["ratios"], quickest["verdict"]
            cells[1] = reduction(ratios["compile_time"]) if verdict["improved"] else f"none: {verdict['reason']}"
            cells[2] = selection_alone(document)
            cells[4] = source(quickest)
            cells[5] = span(ratios["throughput"])
            cells[6] = "yes" if verdict["same_binary"] else "no"
            cells[7:9] = [f"{quickest[row]['compile_s']:.1f} s" for row in ("baseline", "best")]
        if fastest:
            cells[9] = span(fastest["ratios"]["throughput"]) + (" improved" if fastest["verdict"]["improved"] else "")
            cells[10] = source(fastest)
        audit = document.get("audit", {})
        audit_cell = "signed off" if audit.get("signed_off") else unavailable(audit)
        rows.append([*cells, share(claim("throughput_gain", name)), audit_cell])
    return "against-o3", heads, rows


def selection_alone(document: Mapping[str, Any]) -> str:
    """Return the compile time saved against -O3 without its evaluation of constants, in percent.

    The best sequence evaluates constants too, quickly and by numpy; that time stays on its side, so the true share is
    a little larger. There is no interval: -O3's passes were timed once.
    """
    profile, quickest = document.get("profile", {}).get("O3"), document["compile_time"]
    if profile is None:
        return "–"
    # As a share of the profiled build, which took another time than the compiles that the ratio is of.
    constants = profile["passes"]["FoldConstant"] / (profile["build_s"] + profile["write_s"])
    return share(1 - quickest["best"]["compile_s"] / (quickest["baseline"]["compile_s"] * (1 - constants)))


def source(document: Mapping[str, Any]) -> str:
    """Return who proposed the best sequence: the catalog, by the sequence's name, or the sampler."""
    return f"catalog, `{document['best']['name']}`" if document["best"]["name"] else "sampler"


def reduction(ratio: Mapping[str, Any]) -> str:
    """Return the time saved by a ratio of compile times, in percent: ``72 % [67 %, 76 %]``."""
    ends = [share(1 - 1 / end) for end in ratio["interval"] or () if end]
    return share(1 - 1 / ratio["ratio"]) + (f" [{', '.join(ends)}]" if ends else "")


def selections(documents: Mapping[str, Any]) -> Table:
    """Return figures 2a, 2b and 3 as numbers, and table 5: the passes and the measurements of every selection."""
    heads = ["network", "selection", "passes, in order", "throughput / -O3", "throughput", "latency", "compiles in"]
    heads += ["of that its passes", "-O3 against itself"]
    rows = [
        [
            name,
            selection,
            *selection_cells(document["compare"]["rows"][selection]),
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
        rows.append([name, *(selection_cells(row)[2:4] if row else ["–", "–"]), *cells])
    heads = ["network", "-O3 throughput", "-O3 latency", "paper's throughput, RTX 2080", "paper's latency, RTX 2080"]
    return "baselines", heads, rows


def cf22(documents: Mapping[str, Any]) -> Table:
    """Return throughputs by the paper's protocol, which times each selection by itself, 1000 runs in one process.

    They have no interval: runs in sequence share every drift of the machine.
    """
    rows = [
        [name, *(span(document["cf22"]["rows"].get(each, {}).get("ratio")) for each in SELECTIONS)]
        for name, document in documents.items()
        if "cf22" in document
    ]
    return "cf22", ["network", *SELECTIONS], rows


def selection_cells(row: Mapping[str, Any]) -> Row:
    """Return the cells of one selection, with the reason where there is no measurement."""
    steps = ", ".join(row.get("steps", [])) or "TVM's own"
    if "failure" in row:
        failure = row["failure"]
        reason = f"{failure['kind']}: {failure['reason']}".replace("|", "/")
        return [steps, textwrap.shorten(reason, 160, placeholder=" …"), "–", "–", "–", "–"]
    latency_s = row["latency_s"]["median"]
    numbers = [f"{1 / latency_s:.2f} /s", f"{1e3 * latency_s:.1f} ms", f"{row['compile_s']:.1f} s"]
    numbers.append(f"{row['apply_s']:.1f} s" if "apply_s" in row else "–")
    note = " (one process)" if row.get("unavailable", {}).get("interval") else ""
    return [steps, span(row["ratio"]) + note, *numbers]


def floors(documents: Mapping[str, Any]) -> Table:
    """Return the time that no choice of passes can save: lowering and code generation of the quickest compile."""
    heads = ["network", "-O3", "best", "its passes", "its lowering and code generation", "most that could be saved"]
    rows = []
    for name, document in documents.items():
        if "compile_time" not in document:
            continue
        lowering = dialect(document["compile_time"]["toolchain"]["dialect"]).lowering.to_json()
        if document["compile_time"]["best"]["build"] == lowering:
            baseline, best = (document["compile_time"][key] for key in ("baseline", "best"))
            floor_s = best["compile_s"] - best["apply_s"]
            seconds = [baseline["compile_s"], best["compile_s"], best["apply_s"], floor_s]
            rows.append([name, *(f"{each:.1f} s" for each in seconds), share(1 - floor_s / baseline["compile_s"])])
    return "floors", heads, rows


def passes(documents: Mapping[str, Any]) -> Table:
    """Return the passes that take most of -O3's compile time."""
    rows = []
    for name, document in documents.items():
        profile = document.get("profile", {}).get("O3")
        if profile:
            slowest = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in list(profile["passes"].items())[:5])
            rows.append([name, f"{profile['build_s']:.1f} s", slowest, f"{profile['write_s']:.1f} s"])
    return "passes", ["network", "-O3 builds in", "the five longest passes", "then writes kernels in"], rows


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
    compared = documents.get("ssd_resnet50_pytorch", {}).get("compare", {}).get("rows", {})
    for selection, printed in PAPER["table5"].items():
        row = compared.get(selection, {})
        inserted = list((Counter(row.get("steps", printed)) - Counter(printed)).elements())
        # The paper prints no measurement of a sequence: its figures show the best of several orders.
        cells = selection_cells(row)[1] if row else "–"
        rows.append([selection, ", ".join(printed), ", ".join(inserted) or "nothing", cells])
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


def claim(kind: str, name: str) -> float | None:
    """Return the paper's claim for a network; ``None`` if it makes none."""
    value: float | None = PAPER["claims"][kind].get(name)
    return value


def share(value: float | None) -> str:
    """Return a share in percent: ``45 %``."""
    return "–" if value is None else f"{100 * value:.0f} %"


def span(ratio: Mapping[str, Any] | None) -> str:
    """Return a ratio with its interval: ``1.020 [1.000, 1.040]``."""
    if not ratio:
        return "–"
    low, high = ratio.get("interval") or (None, None)
    return f"{ratio['ratio']:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")


def unavailable(document: Mapping[str, Any]) -> str:
    """Return the reason why there is no number."""
    if "failure" in document:
        return f"{document['failure']['kind']}: {document['failure']['reason']}"
    return str(document.get("unavailable", "not measured"))


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


if __name__ == "__main__":
    main()
