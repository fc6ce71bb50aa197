"""Tune the kernels of a Relax module with MetaSchedule: ``python metaschedule.py IR.json DATABASE --target T``.

Run in the toolchain's interpreter, which needs cloudpickle and psutil for it, and xgboost for its cost model.
"""

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import tvm
from tvm.s_tir import meta_schedule

sys.path.insert(0, str(Path(__file__).parents[1]))

from passsearch.dialects.relax.lowering import target_options

BUILD_S = 100.0
"""Longest time to build or to run one schedule; TVM's 30 s is spent on importing TVM where cores are busy."""


def main() -> None:
    """Tune; the database is what remains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path)
    parser.add_argument("database", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    target = tvm.target.Target({**target_options(arguments.target), "num-cores": cores})
    module = tvm.ir.load_json(arguments.module.read_text())
    meta_schedule.relax_integration.tune_relax(
        module,
        {},
        target,
        str(arguments.database),
        max_trials_global=arguments.trials,
        num_trials_per_iter=16,  # of one kernel at a time; there are some twenty
        builder=meta_schedule.builder.LocalBuilder(max_workers=cores, timeout_sec=BUILD_S),
        runner=meta_schedule.runner.LocalRunner(timeout_sec=BUILD_S),
        cost_model="xgb" if find_spec("xgboost") else "random",
        seed=arguments.seed,
    )


if __name__ == "__main__":
    main()
