"""The paper's tables and figures from what ``run.py`` measured, beside its own: ``python tables.py --out docs/paper``.

Prints Markdown; with ``--out`` also writes CSV files and figures 2a, 2b and 3 there.
"""

import argparse
import csv
import json
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from networks import NETWORKS

from passsearch.catalog import CatalogEntry, load
from passsearch.dialects import DIALECTS

HERE = Path(__file__).parent
PAPER = json.loads((HERE / "paper.json").read_text())
SELECTIONS = ("BL", "AS-0", "AS-1", "AS-best", "fastest", "PO-0", "PO-1", "PO-2", "PO-3")

BUILDS = ("O3", "AS-best", "fastest")
"""-O3, the quickest compile that keeps its throughput, and the highest throughput."""

LENGTH = 8
"""Passes of the sequences that are counted, as many as the paper's longest has."""

LEAST_TRIED = 10
"""Applications on a class's networks that change nothing before a pass's place in that class counts as contradicted."""

Row: TypeAlias = list[str]
Bar: TypeAlias = tuple[float, float, float]
"""Height, and the ends of its interval."""
Table: TypeAlias = tuple[str, Row, list[Row]]
"""Name, heads, rows."""


def main() -> None:
    """Print the tables, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dialect", default="relay")
    parser.add_argument("--out", type=Path, help="folder for CSV files and figures; figures need matplotlib")
    arguments = parser.parse_args()
    files = (HERE.parent / "results" / arguments.dialect / "cf22" / f"{name}.json" for name in NETWORKS)
    documents = {file.stem: json.loads(file.read_text()) for file in files if file.exists()}
    graphs, runs = (fingerprints, effects, acts, contradictions), (against_o3, baselines, selections, cf22)
    tables = [make(documents) for make in (*graphs, *runs, floors, passes, kernels, table6)]
    for name, heads, rows in (each for each in tables if each[2]):
        print(f"\n<!-- {name} -->\n\n{markdown(heads, rows)}")
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            with (arguments.out / f"{name}.csv").open("w", newline="") as sink:
                csv.writer(sink, lineterminator="\n").writerows([heads, *rows])
    if arguments.out:
        draw(documents, arguments.out)


def fingerprints(documents: Mapping[str, Any]) -> Table:
    """What is found in which framework's graph, and what that does to the candidates."""
    told = ("explicit_padding", "transpose", "sibling_conv2d", "sibling_dense", "dense", "batch_matmul", "dropout")
    told += ("activation_softmax", "activation_gelu", "activation_relu6", "constant_division", "common_subexpression")
    heads = [
        "network",
        "agrees to",
        "classes",
        *(name.replace("_", " ") for name in told),
        "passes",
        "choices",
        f"sequences of {LENGTH}",
    ]
    rows = []
    for name, document in documents.items():
        found, agreed = document.get("analyze"), document.get("agree", {})
        if found is None:
            continue
        passes, choices = (f"{found[key]['all']} → {found[key]['classes']}" for key in ("passes", "choices"))
        deviation = f"{max(agreed['deviations']):.1e}" if agreed.get("agrees") else "disagrees" if agreed else "–"
        counts = [str(found["features"].get(feature, 0)) for feature in told]
        sequences = " → ".join(f"{found['choices'][key] ** LENGTH:.1e}" for key in ("all", "classes"))
        rows.append([name, deviation, ", ".join(found["classes"]), *counts, passes, choices, sequences])
    return "fingerprints", heads, rows


def effects(documents: Mapping[str, Any]) -> Table:
    """What every pass of the paper's table 4 does to the networks as they are imported, after the passes it needs."""
    analyzed = {name: each["analyze"] for name, each in documents.items() if "analyze" in each}
    names = list(dict.fromkeys(step for each in analyzed.values() for step in each["effects"]))
    words = {"changes": "yes", "nothing": "–"}
    rows = [
        [step, *(words.get(each["effects"][step], each["effects"][step]) for each in analyzed.values())]
        for step in names
    ]
    return "effects", ["pass", *analyzed], rows


def acts(documents: Mapping[str, Any]) -> Table:
    """On how many of the IRs that all searches came by each pass of the paper changed something."""
    known = {name: each["acts"]["passes"] for name, each in documents.items() if "acts" in each}
    names = [name for name in effects(documents)[2] if any(name[0] in each for each in known.values())]
    rows = [[name, *(changed(each.get(name)) for each in known.values())] for name, *_ in names]
    return "acts", ["pass", *known], rows


