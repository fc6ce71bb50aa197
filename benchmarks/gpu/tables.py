"""Prints the results of ``session.py`` as Markdown: ``python -m benchmarks.gpu.tables FILE``."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "gpu" / "h100-1.json"
METRICS = (
    *("network", "build", "latency ms", "throughput 1/s", "of default", "compile s", "power W", "energy J"),
    *("memory MiB", "temperature °C", "utilisation %"),
)


def tables(document: Mapping[str, Any]) -> str:
    """Return the tables of metrics, verdicts, TVM beside PyTorch, the catalog's sequences, and the paper's table 6."""
    networks = document.get("networks", {})
    made = [
        _table(METRICS, _metric_rows(networks)),
        _table(("network", "winner", "throughput / default", "fresh compiles", "processes"), _verdict_rows(networks)),
        _table(("network", "engine", "median ms", "throughput / PyTorch's, by fastest"), _engine_rows(networks)),
        _table(("network", "sequence", "throughput / default", "compile time / default"), _sequence_rows(networks)),
        _table(("device", "network", "build", "power W", "temperature °C", "memory MiB"), _table6(document)),
    ]
    return "\n\n".join(table for table in made if table)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; nothing if it has no rows."""
    rows = [*rows]
    lines = [heads, ["---"] * len(heads), *rows] if rows else []
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _measured(networks: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for network, steps in networks.items():
        for label, row in steps.get("measure", {}).get("rows", {}).items():
            yield network, label, row


def _metric_rows(networks: Mapping[str, Any]) -> Iterator[list[str]]:
    for network, label, row in _measured(networks):
        if "failure" in row:
            yield [network, label, row["failure"]["reason"], *[""] * (len(METRICS) - 3)]
            continue
        latency_ms = row["latency_s"] and 1e3 * row["latency_s"]["median"]
        values = (latency_ms, row["throughput_per_s"], row["ratio"] and row["ratio"]["ratio"], row["compile_s"])
        yield [network, label, *map(_number, values), *_consumed(row)]


def _verdict_rows(networks: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the verdicts of searches whose winner was confirmed."""
    for network, steps in networks.items():
        row = steps.get("search", {})
        verdict = row.get("verdict", {})
        if verdict.get("confirmed"):
            ratio = "{:.3g} [{:.3g}, {:.3g}]".format(verdict["ratio"], *verdict["interval"])
            counts = (str(verdict[name]) for name in ("repetitions", "processes"))
            yield [network, row["best"]["name"] or "", ratio, *counts]


def _engine_rows(networks: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield TVM's builds and PyTorch, which were timed in turns, in each precision."""
    for network, steps in networks.items():
        for step, found in steps.items():
            for label, row in found.get("rows", {}).items() if step.startswith("pytorch") else ():
                yield [" ".join([network, *step.split()[1:]]), label, *_engine_values(row)]


def _engine_values(row: Mapping[str, Any]) -> list[str]:
    if "failure" in row:
        return [row["failure"], ""]
    ratio = row["throughput of torch"]["by fastest"]
    interval = " [{:.3g}, {:.3g}]".format(*ratio["interval"]) if ratio["interval"] else ""
    return [_number(1e3 * row["median_s"]), _number(ratio["ratio"]) + interval]


def _consumed(row: Mapping[str, Any]) -> list[str]:
    power, temperature, utilisation = (
        (row[key] or {}).get("median") for key in ("power_w", "temperature_c", "utilisation")
    )
    memory = row["memory_bytes"]["device"]
    values = (power, row["energy_j"], memory and memory / 2**20, temperature, utilisation and 100 * utilisation)
    return [*map(_number, values)]


def _sequence_rows(networks: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield what figures 2 and 3 of the paper show: throughput and compile time of selections, of the default's."""
    for network, steps in networks.items():
        sequences = steps.get("search", {}).get("sequences", {})
        default_s = sequences.get("default", {}).get("compile_s")
        for name, row in sequences.items():
            yield [network, name, _number(row["throughput"]), _number(default_s and row["compile_s"] / default_s)]
        paper = steps.get("measure", {}).get("paper")
        if paper:
            yield [network, "best (paper, of -O3's)", _number(paper["throughput"]), _number(paper["compile_time"])]


def _table6(document: Mapping[str, Any]) -> Iterator[list[str]]:
    networks = document.get("networks", {})
    for network, label, row in _measured(networks):
        if "failure" not in row:
            pairs = [_pair(row["power_w"]), _pair(row["temperature_c"])]
            yield [networks[network]["measure"]["device"]["name"], network, label, *pairs, _consumed(row)[2]]
    for network, steps in networks.items():
        for row in steps.get("measure", {}).get("paper", {}).get("table6", ()):
            pairs = [", ".join(map(str, row[key])) for key in ("power_w", "temperature_c", "memory_mib")]
            yield [f"{row['device']} (paper)", f"{network}, {row['framework']}", row["selection"], *pairs]


def _pair(reading: Mapping[str, float] | None) -> str:
    return f"{reading['median']:.0f}, {reading['max']:.0f}" if reading else "–"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


if __name__ == "__main__":
    print(tables(json.loads(Path(sys.argv[1] if sys.argv[1:] else RESULTS).read_text())))
