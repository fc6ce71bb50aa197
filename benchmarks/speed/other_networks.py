"""Times networks that no schedule was written for beside ONNX Runtime and OpenVINO.

``python -m benchmarks.speed.other_networks FOLDER --engines-python VENV/bin/python`` writes the networks into a folder
as ONNX, with random weights, and measures each by one sequence of the catalog; names after the folder choose some. VENV
is an environment with ``torch``, ``timm``, ``transformers``, ``onnx``, ``onnxscript``, ``onnxruntime`` and
``openvino``. ``benchmarks/results/engines/other_networks.json``, or the file that ``--out`` names, gets the ratios;
networks that are in it are not measured again. ``--table`` prints Markdown from it."""

import argparse
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import passsearch
from benchmarks.common import network_session, read_rows, write_row
from benchmarks.speed.network_files import TIMM, TRANSFORMERS
from passsearch.measure import Ratio, mean_ratio

RESULTS = Path(__file__).parents[1] / "results" / "engines" / "other_networks.json"
TVM, ONNXRUNTIME, OPENVINO = "relax:", "onnxruntime", "openvino"

SEQUENCES = dict.fromkeys(("repvgg_a2", "hrnet_w18_small"), "winograd-schedule-cpu")
"""The sequence of the catalog by network; ``nhwc-schedule-cpu`` for all others."""


def measure(file: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the fastest inference of each engine, over all processes and in each of them."""
    sequence = SEQUENCES.get(file.stem, "nhwc-schedule-cpu")
    document: Mapping[str, Any] = passsearch.bench(
        str(file),
        [f"relax:{sequence}", ONNXRUNTIME, OPENVINO],
        baseline=ONNXRUNTIME,
        engines_python=options.engines_python,
        processes=options.processes,
        rounds=options.rounds,
    )
    rows = {row["engine"].removesuffix(sequence): row for row in document["rows"]}
    return {
        "sequence": sequence,
        "processes": options.processes,
        "versions": {name: version for row in rows.values() for name, version in row.get("versions", {}).items()},
        "engines": {name: _engine(row) for name, row in rows.items()},
    }


def _engine(row: Mapping[str, Any]) -> dict[str, Any]:
    if "failure" in row:
        return {"failure": row["failure"]}
    kept = {name: row[name] for name in ("fastest_s", "compile_s", "deviation")}
    return {**kept, "process_fastest_s": row["process_fastest_s"]}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network, those that TVM gains most on over ONNX Runtime first."""
    lines = [
        "| network | TVM, ms | ONNX Runtime, ms | OpenVINO, ms | TVM / ONNX Runtime | TVM / OpenVINO |",
        "|---|---:|---:|---:|---|---|",
    ]
    ratios = {name: [_ratio(row["engines"], other) for other in (ONNXRUNTIME, OPENVINO)] for name, row in rows.items()}
    for name in sorted(ratios, key=lambda name: -ratios[name][0].value if ratios[name][0] else 0.0):
        times = [_milliseconds(rows[name]["engines"][engine]) for engine in (TVM, ONNXRUNTIME, OPENVINO)]
        lines.append(f"| {name} | {' | '.join([*times, *map(_text, ratios[name])])} |")
    for place, title in enumerate(("ONNX Runtime", "OpenVINO")):
        known = [each[place] for each in ratios.values() if each[place]]
        faster, slower = sum(each.interval.low > 1 for each in known), sum(each.interval.high < 1 for each in known)
        lines += ["", f"Certainly faster than {title} on {faster} of {len(known)}, slower on {slower}."]
    return "\n".join(lines)


def _milliseconds(engine: Mapping[str, Any]) -> str:
    return f"{1e3 * engine['fastest_s']:.1f}" if "fastest_s" in engine else str(engine["failure"])


def _ratio(engines: Mapping[str, Any], other: str) -> Ratio | None:
    """Return TVM's throughput as a multiple of another engine's, over the processes; ``None`` if one of them failed."""
    pair = [engines[name].get("process_fastest_s") for name in (other, TVM)]
    if None in pair:
        return None
    return mean_ratio([math.log(theirs / own) for theirs, own in zip(*pair, strict=True)])


def _text(ratio: Ratio | None) -> str:
    return f"{ratio:.3f}" if ratio else "–"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the networks; those that are there are not made again")
    parser.add_argument("networks", nargs="*", default=(*TIMM, *TRANSFORMERS), help="(%(default)s)")
    parser.add_argument("--engines-python", default=sys.executable, help="interpreter with the engines")
    parser.add_argument("--processes", type=int, default=4, help="of each engine (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of each process (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of results (%(default)s)")
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args(argv)
    for name in [] if options.table else options.networks:
        file = options.folder / f"{name}.onnx"
        if name in read_rows(options.out, "networks"):
            continue
        if not file.exists():
            options.folder.mkdir(parents=True, exist_ok=True)
            maker = Path(__file__).with_name("network_files.py")
            subprocess.run([options.engines_python, maker, name, file], check=True)
        row = measure(file, options)
        write_row(options.out, "networks", name=name, row=row, session=network_session(str(file), "relax"))
    print(table(read_rows(options.out, "networks")))


if __name__ == "__main__":
    main()
