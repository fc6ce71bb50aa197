"""Times networks that no schedule was written for beside ONNX Runtime and OpenVINO.

``python -m benchmarks.speed.other_networks FOLDER --engines-python VENV/bin/python`` writes the networks into a folder
as ONNX, with random weights, and measures each by one sequence of the catalog; names after the folder choose some. VENV
is an environment with ``torch``, ``timm``, ``transformers``, ``onnx``, ``onnxscript``, ``onnxruntime`` and
``openvino``. Networks that are in ``benchmarks/results/engines/other_networks.json``, or in the file that ``--out``
names, are not measured again. ``--table`` prints Markdown from it.
"""

import argparse
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import passsearch
from benchmarks.common import RESULTS, markdown, network_session, options, read_rows, write_row
from benchmarks.speed import network_files
from benchmarks.speed.held_out import RIVALS, verdicts
from passsearch.measure import Ratio, mean_ratio

TVM, ONNXRUNTIME, OPENVINO = "relax:", *RIVALS
SEQUENCES = dict.fromkeys(("repvgg_a2", "hrnet_w18_small"), "winograd-schedule-cpu")
"""The sequence of the catalog by network; ``nhwc-schedule-cpu`` for all others."""


def measure(file: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fastest inference of each engine, over all processes and in each of them."""
    sequence = SEQUENCES.get(file.stem, "nhwc-schedule-cpu")
    document = passsearch.bench(
        str(file),
        [f"relax:{sequence}", ONNXRUNTIME, OPENVINO],
        baseline=ONNXRUNTIME,
        engines_python=arguments.engines_python,
        processes=arguments.processes,
        rounds=arguments.rounds,
    )
    rows = {row["engine"].removesuffix(sequence): row for row in document["rows"]}
    kept = ("failure", "fastest_s", "compile_s", "deviation", "process_fastest_s")
    return {
        "sequence": sequence,
        "processes": arguments.processes,
        "versions": {name: version for row in rows.values() for name, version in row.get("versions", {}).items()},
        "engines": {name: {key: row[key] for key in kept if key in row} for name, row in rows.items()},
    }


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network, those that TVM gains most on over ONNX Runtime first."""
    ratios = {name: [_ratio(row["engines"], other) for other in (ONNXRUNTIME, OPENVINO)] for name, row in rows.items()}
    lines = []
    for name in sorted(ratios, key=lambda name: -ratios[name][0].value if ratios[name][0] else 0.0):
        engines = [rows[name]["engines"][engine] for engine in (TVM, ONNXRUNTIME, OPENVINO)]
        times = [f"{1e3 * each['fastest_s']:.1f}" if "fastest_s" in each else each["failure"] for each in engines]
        lines.append([name, *times, *(f"{ratio:.3f}" if ratio else "–" for ratio in ratios[name])])
    heads = ("network", "TVM, ms", "ONNX Runtime, ms", "OpenVINO, ms", "TVM / ONNX Runtime", "TVM / OpenVINO")
    parts = [markdown(heads, lines)]
    found = verdicts(rows, own=TVM, count=len(RIVALS) * len(rows))
    for place, title in enumerate(("ONNX Runtime", "OpenVINO")):
        known = [each[place] for each in ratios.values() if each[place]]
        faster, slower = sum(each.interval.low > 1 for each in known), sum(each.interval.high < 1 for each in known)
        parts.append(f"Certainly faster than {title} on {faster} of {len(known)}, slower on {slower}.")
        own = [verdict for (_, rival), verdict in found.items() if rival == RIVALS[place]]
        counts = f"faster on {own.count('faster')}, slower on {own.count('slower')}"
        parts.append(f"Corrected for all {len(found)} comparisons (Holm): {counts}.")
    return "\n\n".join(parts)


def _ratio(engines: Mapping[str, Any], other: str) -> Ratio | None:
    """Return TVM's throughput as a multiple of another engine's, over the processes; ``None`` if one of them failed."""
    pair = [engines[name].get("process_fastest_s") for name in (other, TVM)]
    return None if None in pair else mean_ratio([math.log(theirs / own) for theirs, own in zip(*pair, strict=True)])


def main() -> None:
    arguments = options(
        __doc__,
        ("folder", Path),
        ("networks", (*network_files.TIMM, *network_files.TRANSFORMERS)),
        engines_python=(sys.executable, "interpreter with the engines"),
        processes=4,
        rounds=3,
        out=RESULTS / "engines" / "other_networks.json",
        table=(False, "print Markdown, and measure nothing"),
    )
    known = read_rows(arguments.out, "networks")
    for name in [name for name in arguments.networks if name not in known and not arguments.table]:
        file = arguments.folder / f"{name}.onnx"
        if not file.exists():
            arguments.folder.mkdir(parents=True, exist_ok=True)
            subprocess.run([arguments.engines_python, network_files.__file__, name, file], check=True)
        row = measure(file, arguments)
        write_row(arguments.out, "networks", name=name, row=row, session=network_session(str(file), "relax"))
    print(table(read_rows(arguments.out, "networks")))


if __name__ == "__main__":
    main()
