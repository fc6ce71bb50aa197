"""Tune built-in networks and keep the results: ``python benchmarks/tune_zoo.py resnet18 mobilenet_v2 --trials 40``.

Every run stands in ``runs/zoo/TOOLCHAIN/NAME`` and goes on where it stopped; its result is copied to
``benchmarks/results/<dialect>/NAME.json`` without the raw samples of every trial (those of baseline and best stay).
``--table relay`` prints the Markdown tables of ``docs/results.md`` from the committed results of that dialect.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import passsearch

ROOT = Path(__file__).parent
RESULTS = ROOT / "results"


def main() -> None:
    """Tune, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--toolchain", help="name of an installed toolchain (the first)")
    parser.add_argument("--objective", default="throughput")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--timeout", type=float, default=None)
    parser.add_argument("--confirm", type=int, default=3)
    parser.add_argument("--run", type=Path, help="keep the result of a run made elsewhere, for the one name given")
    parser.add_argument("--table", metavar="DIALECT")
    arguments = parser.parse_args()
    for name in arguments.names:
        keep(name, arguments)
    if arguments.table:
        documents = [json.loads(file.read_text()) for file in sorted((RESULTS / arguments.table).glob("*.json"))]
        print(table([each for each in documents if "verdict" in each]))


def keep(name: str, arguments: argparse.Namespace) -> None:
    """Tune one network, or take an existing run, and write its result down."""
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
    file.write_text(json.dumps(slim(dict(result.document)), indent=1) + "\n")
    print(result)


def slim(document: dict[str, Any]) -> dict[str, Any]:
    """The result without the raw samples of candidates that were not confirmed, and without output digests."""
    for key in ("trials", "baselines", "pareto"):
        for row in document[key]:
            row["latency_s"] = {**row["latency_s"], "samples": None}
    document.pop("deployment", None)
    return document


def table(documents: list[dict[str, Any]]) -> str:
    """One line a network."""
    beaten = documents[0]["baseline"]["name"] if documents else ""
    heads = (
        "throughput / B",
        "same binary",
        "twin",
        "B / compile time",
        "B runs in",
        "best in",
        "B compiles in",
        "best in",
    )
    lines = ["| network | " + " | ".join(heads).replace("B", beaten) + " |", "|---" * 9 + "|"]
    for each in documents:
        ratios, verdict = each["ratios"], each["verdict"]
        cells = [
            each["model"]["name"],
            span(ratios["throughput"]) + (" improved" if verdict["improved"] else ""),
            "yes" if verdict["same_binary"] else "no",
            span(ratios["twin"]),
            span(ratios["compile_time"]),
            f"{each['baseline']['latency_s']['median'] * 1e3:.1f} ms",
            f"{each['best']['latency_s']['median'] * 1e3:.1f} ms",
            f"{each['baseline']['compile_s']:.1f} s",
            f"{each['best']['compile_s']:.1f} s",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "| network | asked | states | built | binaries | duplicates | invalid | failures | search overhead |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for each in documents:
        space, seconds = each["space"], each["seconds"]
        failures = ", ".join(f"{count} {kind}" for kind, count in each["failures"].items()) or "none"
        counts = [
            space[key] for key in ("sequences_asked", "states", "states_measured", "binaries", "duplicates", "invalid")
        ]
        overhead = f"{100 * seconds['search'] / seconds['total']:.1f} %"
        lines.append("| " + " | ".join([each["model"]["name"], *map(str, counts), failures, overhead]) + " |")
    return "\n".join(lines)


def span(ratio: dict[str, Any] | None) -> str:
    """``1.02 [1.00, 1.04]``."""
    if not ratio or not ratio["interval"] or None in ratio["interval"]:
        return "–" if not ratio else f"{ratio['ratio']:.3f}"
    low, high = ratio["interval"]
    return f"{ratio['ratio']:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
