"""Applies a tuning database with one record and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_database.py`` runs it and reads the lines.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op, transform
from tvm.s_tir import Schedule, meta_schedule

from passsearch.dialects.relax.phases import SCHEDULED
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import lower, target_options
from passsearch.standalone.relax.graph_rewrites.passes import MetaScheduleApplyDatabase

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
SHAPE = (4, 24)


def network() -> Any:
    """Return an exponential and a sum, as two functions of loops."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            raised = builder.emit(op.exp(data))
            result = builder.emit_output(op.sum(raised, axis=1))
        builder.emit_func_output(result)
    return transform.LegalizeOps()(builder.get())


def write_database(module: Any, folder: Path) -> None:
    """Write a database with a schedule of the exponential."""
    alone = tvm.IRModule({"main": module["tir_exp"].with_attr("global_symbol", "main")})
    schedule = Schedule(alone)
    *_, last = schedule.get_loops(schedule.get_sblock("compute"))
    schedule.vectorize(schedule.split(last, [3, 8])[1])
    database = meta_schedule.database.JSONDatabase(work_dir=str(folder))
    workload = database.commit_workload(alone)
    record = meta_schedule.database.TuningRecord(schedule.trace, workload, [1e-6], TARGET)
    database.commit_tuning_record(record)


def run(module: Any, value: Any) -> Any:
    with TARGET:
        library = relax.build(lower(module, level=0, target=TARGET), TARGET, relax_pipeline=None)
    return relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(value)).numpy()


def scheduled_functions(module: Any) -> dict[str, bool]:
    functions = ((variable.name_hint, function) for variable, function in module.functions_items())
    return {
        name: bool(function.attrs and SCHEDULED in function.attrs)
        for name, function in functions
        if isinstance(function, tvm.tirx.PrimFunc)
    }


def refusal_message(work_dir: str, digest: str) -> str:
    try:
        with TARGET:
            MetaScheduleApplyDatabase(work_dir, digest)(network())
    except ValueError as error:
        return str(error)
    return ""


def main() -> None:
    with TemporaryDirectory() as folder:
        print(json.dumps({"case": "no database", "refused": refusal_message(folder, "0" * 8)}))
        module = network()
        write_database(module, Path(folder))
        digest = hashlib.sha256((Path(folder) / "database_tuning_record.json").read_bytes()).hexdigest()
        print(json.dumps({"case": "relative", "refused": refusal_message(os.path.relpath(folder), digest)}))
        print(json.dumps({"case": "another", "refused": refusal_message(folder, "0" * 8), "digest": digest}))
        print(json.dumps({"case": "too short", "refused": refusal_message(folder, digest[:7])}))
        with TARGET, tvm.transform.PassContext(opt_level=4):
            by_database = MetaScheduleApplyDatabase(folder, digest[:8])(module)
            complete = ScheduleCPU()(by_database)
        value = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
        result = {
            "by database": scheduled_functions(by_database),
            "complete": scheduled_functions(complete),
            "as recorded": tvm_ffi.structural_equal(by_database["tir_exp"].body, complete["tir_exp"].body),
            "same": bool(np.allclose(run(module, value), run(complete, value), rtol=1e-5)),
        }
        print(json.dumps({"case": "one of two functions", **result}))


if __name__ == "__main__":
    main()
