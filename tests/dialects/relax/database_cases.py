"""Schedules functions as a database of one record says and prints one JSON line per case.

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

from passsearch.dialects.relax.lowering import lowered, target_options
from passsearch.dialects.relax.passes import MetaScheduleApplyDatabase
from passsearch.dialects.relax.phases import SCHEDULED
from passsearch.dialects.relax.schedules import ScheduleCPU

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
SHAPE = (4, 24)


def network() -> Any:
    """An exponential and a sum, as two functions of loops."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            raised = builder.emit(op.exp(data))
            result = builder.emit_output(op.sum(raised, axis=1))
        builder.emit_func_output(result)
    return transform.LegalizeOps()(builder.get())


def record(module: Any, folder: Path) -> None:
    """A database that says how to schedule the exponential."""
    alone = tvm.IRModule({"main": module["tir_exp"].with_attr("global_symbol", "main")})
    schedule = Schedule(alone)
    *_, last = schedule.get_loops(schedule.get_sblock("compute"))
    schedule.vectorize(schedule.split(last, [3, 8])[1])
    database = meta_schedule.database.JSONDatabase(work_dir=str(folder))
    workload = database.commit_workload(alone)
    found = meta_schedule.database.TuningRecord(schedule.trace, workload, [1e-6], TARGET)
    database.commit_tuning_record(found)


def run(module: Any, value: Any) -> Any:
    with TARGET:
        library = relax.build(lowered(module, level=0, target=TARGET), TARGET, relax_pipeline=None)
    return relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(value)).numpy()


def scheduled(module: Any) -> dict[str, bool]:
    functions = ((each.name_hint, function) for each, function in module.functions_items())
    return {
        name: bool(function.attrs and SCHEDULED in function.attrs)
        for name, function in functions
        if isinstance(function, tvm.tirx.PrimFunc)
    }


def refusal(work_dir: str, digest: str) -> str:
    try:
        with TARGET:
            MetaScheduleApplyDatabase(work_dir, digest)(network())
    except ValueError as error:
        return str(error)
    return ""


def main() -> None:
    with TemporaryDirectory() as folder:
        print(json.dumps({"case": "no database", "refused": refusal(folder, "0" * 8)}))
        module = network()
        record(module, Path(folder))
        digest = hashlib.sha256((Path(folder) / "database_tuning_record.json").read_bytes()).hexdigest()
        print(json.dumps({"case": "relative", "refused": refusal(os.path.relpath(folder), digest)}))
        print(json.dumps({"case": "another", "refused": refusal(folder, "0" * 8), "digest": digest}))
        print(json.dumps({"case": "too short", "refused": refusal(folder, digest[:7])}))
        with TARGET, tvm.transform.PassContext(opt_level=4):
            found = MetaScheduleApplyDatabase(folder, digest[:8])(module)
            rest = ScheduleCPU()(found)
        value = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
        told = {
            "found": scheduled(found),
            "rest": scheduled(rest),
            "as recorded": tvm_ffi.structural_equal(found["tir_exp"].body, rest["tir_exp"].body),
            "same": bool(np.allclose(run(module, value), run(rest, value), rtol=1e-5)),
        }
        print(json.dumps({"case": "one of two functions", **told}))


if __name__ == "__main__":
    main()
