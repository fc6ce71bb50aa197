"""Times networks that ONNX Runtime quantised beside ONNX Runtime and OpenVINO on the same file.

``python -m benchmarks.speed.integer_networks`` makes each network once, in ``--folder``, by ``--python``, an
interpreter with PyTorch, torchvision, transformers and onnxruntime: random weights, and ``quantize_static`` with scales
for each channel and random inputs. Then all engines run in turns, in several processes. Names after it choose networks;
``resnet50-unsigned-narrow`` has activations without a sign, and weights of 7 bits.
What is in ``benchmarks/results/integer_networks.json``, or in the file that ``--out`` names, is not measured again.
``--table`` prints Markdown from it.
"""

import argparse
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import passsearch
from benchmarks.common import RESULTS, engine_rows, markdown, network_session, options, read_rows, throughput, write_row

NETWORKS = ("resnet50", "mobilenet_v2", "ssdlite320_mobilenet_v3_large", "bert_base", "shufflenet_v2_x1_0")
PLAIN, INTEGER = "relax:nhwc-schedule-cpu", "relax:integer-schedule-cpu"
RIVALS = ("onnxruntime", "openvino")
TOLERANCE = 2.0
"""All outputs are admitted: their deviation is what is to be stated.

It is that from the import: after so many roundings, two ways to compute such a network in float32 deviate by more than
is allowed between the import and ONNX Runtime.
"""


def quantized_file(network: str, arguments: argparse.Namespace) -> Path:
    """Return the file of a network, which is made if it is not there."""
    path = Path(arguments.folder) / f"{network}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        script = Path(__file__).with_name("quantized_network.py")
        subprocess.run([arguments.python, str(script), network, str(path)], check=True)
    return path


def output_step(path: Path) -> float:
    """Return the scale of the first output as a share of its largest value, for one random input; NaN without one."""
    model = onnx.load(str(path))
    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    last = next((node for node in model.graph.node if node.output[0] == model.graph.output[0].name), None)
    if last is None or last.op_type != "DequantizeLinear" or last.input[1] not in values:
        return math.nan
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    random, feeds = np.random.default_rng(0), {}
    for each in session.get_inputs():
        is_float = "float" in each.type
        feeds[each.name] = (
            random.standard_normal(each.shape).astype("float32") if is_float else random.integers(0, 1000, each.shape)
        )
    return float(values[last.input[1]].max() / np.abs(session.run(None, feeds)[0]).max())


def measure(network: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fastest inferences of every process, deviations, and the step of the output."""
    path = quantized_file(network, arguments)
    document = passsearch.bench(
        str(path),
        [PLAIN, INTEGER, *RIVALS],
        baseline="onnxruntime",
        processes=arguments.processes,
        rounds=arguments.rounds,
        tolerance=TOLERANCE,
        engines_python=arguments.python,
        reference="import",
    )
    return {"step": output_step(path), "engines": engine_rows(document)}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network."""
    lines = []
    for network, row in rows.items():
        engines = row["engines"]
        own = engines[INTEGER]
        cells = [
            network,
            *(f"{1e3 * each['fastest_s']:.2f}" if "fastest_s" in each else "–" for each in engines.values()),
        ]
        for rival in (PLAIN, *RIVALS):
            other = engines.get(rival, {})
            if "process_fastest_s" not in own or "process_fastest_s" not in other:
                cells.append("–")
                continue
            cells.append(f"{throughput(own, other):.2f}")
        cells.append(f"{own.get('deviation', math.nan) / row['step']:.1f}")
        lines.append(cells)
    times = (f"{name}, ms" for name in (PLAIN, INTEGER, *RIVALS))
    ratios = (f"throughput / {name}" for name in ("float32", *RIVALS))
    return markdown(("network", *times, *ratios, "largest deviation, steps"), lines)


def main() -> None:
    arguments = options(
        __doc__,
        ("networks", NETWORKS),
        processes=3,
        rounds=3,
        folder=("quantized_networks", "where the networks are"),
        python=(sys.executable, "interpreter that makes them and has the engines"),
        out=RESULTS / "integer_networks.json",
        table=(False, "print Markdown, and measure nothing"),
    )
    known = read_rows(arguments.out, "networks")
    for network in [each for each in arguments.networks if each not in known and not arguments.table]:
        row = measure(network, arguments)
        session = network_session(str(quantized_file(network, arguments)), "relax")
        write_row(arguments.out, "networks", name=network, row=row, session=session)
    print(table(read_rows(arguments.out, "networks")))


if __name__ == "__main__":
    main()
