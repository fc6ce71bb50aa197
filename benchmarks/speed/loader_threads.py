"""Measures calls a second of one loaded deployment by number of threads, and how long Python's lock is free meanwhile.

``PYTHON benchmarks/speed/loader_threads.py DEPLOY [SECONDS] > RESULTS.json``: PYTHON is an interpreter with the
deployment's TVM. The numbers of threads are measured in turns.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

THREADS, ROUNDS = (1, 2, 4), 3


def rate(call, threads, seconds):
    """Return calls a second of several threads together."""
    counts, end = [0] * threads, time.perf_counter() + seconds

    def work(place):
        while time.perf_counter() < end:
            call()
            counts[place] += 1

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / seconds


def share_of_time_unlocked(call, seconds):
    """Return the part of a call's time in which another Python thread makes progress, in steps of 50 us."""
    ticks, done = [0], threading.Event()

    def tick():
        while not done.is_set():
            time.sleep(50e-6)
            ticks[0] += 1

    def count(work):
        ticks[0], start = 0, time.perf_counter()
        while time.perf_counter() < start + seconds:
            work()
        return ticks[0] / (time.perf_counter() - start)

    ticker = threading.Thread(target=tick)
    ticker.start()
    asleep, calling = count(lambda: time.sleep(0.01)), count(call)
    done.set()
    ticker.join()
    return calling / asleep


def main(deploy, seconds="2"):
    sys.path.insert(0, deploy)
    import run_model

    network, examples = run_model.load(Path(deploy) / "built"), Path(deploy) / "built" / "examples"
    inputs = {name: np.load(examples / f"input-{place}.npy") for place, (name, _, _) in enumerate(network.inputs)}
    network(inputs)
    rates = [[rate(lambda: network(inputs), each, float(seconds)) for each in THREADS] for _ in range(ROUNDS)]
    report = {
        "tvm_threads": os.environ.get("TVM_NUM_THREADS", "all"),
        "machines": network.machines,
        "load_average": os.getloadavg()[0],
        "calls_per_s": dict(zip(THREADS, np.median(rates, axis=0).round(1).tolist(), strict=True)),
        "share_of_time_unlocked": round(share_of_time_unlocked(lambda: network(inputs), float(seconds)), 2),
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
