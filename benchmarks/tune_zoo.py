"""Tunes built-in networks: ``python benchmarks/tune_zoo.py resnet18 mobilenet_v2 --trials 40``.

Every run has the folder ``runs/zoo/TOOLCHAIN/NAME`` and continues where it stopped. Its result is copied to
``benchmarks/results/<dialect>/NAME.json`` without the raw samples of the trials (those of baseline and best stay).
``--table relay`` prints the Markdown tables of ``docs/evidence/results.md`` from the committed results of that dialect.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import passsearch
from passsearch.report.formatting import says_nothing

ROOT = Path(__file__).parent
RESULTS = ROOT / "results"
FOUND_BY = {
    "baseline": "baseline `{name}`",
    "sequence": "catalog, `{name}`",
    "composition": "composition",
    "explored state": "explored state",
    "sampler": "sampler {name}",
}
"""Words for the kinds of ``best.source``."""


def main() -> None:
    """Tune and write the results, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--toolchain", help="name of an installed toolchain (the first)")
    parser.add_argument("--objective", default="throughput")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--timeout", type=float, default=None)
    parser.add_argument("--confirm", type=int, default=3)
    parser.add_argument("--run", type=Path, help="copy the result of this finished run instead of tuning; for one name")
    parser.add_argument("--table", metavar="DIALECT")
    arguments = parser.parse_args()
    for name in arguments.names:
        write_result(name, arguments)
    if arguments.table:
        documents = [json.loads(file.read_text()) for file in sorted((RESULTS / arguments.table).glob("*.json"))]
        # The folder also has results of other benchmarks.
        documents = [document for document in documents if "verdict" in document]
        print(f"{ratio_table(documents)}\n\n{search_table(documents)}")


def write_result(name: str, arguments: argparse.Namespace) -> None:
    """Tune one network, or read a finished run, and write its result."""
    if arguments.run:
        result = passsearch.TuneResult.read(arguments.run)
    else:
        result = passsearch.tune(
            f"zoo:{name}",
            toolchain=arguments.toolchain,
            objective=arguments.objective,
            trials=arguments.trials,
            timeout=arguments.timeout,
            confirm=arguments.confirm,
            out=ROOT.parent / "runs" / "zoo" / (arguments.toolchain or "") / name,
            progress=lambda text, done, total: print(f"{name}: {text} {done}/{total}", file=sys.stderr),
        )
    file = RESULTS / result.document["toolchain"]["dialect"] / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(without_samples(dict(result.document)), indent=1) + "\n")
    print(result)


def without_samples(document: dict[str, Any]) -> dict[str, Any]:
    """Remove the raw samples of candidates that were not confirmed, and the digests of outputs, from a result."""
    for key in ("trials", "baselines", "pareto"):
        for row in document[key]:
            row["latency_s"] = {**row["latency_s"], "samples": None}
    document.pop("deployment", None)
    return document


def ratio_table(documents: list[dict[str, Any]]) -> str:
    """Return the table of ratios to the baseline, one line per network."""
    baseline = documents[0]["baseline"]["name"] if documents else ""
    heads = (
        "network",
        f"throughput / {baseline}",
        "throughput / best sequence",
        "same binary",
        "the same build again",
        f"compile time of {baseline} / of best",
        f"{baseline} runs in",
        "best in",
        f"{baseline} compiles in",
        "best in",
    )
    heads = (*heads, "found by", "best's compile time is of", "compile time without constants")
    rows = []
    for document in documents:
        ratios, verdict = document["ratios"], document["verdict"]
        latencies_s = [document[row]["latency_s"]["median"] for row in ("baseline", "best")]
        compiles_s = [document[row]["compile_s"] for row in ("baseline", "best")]
        cells = [
            document["model"]["name"],
            span(ratios["throughput"]) + (" improved" if verdict["improved"] else ""),
            over_sequence(document),
            "yes" if verdict["same_binary"] else "no",
            span(ratios["twin"]),
            span(ratios["compile_time"]),
            *(f"{seconds * 1e3:.1f} ms" for seconds in latencies_s),
            *(f"{seconds:.1f} s" for seconds in compiles_s),
            found_by(document),
            compile_parts(document["best"]),
            selection_only(document),
        ]
        rows.append(cells)
    return markdown(heads, rows)


def over_sequence(document: Mapping[str, Any]) -> str:
    """Return the winner's throughput over that of the fastest sequence of the catalog."""
    sequence = document.get("sequence")
    if not sequence:
        return "not recorded"
    if sequence["is_best"]:
        return f"it is `{sequence['name']}`"
    return f"{span(sequence['gain'])} over `{sequence['name']}`" + (" improved" if sequence["improved"] else "")


def found_by(document: Mapping[str, Any]) -> str:
    """Return who proposed the winner. Results from before ``best.source`` have the names of sequences only."""
    best = document["best"]
    source = best.get("source") or {"kind": "sequence" if best["name"] else "sampler", "name": best["name"]}
    return FOUND_BY[source["kind"]].format(name=source["name"]).strip()


def compile_parts(row: Mapping[str, Any]) -> str:
    """Return the parts of a compile time in percent, the largest first."""
    parts = row.get("compile_parts_s")
    if not parts:
        return "not recorded"
    total_s = sum(parts.values())
    largest = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {100 * seconds / total_s:.0f} %" for name, seconds in largest)


def selection_only(document: Mapping[str, Any]) -> str:
    """Return how many times as quick the best compiles if the evaluation of constants is left out of both."""
    rows = [document[row].get("compile_parts_s") for row in ("baseline", "best")]
    if not all(rows):
        return "not recorded"
    baseline_s, best_s = (sum(seconds for part, seconds in parts.items() if part != "constants") for parts in rows)
    return f"{baseline_s:.1f} s / {best_s:.1f} s = {baseline_s / best_s:.2f}"


def search_table(documents: list[dict[str, Any]]) -> str:
    """Return the table of the searches' numbers, one line per network."""
    heads = ("network", "asked", "states", "built", "binaries", "duplicates", "invalid", "failures", "search overhead")
    keys = ("sequences_asked", "states", "states_measured", "binaries", "duplicates", "invalid")
    rows = []
    for document in documents:
        seconds = document["seconds"]
        failures = ", ".join(f"{count} {kind}" for kind, count in document["failures"].items()) or "none"
        overhead = f"{100 * seconds['search'] / seconds['total']:.1f} %"
        counts = [str(document["space"][key]) for key in keys]
        rows.append([document["model"]["name"], *counts, failures, overhead])
    return markdown(heads, rows)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def span(ratio: dict[str, Any] | None) -> str:
    """Return a ratio with its interval: ``1.020 [1.000, 1.040]``."""
    if not ratio or not ratio["interval"] or None in ratio["interval"]:
        return "–" if not ratio else f"{ratio['ratio']:.3f}"
    low, high = ratio["interval"]
    ends = "too wide" if says_nothing(ratio["interval"]) else f"{low:.3f}, {high:.3f}"
    return f"{ratio['ratio']:.3f} [{ends}]"


if __name__ == "__main__":
    main()
