"""Measures ``passsearch analyze``: ``python -m benchmarks.speed.analyze_time --out FILE``.

Each network is analyzed by new processes, first with an empty cache, then with the cache that this left. Processor time
is that of the command and of its compiler, so a busy machine changes it less than wall time. The same command again
measures only what its file lacks.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

from benchmarks.common import RESULTS, options, read, write

LIMIT_S = 300.0
"""Time after which one analysis is given up, in seconds."""


def analyze(network: str, toolchain: str, *, cache: str) -> dict[str, float]:
    """Return wall and processor seconds of one analysis in a new process."""
    command = [sys.executable, "-m", "passsearch", "analyze", network, "--toolchain", toolchain, "--json"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=LIMIT_S)
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(wall_s, 2), "processor_s": round(processor_s, 2)}


def main() -> None:
    arguments = options(
        __doc__,
        ("networks", ("zoo:resnet50", "zoo:bert_base")),
        out=RESULTS / "analyze_time-after.json",
        toolchains="relax,relay",
        repetitions=3,
    )
    rows = read(arguments.out)
    for network in arguments.networks:
        for toolchain in arguments.toolchains.split(","):
            key = f"{network} {toolchain}"
            if key not in rows:
                row: dict[str, list[dict[str, float]]] = {"empty cache": [], "cached": []}
                for _ in range(arguments.repetitions):
                    with tempfile.TemporaryDirectory() as cache:
                        for samples in row.values():
                            samples.append(analyze(network, toolchain, cache=cache))
                rows[key] = row
                write(arguments.out, rows)
            for state, samples in rows[key].items():
                best = min(samples, key=lambda sample: sample["wall_s"])
                print(f"{key:28} {state:12} {best['wall_s']:.1f} s ({best['processor_s']:.1f} s of processors)")


if __name__ == "__main__":
    main()