def changed(counts: Mapping[str, int] | None) -> str:
    """``3 of 40``, and how often it failed."""
    if not counts:
        return "not searched"
    failed = f", {counts['failed']} failed" if counts.get("failed") else ""
    return f"{counts.get('changed', 0)} of {sum(counts.values())}{failed}"


def contradictions(documents: Mapping[str, Any]) -> Table:
    """Places in the columns of table 4 that the measurements speak against, with the evidence the catalog gives."""
    analyzed = {name: each for name, each in documents.items() if "analyze" in each}
    dialects = {each["analyze"]["toolchain"]["dialect"] for each in analyzed.values()}
    rows = [
        [entry.name, category, found]
        for name in sorted(dialects)
        for entry in load(name).entries.values()
        for category in entry.paper
        if (found := evidence(entry, category, analyzed))
    ]
    return "contradictions", ["pass", "class", "evidence"], rows


def evidence(entry: CatalogEntry, category: str, documents: Mapping[str, Any]) -> str:
    """Why a pass has no place in a class: it changed nothing in its networks, or fails on all; empty if it may have."""
    counts, names = Counter[str](), []
    for name, each in sorted(documents.items()):
        if category in each["analyze"]["classes"]:
            imported = {"changes": "changed", "nothing": "idle"}.get(each["analyze"]["effects"][entry.name], "failed")
            counts.update([imported])
            counts.update(each.get("acts", {"passes": {}})["passes"].get(entry.name, {}))
            names.append(name)
    if counts["changed"] or not names:
        return ""
    where = ", ".join(names)
    if not counts["idle"]:
        return f"fails on {where}"
    return f"changed nothing in {counts['idle']} applications on {where}" if counts["idle"] >= LEAST_TRIED else ""


def against_o3(documents: Mapping[str, Any]) -> Table:
    """What the searches found, each confirmed from fresh compiles, beside the paper's claims."""
    heads = [
        "network",
        "compile time less",
        "paper",
        "at throughput / -O3",
        "same binary",
        "-O3 compiles in",
        "best in",
    ]
    heads += ["highest throughput / -O3", "paper", "audit"]
    rows = []
    for name, document in documents.items():
        quick, fast = document.get("compile_time"), document.get("throughput")
        cells = [name, "–", share(claim("compile_time_reduction", name)), "–", "–", "–", "–", "–"]
        if quick:
            ratio = quick["ratios"]["compile_time"]
            cells[1] = reduction(ratio) if quick["verdict"]["improved"] else f"none: {quick['verdict']['reason']}"
            cells[3] = span(quick["ratios"]["throughput"])
            cells[4] = "yes" if quick["verdict"]["same_binary"] else "no"
            cells[5:7] = [f"{quick[each]['compile_s']:.1f} s" for each in ("baseline", "best")]
        if fast:
            cells[7] = span(fast["ratios"]["throughput"]) + (" improved" if fast["verdict"]["improved"] else "")
        audit = document.get("audit", {})
        signed = "signed off" if audit.get("signed_off") else unavailable(audit)
        rows.append([*cells, share(claim("throughput_gain", name)), signed])
    return "against-o3", heads, rows


def reduction(ratio: Mapping[str, Any]) -> str:
    """``72 % [67 %, 76 %]`` of a ratio of compile times."""
    ends = [share(1 - 1 / end) for end in ratio["interval"] or () if end]
    return share(1 - 1 / ratio["ratio"]) + (f" [{', '.join(ends)}]" if ends else "")


def selections(documents: Mapping[str, Any]) -> Table:
    """Figures 2a, 2b and 3 as numbers, and table 5: every selection's passes and what they led to."""
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
    """-O3 here and in the paper, which are different machines: what the other tables are shares of."""
    rows = []
    for name, document in documents.items():
        row = document.get("compare", {}).get("rows", {}).get("O3")
        paper = PAPER["rtx2080_baseline"].get(name)
        told = [f"{paper['throughput_per_s']:.2f} /s", f"{paper['latency_ms']:.2f} ms"] if paper else ["–", "–"]
        rows.append([name, *(selection_cells(row)[2:4] if row else ["–", "–"]), *told])
    heads = ["network", "-O3 throughput", "-O3 latency", "paper's throughput, RTX 2080", "paper's latency, RTX 2080"]
    return "baselines", heads, rows


