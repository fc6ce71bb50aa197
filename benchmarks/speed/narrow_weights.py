"""Times networks with weights in 16, 8 and 4 bits, and products of integers, beside the same schedule in float32.

``python -m benchmarks.speed.narrow_weights`` measures each storage of each network beside ``decoder-schedule-cpu``:
several processes, in each of which both run in turns. Names after it choose networks. What is in
``benchmarks/results/narrow_weights.json``, or in the file that ``--out`` names, is not measured again. ``--table``
prints Markdown from it.
"""

import argparse
from collections.abc import Mapping
from typing import Any

import passsearch
from benchmarks.common import RESULTS, engine_rows, markdown, network_session, options, read_rows, throughput, write_row

NETWORKS = ("llama_decode", "bert_base_16", "gpt2")
STORAGES = ("bfloat16", "float16", "int8", "int4", "int8-activations", "int4-activations")
"""Storages of weights; those with ``-activations`` have products of integers."""

PLAIN = "relax:decoder-schedule-cpu"
TOLERANCE = 2.0
"""All outputs are admitted: their deviation is what is to be stated."""


def measure(network: str, storage: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fastest inferences of every process, and the deviation from the network's own framework."""
    narrow = f"relax:narrow-{storage}-schedule-cpu"
    document = passsearch.bench(
        f"zoo:{network}",
        [PLAIN, narrow],
        baseline=PLAIN,
        processes=arguments.processes,
        rounds=arguments.rounds,
        tolerance=TOLERANCE,
    )
    rows = engine_rows(document)
    return {"float32": rows[PLAIN], storage: rows[narrow]}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network and storage."""
    lines = []
    for name, row in rows.items():
        network, storage = name.split()
        plain, narrow = row["float32"], row[storage]
        if "failure" in plain or "failure" in narrow:
            lines.append([network, storage, "–", "–", narrow.get("failure", plain.get("failure")), "–"])
            continue
        times = [f"{1e3 * each['fastest_s']:.2f}" for each in (plain, narrow)]
        lines.append([network, storage, *times, f"{throughput(narrow, plain):.2f}", f"{narrow['deviation']:.1e}"])
    heads = ("network", "storage", "float32, ms", "narrow, ms", "throughput narrow / float32", "largest deviation")
    return markdown(heads, lines)


def main() -> None:
    arguments = options(
        __doc__,
        ("networks", NETWORKS),
        processes=3,
        rounds=3,
        storage=("", "the only storage to measure"),
        out=RESULTS / "narrow_weights.json",
        table=(False, "print Markdown, and measure nothing"),
    )
    known = read_rows(arguments.out, "networks")
    storages = [arguments.storage] if arguments.storage else STORAGES
    for network in arguments.networks:
        for storage in [each for each in storages if f"{network} {each}" not in known and not arguments.table]:
            row = measure(network, storage, arguments)
            session = network_session(f"zoo:{network}", "relax")
            write_row(arguments.out, "networks", name=f"{network} {storage}", row=row, session=session)
    print(table(read_rows(arguments.out, "networks")))


if __name__ == "__main__":
    main()
