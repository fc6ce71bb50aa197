"""Measures products by their number of columns, as this version and another schedule them.

``python benchmarks/columns.py --other TREE`` starts processes of the toolchain's interpreter, those of both versions in
turns. Each makes chains of products with weights of their own, for this processor and for AVX2, and times them.
``TREE`` is a checkout of the other version (``git worktree add TREE COMMIT``). Five minutes; ``--table`` prints the
JSON and measures nothing.
"""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import schedule_timing
from schedule_timing import ROOT, TARGET

RESULTS = Path(__file__).parent / "results" / "relax" / "columns.json"
ROWS, LAYERS, TURNS, THREADS, PROCESSES = 361, 12, 12, 2, 3
SIZES = (24, 40, 58, 72, 80, 112, 120, 144, 184, 200, 208, 240, 328, 364, 496, 512, 520, 720, 728, 1000, 1048)
AVX2 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3"


def measure() -> dict[str, float]:
    """Return the fastest time of one product in seconds by size and target, in this process with TVM."""
    seconds = {}
    for target in dict.fromkeys((os.environ[TARGET], AVX2)):
        os.environ[TARGET] = target
        for size in SIZES:
            name = f"{size} by {target}"
            seconds[name] = schedule_timing.fastest({name: _network(size)}, turns=TURNS)[name] / LAYERS
    return seconds


def _network(size: int) -> Callable[[], object]:
    import numpy as np
    from tvm import relax
    from tvm.relax import op

    random = np.random.default_rng(0)

    def body(builder: Any, value: Any) -> Any:
        for _ in range(LAYERS):
            weights = relax.const((random.standard_normal((size, size)) / size**0.5).astype("float32"))
            value = builder.emit(op.matmul(value, weights))
        return value

    return schedule_timing.timed((ROWS, size), body)


def main() -> None:
    """Measure and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, help="checkout of the other version")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args()
    if not options.table:
        if options.other is None:
            parser.error("--other is needed: a checkout of the version to compare with")
        trees = {"other": options.other, "this": ROOT}
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
        for turn in range(PROCESSES):
            for name in list(trees)[:: -1 if turn % 2 else 1]:
                runs[name].append(schedule_timing.run_by_toolchain(__file__, trees[name], threads=THREADS))
        sizes = runs["this"][0]
        seconds = {size: {name: min(run[size] for run in runs[name]) for name in trees} for size in sizes}
        commits = {name: schedule_timing.commit_of(tree) for name, tree in trees.items()}
        settings = {"commits": commits, "threads": THREADS, "processes": PROCESSES}
        schedule_timing.write(options.out, {**settings, "seconds": seconds})
    print(table(schedule_timing.read(options.out)))


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: GFLOP/s by version and their ratio, by columns and target."""
    targets = dict.fromkeys(name.partition(" by ")[2] for name in document["seconds"])
    heads = [f"{target.rpartition('=')[2]}: before, GFLOP/s | now | ratio" for target in targets]
    lines = [f"| columns | {' | '.join(heads)} |", "|---:" * (1 + 3 * len(heads)) + "|"]
    for size in SIZES:
        cells = [str(size)]
        for target in targets:
            seconds = document["seconds"][f"{size} by {target}"]
            before, now = (2 * ROWS * size**2 / seconds[version] / 1e9 for version in ("other", "this"))
            cells += [f"{before:.0f}", f"{now:.0f}", f"{now / before:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if os.environ.get(schedule_timing.ANSWER):
        schedule_timing.answer(measure)
    else:
        main()