def cf22(documents: Mapping[str, Any]) -> Table:
    """Throughput by the paper's protocol: each selection by itself, 1000 runs in one process; it proves nothing."""
    rows = [
        [name, *(span(document["cf22"]["rows"].get(each, {}).get("ratio")) for each in SELECTIONS)]
        for name, document in documents.items()
        if "cf22" in document
    ]
    return "cf22", ["network", *SELECTIONS], rows


def selection_cells(row: Mapping[str, Any]) -> Row:
    """The cells of one selection, or why there are none."""
    steps = ", ".join(row.get("steps", [])) or "TVM's own"
    if "failure" in row:
        failure = row["failure"]
        reason = f"{failure['kind']}: {failure['reason']}".replace("|", "/")
        return [steps, textwrap.shorten(reason, 160, placeholder=" …"), "–", "–", "–", "–"]
    latency_s = row["latency_s"]["median"]
    numbers = [f"{1 / latency_s:.2f} /s", f"{1e3 * latency_s:.1f} ms", f"{row['compile_s']:.1f} s"]
    numbers.append(f"{row['apply_s']:.1f} s" if "apply_s" in row else "–")
    alone = " (one process)" if row.get("unavailable", {}).get("interval") else ""
    return [steps, span(row["ratio"]) + alone, *numbers]


def floors(documents: Mapping[str, Any]) -> Table:
    """What is left of the quickest compile without its passes: lowering and generating code."""
    heads = ["network", "-O3", "best", "its passes", "its lowering and code generation", "most that could be saved"]
    rows = []
    for name, document in documents.items():
        if "compile_time" not in document:
            continue
        lowering = DIALECTS[document["compile_time"]["toolchain"]["dialect"]].lowering.to_json()
        if document["compile_time"]["best"]["build"] == lowering:
            baseline, best = (document["compile_time"][key] for key in ("baseline", "best"))
            floor_s = best["compile_s"] - best["apply_s"]
            seconds = [baseline["compile_s"], best["compile_s"], best["apply_s"], floor_s]
            rows.append([name, *(f"{each:.1f} s" for each in seconds), share(1 - floor_s / baseline["compile_s"])])
    return "floors", heads, rows


def passes(documents: Mapping[str, Any]) -> Table:
    """Where -O3 spends its time compiling."""
    rows = []
    for name, document in documents.items():
        profile = document.get("profile", {}).get("O3")
        if profile:
            longest = list(profile["passes"].items())[:5]
            told = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in longest)
            rows.append([name, f"{profile['build_s']:.1f} s", told, f"{profile['write_s']:.1f} s"])
    return "passes", ["network", "-O3 builds in", "the five longest passes", "then writes kernels in"], rows


def kernels(documents: Mapping[str, Any]) -> Table:
    """Where the code of -O3 and of what was found spends its time running."""
    rows = [
        [name, selection, f"{sum(each['us'] for each in found['kernels']) / 1e3:.1f} ms", longest(found["kernels"])]
        for name, document in documents.items()
        for selection, found in document.get("profile", {}).items()
        if selection in BUILDS
    ]
    return "kernels", ["network", "build", "kernels together", "the five longest kinds"], rows


def longest(rows: Sequence[Mapping[str, Any]]) -> str:
    """The first five, with how often each is called and its share."""
    return ", ".join(f"`{each['kernel']}` x{each['calls']} {100 * each['share']:.0f} %" for each in rows[:5])


def table6(documents: Mapping[str, Any]) -> Table:
    """Power, temperature and memory of -O3 and of AS-best, beside the paper's on its GPUs."""
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
        found = document.get("compare", {})
        for selection in ("O3", "AS-best"):
            row = found.get("rows", {}).get(selection)
            if row and "failure" not in row:
                rows.append([device_name(found), name, selection, *metered(row)])
    return "table6", heads, [*rows, *paper]


