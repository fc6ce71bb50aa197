"""Seconds that ``import passsearch`` adds to a bare interpreter: ``python benchmarks/import_time.py``."""

import statistics
import subprocess
import sys
import time


def seconds(code: str) -> float:
    """Wall time of one fresh interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Interleave both, print the median difference."""
    pairs = [(seconds("pass"), seconds("import passsearch")) for _ in range(15)]
    differences = [after - before for before, after in pairs]
    print(f"import passsearch: {statistics.median(differences):.3f} s (median of {len(pairs)} pairs)")


if __name__ == "__main__":
    main()
