"""Measures what this machine can do at most: ``python benchmarks/machine_peaks.py``.

Vector multiply-adds in single precision and reads from memory, on one to all physical cores (the measurement is
``passsearch/worker/peaks.py``). ``benchmarks/results/machine_peaks.json`` gets the best of five runs for each number of
threads, in operations and bytes a second. A kernel can be compared with them.
"""

import json
from dataclasses import asdict
from datetime import date
from pathlib import Path

import psutil

from passsearch.measure import probe
from passsearch.worker import MOST_THREADS, measure_peaks

RESULTS = Path(__file__).parent / "results" / "machine_peaks.json"


def main() -> None:
    """Measure, write the JSON and print the table."""
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    rows = [asdict(measure_peaks(threads)) for threads in range(1, min(cores, MOST_THREADS) + 1)]
    document = {"date": date.today().isoformat(), "device": dict(probe("cpu").device), "rows": rows}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print("| threads | GFLOP/s | GB/s |", "| ---: | ---: | ---: |", sep="\n")
    for row in rows:
        print(f"| {row['threads']} | {row['flops'] / 1e9:.0f} | {row['bytes_per_s'] / 1e9:.1f} |")


if __name__ == "__main__":
    main()