def metered(row: Mapping[str, Any]) -> Row:
    """Power, temperature and memory of one row; what cannot be read says why."""
    reasons = row.get("unavailable", {})
    power, temperature = (
        f"{row[key]['median']:.0f}, {row[key]['max']:.0f}" if row.get(key) else f"– ({reasons.get(key, 'not read')})"
        for key in ("power_w", "temperature_c")
    )
    memory = row.get("memory_bytes") or {}
    told = [
        f"{kind.replace('_', ' ')} {memory[kind] / 2**20:.0f}"
        for kind in ("plan", "peak_rss", "device")
        if memory.get(kind)
    ]
    return [power, temperature, ", ".join(told) or "–"]


def device_name(document: Mapping[str, Any]) -> str:
    """The device a measurement says it was made on."""
    return str(document.get("device", {}).get("name", "this machine"))


def claim(kind: str, name: str) -> float | None:
    """The paper's headline for a network; ``None`` where it makes none."""
    return PAPER["claims"][kind].get(name)


def share(value: float | None) -> str:
    """``45 %``."""
    return "–" if value is None else f"{100 * value:.0f} %"


def span(ratio: Mapping[str, Any] | None) -> str:
    """``1.02 [1.00, 1.04]``."""
    if not ratio:
        return "–"
    low, high = ratio.get("interval") or (None, None)
    return f"{ratio['ratio']:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")


def unavailable(document: Mapping[str, Any]) -> str:
    """Why there is no number."""
    if "failure" in document:
        return f"{document['failure']['kind']}: {document['failure']['reason']}"
    return str(document.get("unavailable", "not measured"))


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


def draw(documents: Mapping[str, Any], folder: Path) -> None:
    """Figures 2a, 2b and 3: throughput, latency and compile time by selection, as multiples of -O3's."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "passsearch"
    figures: dict[str, tuple[str, Callable[[Any, Any], Bar]]] = {
        "figure-2a": ("throughput / -O3", lambda row, _: bar(row["ratio"])),
        "figure-2b": ("latency / -O3", lambda row, _: inverse(bar(row["ratio"]))),
        "figure-3": ("compile time / -O3", lambda row, o3: (row["compile_s"] / o3["compile_s"],) * 3),
    }
    compared = {name: each["compare"]["rows"] for name, each in documents.items() if "compare" in each}
    for name, (label, value) in figures.items():
        bars = {
            network: {
                selection: None if "failure" in row else value(row, rows["O3"])
                for selection, row in rows.items()
                if selection in SELECTIONS
            }
            for network, rows in compared.items()
        }
        draw_bars(bars, label=label, file=folder / f"{name}.svg")


def bar(ratio: Mapping[str, Any]) -> Bar:
    """Height and ends of the interval, which are the height where there is none."""
    low, high = ratio.get("interval") or (None, None)
    value = float(ratio["ratio"])
    return value, value if low is None else float(low), value if high is None else float(high)


def inverse(found: Bar) -> Bar:
    """Of a ratio the other way round."""
    value, low, high = found
    return 1 / value, 1 / high, 1 / low


def draw_bars(bars: Mapping[str, Mapping[str, Bar | None]], *, label: str, file: Path) -> None:
    """One group of bars a network, one bar a selection, with intervals; a cross for what failed."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    figure, axes = plt.subplots(figsize=(10, 3.8))
    width = 0.8 / len(SELECTIONS)
    for number, selection in enumerate(SELECTIONS):
        found = {
            index + (number - len(SELECTIONS) / 2 + 0.5) * width: each[selection]
            for index, each in enumerate(bars.values())
            if selection in each
        }
        drawn = {place: height for place, height in found.items() if height}
        heights = [value for value, _, _ in drawn.values()]
        ends = [[value - low for value, low, _ in drawn.values()], [high - value for value, _, high in drawn.values()]]
        axes.bar(list(drawn), heights, width, yerr=ends, color=f"C{number}", error_kw={"linewidth": 0.8})
        failed = [place for place, height in found.items() if height is None]
        bottom = axes.get_xaxis_transform()
        axes.plot(failed, [0.03] * len(failed), "x", color=f"C{number}", markersize=5, transform=bottom)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(label)
    axes.set_xticks(range(len(bars)), [name.replace("_", "\n") for name in bars], fontsize=8)
    patches = [Patch(color=f"C{number}", label=selection) for number, selection in enumerate(SELECTIONS)]
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
    axes.legend(handles=patches, ncols=len(SELECTIONS), fontsize=7, **above)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
