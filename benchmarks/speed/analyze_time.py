"""Measures ``passsearch analyze``.

``python -m benchmarks.speed.analyze_time --out benchmarks/results/analyze_time.json``.

Each network is analyzed by new processes, first with an empty cache, then with the cache that this left. Processor time
is that of the command and of its compiler, so a busy machine changes it less than wall time. A file of another version
can be given to compare with; the same command again measures only what its file lacks.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NETWORKS = ("zoo:resnet50", "zoo:bert_base")
TOOLCHAINS = ("relax", "relay")
LIMIT_S = 300.0
"""Time after which one analysis is given up, in seconds."""


def analyze(network: str, toolchain: str, *, cache: Path) -> dict[str, float]:
    """Return wall and processor seconds of one analysis in a new process."""
    command = [sys.executable, "-m", "passsearch", "analyze", network, "--toolchain", toolchain, "--json"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=LIMIT_S,
    )
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(wall_s, 2), "processor_s": round(processor_s, 2)}


def measure(network: str, toolchain: str, *, repetitions: int) -> dict[str, Any]:
    """Return the samples of one network on one toolchain: without and with a cache."""
    cold, warm = [], []
    for _ in range(repetitions):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(analyze(network, toolchain, cache=Path(folder)))
            warm.append(analyze(network, toolchain, cache=Path(folder)))
    return {"empty cache": cold, "cached": warm}


def main() -> None:
    """Measure what the file lacks, and print a table with the other file's times beside."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--toolchains", default=",".join(TOOLCHAINS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--before", type=Path, help="file of another version to compare with")
    arguments = parser.parse_args()
    rows: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for network in arguments.networks.split(","):
        for toolchain in arguments.toolchains.split(","):
            key = f"{network} {toolchain}"
            if key not in rows:
                rows[key] = measure(network, toolchain, repetitions=arguments.repetitions)
                arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    before = json.loads(arguments.before.read_text()) if arguments.before else {}
    for key, row in rows.items():
        for state, samples in row.items():
            earlier = before.get(key, {}).get(state)
            was = f", before {_best(earlier)}" if earlier else ""
            print(f"{key:28} {state:12} {_best(samples)}{was}")


def _best(samples: list[dict[str, float]]) -> str:
    """Return the quickest sample as text."""
    best = min(samples, key=lambda sample: sample["wall_s"])
    return f"{best['wall_s']:.1f} s ({best['processor_s']:.1f} s of processors)"


if __name__ == "__main__":
    main()
