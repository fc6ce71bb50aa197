"""Times decoders beside TVM's default: reading a prompt of 128 tokens, and one token after 127.

``python benchmarks/decoders.py --engines-python VENV/bin/python --tune 600`` takes both forms of the Llama-like network
of the zoo. Each form is one measurement of ``against_engines.py``, which describes the protocol, the environment VENV
and all other options: TVM's default, the fastest of the catalog's sequences, the winner of a search, PyTorch and ONNX
Runtime take turns. An engine that needs more than a second for an inference is visited once in each of three processes,
so TVM's default takes a few minutes at most.

``benchmarks/results/decoders/NETWORK.json`` gets all samples. The same command again measures only what has no file.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import against_engines

RESULTS = Path(__file__).parent / "results" / "decoders"
TOKENS = {"llama": 128, "llama_decode": 1, "llama_tiny": 16, "llama_tiny_decode": 1}
"""Tokens of one inference."""

SEQUENCES = "schedule-cpu,combine-schedule-cpu,decoder-schedule-cpu"


def table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return all measurements as Markdown: tokens in a second, and multiples of TVM's default."""
    lines = ["| network | engine | ms | tokens / s | times TVM's default |", "|---|---|---:|---:|---:|"]
    for network, document in documents.items():
        engines = {name: row for name, row in document["engines"].items() if "failure" not in row}
        default = engines.get(against_engines.DEFAULT)
        for name, row in engines.items():
            rate = TOKENS[network] / row["median_s"]
            gain = f"{default['median_s'] / row['median_s']:.1f}" if default else "–"
            lines.append(f"| {network} | {name} | {1e3 * row['median_s']:.1f} | {rate:.1f} | {gain} |")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Measure the networks that have no file yet, and print the table of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", default=["llama", "llama_decode"], choices=TOKENS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON files (%(default)s)")
    own, others = parser.parse_known_args(argv)
    files = {network: own.results / f"{network}.json" for network in own.networks}
    missing = [network for network, file in files.items() if not file.exists()]
    options = ["--results", str(own.results), "--sequences", SEQUENCES, *others]
    status = against_engines.main([*missing, *options]) if missing else 0
    print(table({network: json.loads(file.read_text()) for network, file in files.items() if file.exists()}))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
