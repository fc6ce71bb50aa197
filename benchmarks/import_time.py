"""Measures the seconds that ``import passsearch`` adds to an interpreter: ``python benchmarks/import_time.py``."""

import argparse
import statistics
import subprocess
import sys
import time


def run_s(code: str) -> float:
    """Return the wall time of one new interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Time both in turns and print the median difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    arguments = parser.parse_args()
    pairs = [(run_s("pass"), run_s("import passsearch")) for _ in range(arguments.pairs)]
    differences = [after - before for before, after in pairs]
    print(f"import passsearch: {statistics.median(differences):.3f} s (median of {len(pairs)} pairs)")


if __name__ == "__main__":
    main()
