"""Counts the kernels that networks of products start on a GPU, and prints one JSON line per case.

No GPU is needed. A script for an interpreter with TVM's Relax: ``test_schedule_gpu.py`` runs it and reads the lines.
"""

import json
from collections.abc import Mapping
from typing import Any

import tvm
from gpu_cases import GPU, weights
from tvm import relax, tirx
from tvm.relax import op, transform

from passsearch.dialects.relax.kernels import count_launches
from passsearch.standalone.relax.deployment.lowering import lower
from passsearch.standalone.relax.gpu_schedules import ScheduleGPU

WEIGHT = weights(16, 16)


def chains(numbers: Mapping[str, int], rows: Any = 4) -> Any:
    """Return a module whose functions multiply as often as these numbers say."""
    builder = relax.BlockBuilder()
    for name, number in numbers.items():
        value: Any = relax.Var("x", relax.TensorType((rows, 16), "float32"))
        with builder.function(name, [value]):
            with builder.dataflow():
                for _ in range(number):
                    value = builder.emit(op.matmul(value, WEIGHT))
                value = builder.emit_output(value)
            builder.emit_func_output(value)
    return builder.get()


def branches(first: int, second: int) -> Any:
    """Return a module that multiplies as often as the taken branch says, and once more."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((4, 16), "float32"))
    condition = relax.Var("condition", relax.TensorType((), "bool"))

    def branch(number: int) -> Any:
        bindings, value = [], data
        for place in range(number):
            product = op.matmul(value, WEIGHT)
            value = relax.Var(f"branch{number}_{place}", relax.TensorType((4, 16), "float32"))
            bindings.append(relax.VarBinding(value, product))
        return relax.SeqExpr([relax.BindingBlock(bindings)], value)

    with builder.function("main", [data, condition]):
        value = builder.emit(relax.If(condition, branch(first), branch(second)))
        builder.emit_func_output(builder.emit(op.matmul(value, WEIGHT)))
    return builder.get()


def count(module: Any) -> int:
    passes = [transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps(2), transform.FuseTIR()]
    with GPU:
        module = tvm.transform.Sequential([*passes, ScheduleGPU()])(module)
        return count_launches(lower(module, level=0, target=GPU))


if __name__ == "__main__":
    modules = {
        "one kernel, three times": chains({"main": 3}),
        "two functions": chains({"main": 1, "other": 2}),
        "open rows": chains({"main": 2}, tirx.Var("rows", "int64")),
        "branches": branches(1, 3),
    }
    for name, module in modules.items():
        print(json.dumps({"case": name, "launches": count(module)}))
