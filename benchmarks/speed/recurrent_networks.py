"""Times speech and sensor networks with recurrent layers beside ONNX Runtime.

``python -m benchmarks.speed.recurrent_networks`` measures each network of ``recurrent_files.py``: several processes, in
each of which both engines run in turns; names after it choose networks. What is in
``benchmarks/results/recurrent_networks.json``, or in the file that ``--out`` names, is not measured again. ``--table``
prints Markdown from it.
"""

import argparse
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import passsearch
from benchmarks.common import RESULTS, markdown, network_session, options, read_rows, write_row
from benchmarks.speed.recurrent_files import LONG, NETWORKS, write_network
from passsearch.measure import mean_ratio

RIVAL = "onnxruntime"
SEQUENCES = dict.fromkeys(("keyword_spotting", "line_reader", "speech_recognition", "voice_detection"), "nhwc-")
"""Beginning of the sequence's name by network; the others have no convolutions."""


def measure(file: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fastest inferences of every process, the ratio with its interval, and the seconds of compiling."""
    own = f"relax:{SEQUENCES.get(file.stem, '')}schedule-cpu"
    document = passsearch.bench(
        str(file), [own, RIVAL], baseline=RIVAL, processes=arguments.processes, rounds=arguments.rounds
    )
    rows = {row["engine"]: row for row in document["rows"]}
    kept = ("failure", "fastest_s", "compile_s", "deviation", "process_fastest_s")
    engines = {name: {key: row[key] for key in kept if key in row} for name, row in rows.items()}
    row = {"sequence": own, "engines": {"relax": engines[own], RIVAL: engines[RIVAL]}}
    if any("failure" in engine for engine in engines.values()):
        return row
    pairs = zip(engines[RIVAL]["process_fastest_s"], engines[own]["process_fastest_s"], strict=True)
    ratio = mean_ratio([math.log(theirs / ours) for theirs, ours in pairs])
    return {**row, "ratio": ratio.value, "interval": [ratio.interval.low, ratio.interval.high]}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network."""
    lines = []
    for name, row in sorted(rows.items()):
        engines = row["engines"]
        if "ratio" not in row:
            lines.append([name, *(each.get("failure", "–") for each in engines.values()), "–", "–"])
            continue
        times = [f"{1e3 * engine['fastest_s']:.2f}" for engine in engines.values()]
        low, high = row["interval"]
        lines.append([name, *times, f"{row['ratio']:.2f} ({low:.2f} to {high:.2f})",
                      f"{engines['relax']['compile_s']:.1f}"])  # fmt: skip
    heads = ("network", "TVM, ms", "ONNX Runtime, ms", "TVM / ONNX Runtime", "compiled in, s")
    return markdown(heads, lines)


def main() -> None:
    arguments = options(
        __doc__,
        ("networks", (*NETWORKS, LONG)),
        processes=3,
        rounds=3,
        out=RESULTS / "recurrent_networks.json",
        table=(False, "print Markdown, and measure nothing"),
    )
    known = read_rows(arguments.out, "networks")
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in arguments.networks if name not in known and not arguments.table]:
            file = write_network(name, Path(folder))
            row = measure(file, arguments)
            session = network_session(str(file), "relax")
            write_row(arguments.out, "networks", name=name, row=row, session=session)
    print(table(read_rows(arguments.out, "networks")))


if __name__ == "__main__":
    main()
