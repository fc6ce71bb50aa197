"""Measures products whose columns do not divide into vectors: packed parts of vectors beside whole ones that overlap.

``python benchmarks/part_vectors.py`` starts one process of the toolchain's interpreter. For this processor and for AVX2
it makes a chain of 24 products with weights of their own, by each of both ways, and runs both in turns. Two minutes;
``--table`` prints the JSON and measures nothing.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import schedule_timing
from schedule_timing import TARGET

RESULTS = Path(__file__).parent / "results" / "relax" / "part_vectors.json"
ROWS, LAYERS, TURNS = 400, 24, 20
SIZES = (20, 36, 44, 58, 68, 100, 116, 204, 364, 724)
AVX2 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3"


def measure() -> dict[str, dict[str, float]]:
    """Return the fastest time of one product in seconds by way, by size and target, in this process with TVM."""
    from passsearch.dialects.relax.schedules import tiling

    most_bytes, seconds = tiling.LARGEST_UNPACKED_BYTES, {}
    for target in (os.environ[TARGET], AVX2):
        os.environ[TARGET] = target
        for size in SIZES:
            runs = {}
            for way, limit in (("parts", 0), ("whole", most_bytes)):
                tiling.LARGEST_UNPACKED_BYTES = limit
                runs[way] = _network(size)
            fastest = schedule_timing.fastest(runs, turns=TURNS)
            seconds[f"{size} by {target}"] = {way: each / LAYERS for way, each in fastest.items()}
    return seconds


def _network(size: int) -> Callable[[], object]:
    import numpy as np
    from tvm import relax
    from tvm.relax import op

    random = np.random.default_rng(0)

    def body(builder: Any, value: Any) -> Any:
        for _ in range(LAYERS):
            weights = relax.const(random.standard_normal((size, size), dtype="float32") / size**0.5)
            value = builder.emit(op.matmul(value, weights))
        return value

    return schedule_timing.timed((ROWS, size), body)


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: GFLOP/s by way and their ratio, by columns and target."""
    lines = ["| columns | target | parts, GFLOP/s | whole, GFLOP/s | ratio |", "|---:|---|---:|---:|---:|"]
    for name, seconds in document["seconds"].items():
        size, _, target = name.partition(" by ")
        rates = (f"{2 * ROWS * int(size) ** 2 / seconds[way] / 1e9:.0f}" for way in ("parts", "whole"))
        ratio = seconds["parts"] / seconds["whole"]
        lines.append(f"| {size} | {target.rpartition('=')[2]} | {' | '.join(rates)} | {ratio:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    schedule_timing.main(__file__, __doc__.splitlines()[0], measure, table, results=RESULTS, threads=1)
