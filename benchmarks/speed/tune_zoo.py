"""Tunes built-in networks: ``python -m benchmarks.speed.tune_zoo resnet18 mobilenet_v2 --trials 40``.

Every run has the folder ``runs/zoo/TOOLCHAIN/NAME`` and continues where it stopped. Its result is copied to
``benchmarks/results/<dialect>/NAME.json`` without the raw samples of the trials (those of baseline and best stay).
``--table relay`` prints the Markdown tables of ``docs/evidence/results.md`` from the committed results of that dialect.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import passsearch
from benchmarks.common import RESULTS, RUNS, markdown, note, options, ratio_text, write
from passsearch.report.formatting import says_nothing

FOUND_BY = {"baseline": "baseline `{}`", "sequence": "catalog, `{}`", "sampler": "sampler {}"}
"""Words for the kinds of ``best.source`` that have a name."""


def main() -> None:
    arguments = options(
        __doc__, ("names", ()), toolchain=str, trials=40, timeout=float, confirm=3, table=(str, "dialect to print")
    )
    for name in arguments.names:
        result = passsearch.tune(
            f"zoo:{name}",
            toolchain=arguments.toolchain,
            trials=arguments.trials,
            timeout=arguments.timeout,
            confirm=arguments.confirm,
            out=RUNS / "zoo" / (arguments.toolchain or "") / name,
            progress=note,
        )
        file = RESULTS / result.document["toolchain"]["dialect"] / f"{name}.json"
        write(file, without_samples(dict(result.document)))
        print(result)
    if arguments.table:
        documents = [json.loads(file.read_text()) for file in sorted((RESULTS / arguments.table).glob("*.json"))]
        # The folder also has results of other benchmarks.
        documents = [document for document in documents if "verdict" in document]
        print(f"{ratio_table(documents)}\n\n{search_table(documents)}")


def without_samples(document: dict[str, Any]) -> dict[str, Any]:
    """Remove the raw samples of candidates that were not confirmed, and the digests of outputs, from a result."""
    for key in ("trials", "baselines", "pareto"):
        for row in document[key]:
            row["latency_s"] = {**row["latency_s"], "samples": None}
    document.pop("deployment", None)
    return document


def ratio_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of ratios to the baseline, one line per network."""
    name = documents[0]["baseline"]["name"] if documents else ""
    heads = ["network", f"throughput / {name}", "throughput / best sequence", "same binary", "the same build again"]
    heads += [f"compile time of {name} / of best", f"{name} runs in", "best in", f"{name} compiles in", "best in"]
    heads += ["found by", "compile time without constants"]
    rows = []
    for document in documents:
        ratios, verdict, pair = document["ratios"], document["verdict"], (document["baseline"], document["best"])
        cells = [document["model"]["name"], span(ratios["throughput"]) + (" improved" if verdict["improved"] else "")]
        cells += [
            over_sequence(document),
            "yes" if verdict["same_binary"] else "no",
            span(ratios["twin"]),
            span(ratios["compile_time"]),
        ]
        cells += [f"{each['latency_s']['median'] * 1e3:.1f} ms" for each in pair]
        cells += [f"{each['compile_s']:.1f} s" for each in pair]
        rows.append([*cells, found_by(document["best"]), selection_only(*pair)])
    return markdown(heads, rows)


def over_sequence(document: Mapping[str, Any]) -> str:
    """Return the winner's throughput over that of the fastest sequence of the catalog."""
    sequence = document.get("sequence")
    if not sequence:
        return "not recorded"
    if sequence["is_best"]:
        return f"it is `{sequence['name']}`"
    return f"{span(sequence['gain'])} over `{sequence['name']}`" + (" improved" if sequence["improved"] else "")


def found_by(best: Mapping[str, Any]) -> str:
    """Return who proposed the winner. Results from before ``best.source`` have the names of sequences only."""
    source = best.get("source") or {"kind": "sequence" if best["name"] else "sampler", "name": best["name"]}
    return FOUND_BY.get(source["kind"], source["kind"]).format(source["name"] or "").strip()


def selection_only(baseline: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    """Return how many times as quick the best compiles if the evaluation of constants is left out of both."""
    parts = [row.get("compile_parts_s") for row in (baseline, best)]
    if not all(parts):
        return "not recorded"
    slow_s, quick_s = (sum(seconds for part, seconds in each.items() if part != "constants") for each in parts)
    return f"{slow_s:.1f} s / {quick_s:.1f} s = {slow_s / quick_s:.2f}"


def search_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of the searches' numbers, one line per network."""
    keys = ("sequences_asked", "states", "states_measured", "binaries", "duplicates", "invalid")
    rows = []
    for document in documents:
        seconds = document["seconds"]
        failures = ", ".join(f"{count} {kind}" for kind, count in document["failures"].items()) or "none"
        overhead = f"{100 * seconds['search'] / seconds['total']:.1f} %"
        rows.append([document["model"]["name"], *(document["space"][key] for key in keys), failures, overhead])
    heads = ("asked", "states", "built", "binaries", "duplicates", "invalid", "failures", "search overhead")
    return markdown(("network", *heads), rows)


def span(ratio: Mapping[str, Any] | None) -> str:
    """Return a ratio with its interval: ``1.020 [1.000, 1.040]``."""
    if ratio and says_nothing(ratio["interval"]):
        return f"{ratio['ratio']:.3f} [too wide]"
    return ratio_text(ratio, 3)


if __name__ == "__main__":
    main()
