"""Lowers small networks from operators to planned memory and prints one JSON line per network.

A script for an interpreter with TVM's Relax: ``test_phases.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax
from tvm.relax import op, transform

from passsearch.dialects.relax.phases import phase
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.graph_rewrites.passes import StaticPlanBlockMemory

TARGET = tvm.target.Target({"kind": "llvm"})
NETWORKS: dict[str, Callable[[Any], Any]] = {
    "elementwise": op.exp,
    "cumulative sum": lambda data: op.exp(op.cumsum(data, 1)),
    "sort": lambda data: op.exp(op.sort(data, 1)),
    "largest": lambda data: op.exp(op.topk(data, 3, 1, "values")),
    "view": lambda data: op.reshape(op.exp(data), (64,)),
    "packed call": lambda data: op.call_pure_packed("any", op.exp(data), ty_args=relax.TensorType((4, 16), "float32")),
}


def network(body: Callable[[Any], Any]) -> Any:
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((4, 16), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(body(data)))
        builder.emit_func_output(result)
    return builder.get()


def phases(name: str) -> list[str]:
    module = network(NETWORKS[name])
    result = [phase(module)]
    dispatch = relax.pipeline.library_dispatch_passes(TARGET)
    for step in ([*dispatch, transform.LegalizeOps()], [ScheduleCPU()], [StaticPlanBlockMemory()]):
        module = tvm.transform.Sequential(step)(module)
        result.append(phase(module))
    return result


if __name__ == "__main__":
    with TARGET, tvm.transform.PassContext(opt_level=4):
        for name in NETWORKS:
            print(json.dumps({"case": name, "phases": phases(name)}), flush=True)
