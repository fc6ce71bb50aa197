"""Measure calls a second of one loaded deployment by number of threads, and how long Python's lock is free meanwhile.

    PYTHON benchmarks/speed/loader_threads.py DEPLOY [--seconds 2] > RESULTS.json

PYTHON is an interpreter with the deployment's TVM. The numbers of threads are measured in turns.
"""

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

THREADS, ROUNDS = (1, 2, 4), 3


def rate(network, inputs, threads, seconds):
    """Return calls a second of several threads together."""
    counts, end = [0] * threads, time.perf_counter() + seconds

    def work(place):
        while time.perf_counter() < end:
            network(inputs)
            counts[place] += 1

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / seconds


def share_of_time_unlocked(call, seconds):
    """Return the part of a call's time in which another Python thread makes progress, in steps of 50 us."""
    ticks, end, done = [0], time.perf_counter() + seconds, threading.Event()

    def tick():
        while not done.is_set():
            time.sleep(50e-6)
            ticks[0] += 1

    def count(work):
        ticks[0] = 0
        start = time.perf_counter()
        while time.perf_counter() < end:
            work()
        return ticks[0] / (time.perf_counter() - start)

    ticker = threading.Thread(target=tick)
    ticker.start()
    asleep = count(lambda: time.sleep(0.01))
    end = time.perf_counter() + seconds
    calling = count(call)
    done.set()
    ticker.join()
    return calling / asleep


def main():
    """Write the results as JSON to standard output."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("deploy", type=Path)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    sys.path.insert(0, str(options.deploy))
    import run_model

    network = run_model.load(options.deploy / "built")
    examples = options.deploy / "built" / "examples"
    inputs = {name: np.load(examples / f"input-{place}.npy") for place, (name, _, _) in enumerate(network.inputs)}
    network(inputs)
    rates = {threads: [] for threads in THREADS}
    for _ in range(ROUNDS):
        for threads in THREADS:
            rates[threads].append(rate(network, inputs, threads, options.seconds))
    report = {
        "tvm_threads": os.environ.get("TVM_NUM_THREADS", "all"),
        "machines": network.machines,
        "load_average": os.getloadavg()[0],
        "calls_per_s": {threads: round(float(np.median(own)), 1) for threads, own in rates.items()},
        "share_of_time_unlocked": round(share_of_time_unlocked(lambda: network(inputs), options.seconds), 2),
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
