"""Measures what this machine's processor can do at most: multiply-adds of vectors, and reads from memory.

A C program runs on one to all physical cores: multiply-adds in single precision, as many as are in flight at once, and
reads of an array that fits into no cache. A kernel can be compared with these two (Williams et al., Roofline, CACM
2009).
"""

import hashlib
import json
import logging
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from passsearch.core import replace_durably
from passsearch.errors import EnvironmentFault

RUNS = 5
"""Runs of the program, the best of which counts: whatever disturbs one only takes time."""

MOST_THREADS = 64

_ACCUMULATORS = 12
"""Number of independent sums: a multiply-add takes four or five cycles, and two may begin in each."""

_SOURCE = """
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


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Peaks:
    """What some threads of a processor can do at most.

    Attributes:
        threads: Number of threads, each on a core of its own.
        flops: Additions and multiplications in single precision a second.
        bytes_per_s: Bytes a second that they read from memory.
    """

    threads: int
    flops: float
    bytes_per_s: float

    def least_s(self, flops: float, size_bytes: float) -> float:
        """Return the least seconds for so many operations on so many bytes."""
        return max(flops / self.flops, size_bytes / self.bytes_per_s)


def measure_peaks(threads: int) -> Peaks:
    """Measure, which takes a second or two.

    Raises:
        EnvironmentFault: There is no C compiler, or it fails.
    """
    _log.info("measuring the peaks of %d threads", threads)
    with tempfile.TemporaryDirectory(prefix="passsearch-") as folder:
        program = _build(Path(folder))
        try:
            outputs = [
                subprocess.run([program, str(threads)], check=True, capture_output=True, text=True).stdout
                for _ in range(RUNS)
            ]
        except (OSError, subprocess.CalledProcessError) as error:
            raise EnvironmentFault(f"The peaks of this machine cannot be measured: {error}.") from error
    numbers = [[float(word) for word in output.split()[:2]] for output in outputs]
    return Peaks(threads, max(row[0] for row in numbers), max(row[1] for row in numbers))


def best_peaks(threads: int, device: Mapping[str, object], folder: Path) -> Peaks:
    """Measure, and return the best that was ever measured on a device: other processes can only slow it down.

    Args:
        threads: Number of threads.
        device: Description of the device.
        folder: Folder of the best peaks.

    Raises:
        EnvironmentFault: There is no C compiler, or it fails.
    """
    identity = json.dumps([threads, dict(device), _SOURCE], sort_keys=True, default=str)
    file = folder / f"peaks-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"
    best = measure_peaks(min(threads, MOST_THREADS))
    try:
        stored = Peaks(**json.loads(file.read_text()))
        best = replace(best, flops=max(best.flops, stored.flops), bytes_per_s=max(best.bytes_per_s, stored.bytes_per_s))
    except (OSError, ValueError, TypeError):
        _log.debug("no peaks are stored, or they are damaged")
    folder.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(best)))
    replace_durably(partial, file)
    return best


def _build(folder: Path) -> Path:
    """Compile the program and return its path."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise EnvironmentFault("A roofline needs a C compiler to measure this machine's peaks; install gcc or clang.")
    names = [f"a{place}" for place in range(_ACCUMULATORS)]
    parts = {
        "declare": "Vector " + ", ".join(f"{name} = zero + {place}e-3f" for place, name in enumerate(names)) + ";",
        "step": " ".join(f"{name} = {name} * factor + term;" for name in names),
        "total": "sum(" + " + ".join(names) + ")",
        "accumulators": _ACCUMULATORS,
    }
    source, program = folder / "peaks.c", folder / "peaks"
    source.write_text(_SOURCE % parts)
    command = [compiler, "-O2", "-march=native", "-ffp-contract=fast", str(source), "-o", str(program), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        line = next(iter(done.stderr.strip().splitlines()), f"exit status {done.returncode}")
        raise EnvironmentFault(f"The program that measures this machine's peaks does not compile: {line}")
    return program
