"""Measures a product in tiles of every size, which is where the constants of ``schedules/tiling.py`` come from.

``python benchmarks/tile_sizes.py`` starts one process of the toolchain's interpreter with one thread. It multiplies 360
rows of 512 numbers with 512 columns, six times with other weights, in tiles of each size in turns. Half a minute;
``--table`` prints the JSON and measures nothing.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "relax" / "tile_sizes.json"
ROWS, SIZE, LAYERS, TURNS = 360, 512, 6, 40
HEIGHTS, WIDTHS, MOST_SUMS = (2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 18, 20, 24), (1, 2, 4), 28


def measure() -> dict[str, float]:
    """Return the fastest time of one product in seconds by tile, ``rows x vectors``, in this process with TVM."""
    from passsearch.dialects.relax.schedules import tiling

    sizes = [(height, width) for width in WIDTHS for height in HEIGHTS if 8 <= height * width <= MOST_SUMS]
    runs = {}
    for size in sizes:
        tiling._tile_size = lambda *_, size=size, **__: size  # type: ignore[assignment]
        runs[f"{size[0]} x {size[1]}"] = _network()
    fastest = dict.fromkeys(runs, math.inf)
    for _ in range(TURNS):
        for name, run in runs.items():
            run()  # the weights of the tile before are in the caches
            begin = time.perf_counter()
            run()
            fastest[name] = min(fastest[name], (time.perf_counter() - begin) / LAYERS)
    return fastest


def _network() -> Callable[[], object]:
    import numpy as np
    import tvm
    from tvm import relax
    from tvm.relax import op, transform

    from passsearch.dialects.relax.lowering import ZERO, lower, target_options
    from passsearch.dialects.relax.schedules import ScheduleCPU

    random = np.random.default_rng(0)
    builder = relax.BlockBuilder()
    value = data = relax.Var("x", relax.TensorType((ROWS, SIZE), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            for _ in range(LAYERS):
                weights = relax.const(random.standard_normal((SIZE, SIZE), dtype="float32") / 30)
                value = builder.emit(op.matmul(value, weights))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    target = tvm.target.Target(target_options(os.environ["TILE_TARGET"]))
    with target:
        scheduled = tvm.transform.Sequential([transform.LegalizeOps(), ScheduleCPU(prefetch=0)])(builder.get())
        module = lower(scheduled, level=ZERO, target=target)
        machine = relax.VirtualMachine(relax.build(module, target, relax_pipeline=None), tvm.cpu())
    inputs = tvm.runtime.tensor(random.standard_normal((ROWS, SIZE), dtype="float32"))
    machine.save_function("main", "timed", inputs, include_return=False)
    return machine["timed"]  # type: ignore[no-any-return]


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: GFLOP/s by the rows of a tile and the vectors in a row."""
    rate = {tile: 2 * ROWS * SIZE * SIZE / seconds / 1e9 for tile, seconds in document["seconds"].items()}
    lines = [f"| rows | {' | '.join(f'{width} in a row' for width in WIDTHS)} |", "|---:|" + "---:|" * len(WIDTHS)]
    for height in HEIGHTS:
        names = (f"{height} x {width}" for width in WIDTHS)
        lines.append(f"| {height} | {' | '.join(f'{rate[name]:.0f}' if name in rate else '–' for name in names)} |")
    return "\n".join(lines)


def main() -> None:
    """Start the process, write the JSON and print the table."""
    from passsearch.measure import probe
    from passsearch.toolchain import get_toolchain, host_target

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args()
    if not options.table:
        toolchain = get_toolchain("relax")
        target = host_target(toolchain)
        with TemporaryDirectory() as folder:
            answer = Path(folder) / "answer.json"  # TVM prints to standard output
            own = {"PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": "1", "TILE_TARGET": target, "TILE_ANSWER": str(answer)}
            subprocess.run([str(toolchain.python), __file__], env={**os.environ, **own}, stdout=sys.stderr, check=True)
            seconds = json.loads(answer.read_text())
        document = {"date": date.today().isoformat(), "device": dict(probe("cpu").device), "target": target}
        options.out.write_text(json.dumps({**document, "threads": 1, "seconds": seconds}, indent=1) + "\n")
    print(table(json.loads(options.out.read_text())))


if __name__ == "__main__":
    if answer_file := os.environ.get("TILE_ANSWER"):
        Path(answer_file).write_text(json.dumps(measure()))
    else:
        main()
