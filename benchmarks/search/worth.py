"""Prints what each part of a search is worth, from what is recorded; it measures nothing.

``python -m benchmarks.search.worth`` reads the winners of the recorded searches, the comparison with other engines, the
strategies and closed spaces of Relay, and the corpus, for whose networks today's catalog selects passes.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import fmean, median
from typing import Any

from benchmarks.common import RESULTS, markdown, read, write_part
from benchmarks.speed.against_engines import DEFAULT, TUNED
from passsearch.catalog import load, read_corpus, select_passes
from passsearch.core import UNKNOWN_CLASS, Feature, Fingerprint

SEARCHES = {
    "Relax on CPUs": ("engines/*.json", "engines/xeon/*.json", "relax/*.json", "decoders/*.json", "fusion_graphs.json"),
    "Relax on GPUs": ("gpu/*.json",),
    "Relay": ("relay/*.json", "relay/cf22/*.json"),
}
"""Files with searches, by compiler and device; not ``short_searches.json``, whose searches took 10 to 120 s."""

KINDS = {"composition": "composition", "sequence": "sequence", "explored state": "sampler", "sampler": "sampler"}
"""Who proposed a winner, by the kind of its source; states that the sampler ``graph`` chose are the sampler's, too."""

TEXTS = {"composition": "compositions", "sequence": "of the catalog", "sampler": "of the sampler"}
PARTS = {"graph, catalog": "all", "random, catalog": "sampler", "graph, plain": "sequences", "random, plain": "both"}
"""What is taken away, by strategy."""

AFTER = 5
"""Number of measurements after which strategies are compared."""


def winners(document: Any) -> Iterator[str]:
    """Yield who proposed each winner of a document: a kind of ``passsearch.results.Source``."""
    if isinstance(document, list):
        for each in document:
            yield from winners(each)
    elif isinstance(document, Mapping):
        best, source = document.get("best"), document.get("source")
        if isinstance(source, Mapping) and source.get("kind") in KINDS:
            yield KINDS[source["kind"]]
        elif "verdict" in document and isinstance(best, Mapping) and "source" not in best:
            # The searches on the paper's networks keep the name of a sequence of the catalog.
            yield "sequence" if best.get("name") else "sampler"
        else:
            yield from winners([*document.values()])


def winner_rows() -> Iterator[tuple[str, str]]:
    """Yield who proposed the winners, by compiler."""
    for name, patterns in SEARCHES.items():
        counts = Counter(kind for each in patterns for file in RESULTS.glob(each) for kind in winners(read(file)))
        counts += Counter(_winners_of_corpus() if name == "Relax on CPUs" else ())
        texts = [f"{counts[kind]} {text}" for kind, text in TEXTS.items()]
        yield f"winners of {counts.total()} searches, {name}", ", ".join(texts)


def _winners_of_corpus() -> Iterator[str]:
    """Yield who proposed the winners of the corpus, but for those that come from the files above."""
    for processor in read_corpus("relax").processors.values():
        for row in processor.networks.values():
            if row.search is not None and not row.source:
                yield "composition" if row.search.best == "composed" else "sequence"


def composition_row(folder: str, machine: str) -> tuple[str, str]:
    """Return what compositions and other decisions of searches add to the best sequence, over networks."""
    ratios = []
    for file in sorted((RESULTS / folder).glob("*.json")):
        engines = read(file).get("engines", {})
        names = [name for name in engines if name.startswith("tvm ") and name not in (TUNED, DEFAULT)]
        if TUNED in engines and names:
            (name,) = names
            ratios.append(engines[TUNED][f"throughput of {name}"]["by fastest"])
    certain = sum(each["interval"][0] > 1 for each in ratios)
    values = [each["ratio"] for each in ratios]
    text = f"{_mean(values):.3f} ({min(values):.2f} to {max(values):.2f}), certain on {certain} of {len(values)}"
    return f"search / best sequence, {machine}", text


def _mean(values: list[float]) -> float:
    return math.exp(fmean(map(math.log, values)))


def strategy_row() -> tuple[str, str]:
    """Return the mean regret on the closed spaces where parts are taken away."""
    comparisons = read(RESULTS / "strategies.json")["comparisons"]
    regrets = {
        part: fmean(each["strategies"][name]["mean"][AFTER - 1] for each in comparisons) for name, part in PARTS.items()
    }
    whole = regrets.pop("all")
    others = ", ".join(f"without {part} {100 * regret:.1f} %" for part, regret in regrets.items())
    return f"mean regret after {AFTER} builds, Relay's closed spaces", f"{100 * whole:.1f} %; {others}"


def class_regret_row() -> tuple[str, str]:
    """Return the regret of what the classes leave, in the closed spaces."""
    spaces = read(RESULTS / "certified.json")["spaces"].values()
    texts = [
        ", ".join(f"{100 * each['classes'][f'{objective}_regret']:.1f}" for each in spaces)
        for objective in ("throughput", "compile_time")
    ]
    return "regret of the classes there", f"{texts[0]} % of throughput, {texts[1]} % of compile time"


def catalog_row(dialect: str, name: str) -> tuple[str, str]:
    """Return how many candidates for CPUs a class decides on."""
    entries = _candidates(dialect)
    restricted = sum("all" not in entry.classes for entry in entries)
    return f"CPU candidates tied to a class, {name}", f"{restricted} of {len(entries)}"


def pruning_row() -> tuple[str, str]:
    """Return how many candidates features and classes leave on the networks of the corpus."""
    catalog, entries = load("relax"), _candidates("relax")
    left, by_classes = [], []
    networks = {name: row for each in read_corpus("relax").processors.values() for name, row in each.networks.items()}
    # Where no class fits, all candidates stay.
    classified = [row for row in networks.values() if UNKNOWN_CLASS not in row.classes]
    for row in classified:
        fingerprint = Fingerprint({name: Feature(count) for name, count in row.features.items()})
        names = select_passes(catalog, row.classes, fingerprint=fingerprint, device="cpu").names()
        # With every class a pass serves one of them, so that features alone decide.
        every = {each for entry in entries for each in entry.classes}
        by_features = select_passes(catalog, every, fingerprint=fingerprint, device="cpu").names()
        left.append(len(names))
        by_classes.append(len(by_features) - len(names))
    dropped = f"classes alone drop {min(by_classes)} to {max(by_classes)}"
    text = f"{min(left)} to {max(left)} of {len(entries)}, median {median(left):g}; {dropped}"
    return f"candidates left on {len(classified)} networks of a class, Relax", text


def _candidates(dialect: str) -> list[Any]:
    entries = load(dialect).entries.values()
    return [each for each in entries if each.role == "candidate" and (not each.devices or "cpu" in each.devices)]


def rows() -> list[tuple[str, str]]:
    """Return what is measured, and its values."""
    return [
        *winner_rows(),
        composition_row("engines", "EPYC"),
        composition_row("engines/xeon", "Xeon"),
        strategy_row(),
        class_regret_row(),
        catalog_row("relay", "Relay"),
        catalog_row("relax", "Relax"),
        pruning_row(),
    ]


if __name__ == "__main__":
    write_part("results.md", "search/worth.py", markdown(("part", "worth"), rows()))
