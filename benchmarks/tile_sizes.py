"""Measures a product in tiles of every size, which is where the constants of ``schedules/tiling.py`` come from.

``python benchmarks/tile_sizes.py`` starts one process of the toolchain's interpreter with one thread. It multiplies 360
rows of 512 numbers with 512 columns, six times with other weights, in tiles of each size in turns. Half a minute;
``--table`` prints the JSON and measures nothing.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import schedule_timing

RESULTS = Path(__file__).parent / "results" / "relax" / "tile_sizes.json"
ROWS, SIZE, LAYERS, TURNS = 360, 512, 6, 40
HEIGHTS, WIDTHS, MOST_SUMS = (2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 18, 20, 24), (1, 2, 4), 28


def measure() -> dict[str, float]:
    """Return the fastest time of one product in seconds by tile, ``rows x vectors``, in this process with TVM."""
    from passsearch.standalone.relax.cpu_schedules import tiling

    sizes = [(height, width) for width in WIDTHS for height in HEIGHTS if 8 <= height * width <= MOST_SUMS]
    runs = {}
    for size in sizes:
        tiling._tile_size = lambda *_, size=size, **__: size  # type: ignore[assignment]
        runs[f"{size[0]} x {size[1]}"] = _network()
    return {name: seconds / LAYERS for name, seconds in schedule_timing.fastest(runs, turns=TURNS).items()}


def _network() -> Callable[[], object]:
    import numpy as np
    from tvm import relax
    from tvm.relax import op

    random = np.random.default_rng(0)

    def body(builder: Any, value: Any) -> Any:
        for _ in range(LAYERS):
            weights = relax.const(random.standard_normal((SIZE, SIZE), dtype="float32") / 30)
            value = builder.emit(op.matmul(value, weights))
        return value

    return schedule_timing.timed((ROWS, SIZE), body, prefetch=0)


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: GFLOP/s by the rows of a tile and the vectors in a row."""
    rate = {tile: 2 * ROWS * SIZE * SIZE / seconds / 1e9 for tile, seconds in document["seconds"].items()}
    lines = [f"| rows | {' | '.join(f'{width} in a row' for width in WIDTHS)} |", "|---:|" + "---:|" * len(WIDTHS)]
    for height in HEIGHTS:
        names = (f"{height} x {width}" for width in WIDTHS)
        lines.append(f"| {height} | {' | '.join(f'{rate[name]:.0f}' if name in rate else '–' for name in names)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    schedule_timing.main(__file__, __doc__.splitlines()[0], measure, table, results=RESULTS, threads=1)
