"""Tunes the kernels of a Relax module: ``python metaschedule.py IR.json DB --target T --trials N``.

Runs in the toolchain's interpreter. An existing database is continued.
"""

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import tvm

sys.path.insert(0, str(Path(__file__).parents[1]))

from passsearch.standalone.relax.deployment.lowering import target_options

PACKAGES = {"cloudpickle": "cloudpickle", "psutil": "psutil", "xgboost": "xgboost-cpu"}
"""Packages that TVM's workers and its cost model need, by the name of the module."""

BUILD_S = 100.0
"""Longest time to build or to run one schedule. TVM's 30 s are spent on importing TVM where cores are busy."""

TRIALS_PER_TURN = 16
"""Trials of one kernel before the next has its turn."""


def main() -> None:
    """Tune the kernels; the result is the database."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path)
    parser.add_argument("database", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--trials", type=int, required=True)
    arguments = parser.parse_args()
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        sys.exit(f"Tuning kernels needs more in the toolchain: {sys.executable} -m pip install {' '.join(missing)}")
    # Importing MetaSchedule fails without these packages, so it comes after the check.
    from tvm.s_tir import meta_schedule

    cores = len(os.sched_getaffinity(0))
    target = tvm.target.Target(target_options(arguments.target))
    meta_schedule.relax_integration.tune_relax(
        tvm.ir.load_json(arguments.module.read_text()),
        {},
        tvm.target.Target({**target.export(), "num-cores": cores}),
        str(arguments.database),
        max_trials_global=arguments.trials,
        num_trials_per_iter=TRIALS_PER_TURN,
        builder=meta_schedule.builder.LocalBuilder(max_workers=cores, timeout_sec=BUILD_S),
        runner=meta_schedule.runner.LocalRunner(timeout_sec=BUILD_S),
        seed=0,
    )


if __name__ == "__main__":
    main()
