"""Measures the seconds that ``import passsearch`` adds to an interpreter: ``python benchmarks/import_time.py``.

With ``--relay``, measures instead what the import of Relay's bridge takes, which begins every worker of that toolchain,
beside one that imports SciPy's statistics too, as TVM's quantization does by itself.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from passsearch.toolchain import get_toolchain

ROOT = Path(__file__).parents[1]
BRIDGE = "import passsearch.dialects.relay.bridge"


def run_s(code: str, python: str = sys.executable) -> float:
    """Return the wall time of one new interpreter."""
    start = time.perf_counter()
    subprocess.run([python, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return time.perf_counter() - start


def main() -> None:
    """Time both in turns and print the median difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--relay", action="store_true", help="the bridge of the Relay toolchain")
    arguments = parser.parse_args()
    if arguments.relay:
        python = str(get_toolchain("relay").python)
        codes = (f"import scipy.stats; {BRIDGE}", BRIDGE)
        before, after = zip(*([run_s(code, python) for code in codes] for _ in range(arguments.pairs)), strict=True)
        with_statistics_s, own_s = statistics.median(before), statistics.median(after)
        print(f"Relay's bridge: {own_s:.2f} s, with SciPy's statistics {with_statistics_s:.2f} s")
        return
    pairs = [(run_s("pass"), run_s("import passsearch")) for _ in range(arguments.pairs)]
    differences = [after - before for before, after in pairs]
    print(f"import passsearch: {statistics.median(differences):.3f} s (median of {len(pairs)} pairs)")


if __name__ == "__main__":
    main()
