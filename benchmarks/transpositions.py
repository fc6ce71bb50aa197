"""Measures transpositions in tiles and without: ``python benchmarks/transpositions.py``.

It starts one process of the toolchain's interpreter with two threads, which brings maps of several sizes from channels
last to channels first, by ``ScheduleCPU`` as it is and without its tiles, in turns. Half a minute; ``--table`` prints
the JSON and measures nothing.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import schedule_timing

RESULTS = Path(__file__).parent / "results" / "relax" / "transpositions.json"
MAPS = ((7, 7, 512), (19, 19, 273), (57, 57, 256), (112, 112, 128), (256, 256, 32))
"""Height, width and channels of a map."""
TURNS, THREADS = 30, 2


def measure() -> dict[str, dict[str, float]]:
    """Return the fastest seconds of each map, with tiles and without, in this process with TVM."""
    from tvm.relax import op

    from passsearch.standalone.relax.cpu_schedules import scheduler

    def all_maps() -> dict[tuple[int, ...], Any]:
        return {
            shape: schedule_timing.timed((1, *shape), lambda _, data: op.permute_dims(data, [0, 3, 1, 2]))
            for shape in MAPS
        }

    tiled = all_maps()
    with mock.patch.object(scheduler, "contiguous_place", return_value=None):
        plain = all_maps()
    return {
        " x ".join(map(str, shape)): schedule_timing.fastest({"without": plain[shape], "with": run}, turns=TURNS)
        for shape, run in tiled.items()
    }


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: milliseconds, and gigabytes a second that are read and written."""
    lines = ["| map | without tiles, ms | with, ms | without, GB/s | with, GB/s |", "|---|---:|---:|---:|---:|"]
    for name, seconds in document["seconds"].items():
        gigabytes = 2 * 4 * math.prod(map(int, name.split(" x "))) / 1e9
        times = [seconds[each] for each in ("without", "with")]
        cells = [f"{1e3 * each:.3f}" for each in times] + [f"{gigabytes / each:.1f}" for each in times]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    schedule_timing.main(__file__, __doc__.splitlines()[0], measure, table, results=RESULTS, threads=THREADS)
