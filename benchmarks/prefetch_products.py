"""Measures products and convolutions whose weights come from memory, by prefetches and by the width of tiles.

``python benchmarks/prefetch_products.py`` starts new processes of the toolchain's interpreter. Each makes a network of
16 pairs of products (768 by 3,072 and 3,072 by 768, 302 MB of weights) or of several equal convolutions (3 by 3) for
every kind of schedule, and runs these networks in turns. ``--table`` prints the JSON and measures nothing.
"""

import argparse
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import schedule_timing
from schedule_timing import ANSWER, ROOT

RESULTS = ROOT / "benchmarks" / "results" / "prefetch_products.json"
ROWS, LAYERS, SIZES, TURNS = (1, 4, 8, 16, 32, 64, 128, 256), 16, (768, 3072), 8
CONVOLUTIONS = {"28 by 28, 128 channels": (28, 128, 24), "14 by 14, 256": (14, 256, 16), "7 by 7, 512": (7, 512, 8)}
"""Size of the map, channels, and number of convolutions."""

KINDS: dict[str, dict[str, Any]] = {
    "without": {"prefetch": 0},
    "one vector": {"prefetch": 0, "vectors": 1},
    "two vectors": {"prefetch": 0, "vectors": 2},
    "default": {},
    "every 8 steps, one vector": {"prefetch": 8, "vectors": 1},
    "every 8 steps, two vectors": {"prefetch": 8, "vectors": 2},
    "every 64 steps, two vectors": {"prefetch": 64, "vectors": 2},
}
"""Arguments of ``ScheduleCPU``. The first kind is the reference."""


def measure() -> dict[str, Any]:
    """Return the fastest run of every network in seconds, by case and kind, in this process with TVM."""
    from passsearch.measure.processor import pin_process

    pin_process(int(os.environ["TVM_NUM_THREADS"]))
    cases: dict[str, tuple[tuple[int, ...], Callable[[Any, Any], Any]]] = {
        str(rows): ((rows, SIZES[0]), _products) for rows in ROWS
    }
    for name, (size, channels, number) in CONVOLUTIONS.items():
        cases[name] = (1, size, size, channels), lambda builder, value, number=number: _convolve(builder, value, number)
    return {
        name: schedule_timing.fastest(
            {kind: schedule_timing.timed(shape, body, **settings) for kind, settings in KINDS.items()}, turns=TURNS
        )
        for name, (shape, body) in cases.items()
    }


def _products(builder: Any, value: Any) -> Any:
    from tvm.relax import op

    for layer in range(LAYERS):
        for place, shape in enumerate((SIZES, SIZES[::-1])):
            value = builder.emit(op.matmul(value, _weights(shape, seed=2 * layer + place)))
    return value


def _convolve(builder: Any, value: Any, number: int) -> Any:
    from tvm.relax import op

    channels = int(value.ty.shape[3])
    for layer in range(number):
        weights = _weights((3, 3, channels, channels), seed=layer)
        layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
        value = builder.emit(op.nn.conv2d(value, weights, padding=(1, 1), **layouts))
    return value


def _weights(shape: tuple[int, ...], *, seed: int) -> Any:
    import numpy as np
    from tvm import relax

    # Small enough that no chain of products overflows.
    scale = math.prod(shape[:-1]) ** -0.5
    return relax.const(scale * np.random.default_rng(seed).standard_normal(shape, dtype="float32"))


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: milliseconds of one pair of products or one convolution, and what each kind gives."""
    from passsearch.measure import mean_ratio

    # Those of the file: earlier versions measured two kinds.
    reference, *others = next(iter(document["processes"][0].values()))
    lines = [f"| rows, or map | {reference}, ms | {' | '.join(others)} |", "|---|---:|" + "---|" * len(others)]
    for name in document["processes"][0]:
        number = CONVOLUTIONS[name][2] if name in CONVOLUTIONS else LAYERS
        runs = [process[name] for process in document["processes"]]
        cells = [name, f"{1e3 * min(run[reference] for run in runs) / number:.3f}"]
        for kind in others:
            gain = mean_ratio([math.log(run[reference] / run[kind]) for run in runs])
            cells.append(f"{gain:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Start the processes, write the JSON and print the table."""
    from passsearch.core import physical_cores

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args()
    if not options.table:
        threads = physical_cores()
        answers = [schedule_timing.run_by_toolchain(__file__, ROOT, threads=threads) for _ in range(options.processes)]
        schedule_timing.write(options.out, {"threads": threads, "processes": answers})
    print(table(schedule_timing.read(options.out)))


if __name__ == "__main__":
    if os.environ.get(ANSWER):
        schedule_timing.answer(measure)
    else:
        main()
