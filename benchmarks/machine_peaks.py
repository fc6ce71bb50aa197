"""Measures what this machine can do at most: ``python benchmarks/machine_peaks.py``.

A C program runs on one to all physical cores: multiply-adds of vectors in single precision, as many as are in flight at
once, and reads of an array that fits into no cache. ``benchmarks/results/machine_peaks.json`` gets the best of five
runs for each number of threads, in operations and bytes a second. A kernel can be compared with them.
"""

import json
import subprocess
import tempfile
from datetime import date
from pathlib import Path

import psutil

from passsearch.measure import probe

RESULTS = Path(__file__).parent / "results" / "machine_peaks.json"
RUNS = 5
ACCUMULATORS = 12
"""Number of independent sums: a multiply-add takes four or five cycles, and two may begin in each."""

SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
typedef float Vector __attribute__((vector_size(4 * WIDTH)));
enum { ROUNDS = 20000000, BYTES = 1 << 28 };
static Vector *array;
static int threads;
static float results[64];
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}
static float sum(Vector value) {
    float total = 0;
    for (int lane = 0; lane < WIDTH; lane++) total += value[lane];
    return total;
}
static void *multiply_add(void *place) {
    Vector zero = {0}, factor = zero + 0.999f, term = zero + 1e-6f;
    %(declare)s
    for (long round = 0; round < ROUNDS; round++) { %(step)s }
    results[(long)place] = %(total)s;
    return 0;
}
static void *read_array(void *place) {
    long count = BYTES / sizeof(Vector) / threads, first = count * (long)place;
    Vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    for (long at = first; at + 3 < first + count; at += 4) {
        s0 += array[at]; s1 += array[at + 1]; s2 += array[at + 2]; s3 += array[at + 3];
    }
    results[(long)place] = sum(s0 + s1 + s2 + s3);
    return 0;
}
static double seconds(void *(*work)(void *)) {
    pthread_t started[64];
    double begin = now();
    for (long place = 0; place < threads; place++) pthread_create(started + place, 0, work, (void *)place);
    for (long place = 0; place < threads; place++) pthread_join(started[place], 0);
    return now() - begin;
}
int main(int count, char **arguments) {
    threads = atoi(arguments[1]);
    array = aligned_alloc(64, BYTES);
    memset(array, 0, BYTES);
    double multiply_s = seconds(multiply_add), read_s = seconds(read_array);
    double operations = 2.0 * WIDTH * %(accumulators)d * ROUNDS * threads;
    printf("%%g %%g %%g\\n", operations / multiply_s, BYTES / read_s, results[0]);
}
"""


def main() -> None:
    """Measure, write the JSON and print the table."""
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        rows = [{"threads": threads, **peaks(program, threads)} for threads in range(1, min(cores, 64) + 1)]
    document = {"date": date.today().isoformat(), "device": dict(probe("cpu").device), "rows": rows}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print("| threads | GFLOP/s | GB/s |", "| ---: | ---: | ---: |", sep="\n")
    for row in rows:
        print(f"| {row['threads']} | {row['flops'] / 1e9:.0f} | {row['bytes_per_s'] / 1e9:.1f} |")


def build(folder: Path) -> Path:
    """Compile the program and return its path."""
    names = [f"a{place}" for place in range(ACCUMULATORS)]
    parts = {
        "declare": "Vector " + ", ".join(f"{name} = zero + {place}e-3f" for place, name in enumerate(names)) + ";",
        "step": " ".join(f"{name} = {name} * factor + term;" for name in names),
        "total": "sum(" + " + ".join(names) + ")",
        "accumulators": ACCUMULATORS,
    }
    source, program = folder / "peaks.c", folder / "peaks"
    source.write_text(SOURCE % parts)
    command = ["cc", "-O2", "-march=native", "-ffp-contract=fast", str(source), "-o", str(program), "-lpthread"]
    subprocess.run(command, check=True)
    return program


def peaks(program: Path, threads: int) -> dict[str, float]:
    """Return the best of several runs."""
    outputs = [subprocess.run([program, str(threads)], check=True, capture_output=True, text=True) for _ in range(RUNS)]
    numbers = [[float(word) for word in output.stdout.split()[:2]] for output in outputs]
    return {"flops": max(row[0] for row in numbers), "bytes_per_s": max(row[1] for row in numbers)}


if __name__ == "__main__":
    main()
