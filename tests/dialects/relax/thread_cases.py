"""Runs kernels whose tilings know of 16 threads by as many, and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_threads.py`` runs it and reads the lines.
"""

from __future__ import annotations

import os

# Before TVM starts its threads. More of them than cores would wait for each other, without rest.
os.environ |= {"TVM_NUM_THREADS": "16", "TVM_THREAD_POOL_SPIN_COUNT": "0"}

import json
import re
from typing import Any

import numpy as np
import tvm
from schedule_cases import CASES, TARGETS, depthwise, last_channels, product, sample
from small_modules import run
from tvm.base import _LOADED_LIBS
from tvm.relax import op

from passsearch.dialects.shared import count_parallel_tasks, limit_threads
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.cpu_schedules.sizes import FEW_THREADS, chunk_count, imbalance
from passsearch.standalone.relax.deployment.lowering import target_options

THREADS = 16
FEW, MANY = TARGETS["x86-64-v3"], tvm.target.Target(target_options(f"llvm -mcpu=x86-64-v3 -num-cores={THREADS}"))

SIZES = ((264, 2), (264, 16), (197, 8), (1009, 16), (1214, 16), (639, 8), (2**20, 64))
"""Iterations and threads; 197 and 1009 are prime, and 1214 and 639 have few divisors."""

CASES.update(
    {
        "depthwise of 24 equal parts": depthwise((1, 14, 14, 192), 3, padding=1),
        "product of one row": product(1, 512, 1000),
        "product of 100 rows": product(100, 64, 96),
        "convolution": last_channels((1, 14, 14, 64), 3, outputs=96, padding=1),
        "rows of a softmax": ((50, 256), lambda value: op.nn.softmax(value, axis=-1)),
        "many elements": ((1, 56, 56, 24), lambda value: op.tanh(value)),
    }
)
NAMES = ("depthwise of 24 equal parts", "product of one row", "product of 100 rows", "convolution", "many elements")
OTHERS = ("rows of a softmax", "batched product", "sum of two transposes", "sum of all")


def case(name: str) -> dict[str, Any]:
    plain, value, expected, _ = sample(name)
    imbalances, outputs = {}, {}
    for kind, target in {"few": FEW, "many": MANY}.items():
        with target, tvm.transform.PassContext(opt_level=4):
            scheduled = ScheduleCPU()(plain.clone())
        counts = [int(count) for count in re.findall(r"T\.parallel\((?:T\.int64\()?(\d+)", scheduled.script())]
        imbalances[kind] = max((imbalance(count, THREADS) for count in counts), default=0)
        outputs[kind] = run(scheduled, value, target)
    limit = 1e-5 * np.abs(expected).max()
    return {
        "imbalance": imbalances,
        "same": all(bool(np.allclose(expected, each, rtol=1e-5, atol=limit)) for each in outputs.values()),
    }


if __name__ == "__main__":
    limit_threads(THREADS)  # else as many as cores, of all that were started
    print(json.dumps({"case": "threads", "threads": count_parallel_tasks(_LOADED_LIBS["tvm_runtime"])}), flush=True)
    counts = {f"{size} on {threads}": chunk_count(size, threads) for size, threads in SIZES}
    print(json.dumps({"case": "chunks", "few": FEW_THREADS, "counts": counts}), flush=True)
    for name in (*NAMES, *OTHERS):
        print(json.dumps({"case": name, "is_shared": name in NAMES, **case(name)}), flush=True)
