"""Calls a network whose outputs are an input, a constant, one value twice and a value of their own.

A script for an interpreter with TVM's Relax: ``test_machine.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from passsearch.standalone.relax.deployment.lowering import lower
from passsearch.standalone.relax.deployment.machine import ALIGNMENT_BYTES, Machine, to_numpy

TARGET, SIZE = tvm.target.Target("llvm"), 40000


def library() -> Any:
    builder = relax.BlockBuilder()
    value = relax.Var("x", relax.TensorType((SIZE,), "float32"))
    with builder.function("main", [value]):
        with builder.dataflow():
            double = builder.emit(op.add(value, value))
            constant = relax.const(np.full(SIZE, 7, "float32"))
            outputs = builder.emit_output(relax.Tuple([value, constant, relax.Tuple([double, double])]))
        builder.emit_func_output(outputs)
    with TARGET:
        return relax.build(lower(builder.get(), level=0, target=TARGET), TARGET, relax_pipeline=None)


def placed(offset: int) -> Any:
    """Return an array whose first byte lies behind an aligned one by some bytes."""
    memory = np.empty(4 * SIZE + 2 * ALIGNMENT_BYTES, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT_BYTES + offset
    return memory[begin : begin + 4 * SIZE].view("float32")


def read_only() -> Any:
    array = placed(0)
    array.flags.writeable = False
    return array


def case(name: str, array: Any) -> dict[str, Any]:
    """Call the network three times, write to all its outputs after each call, and judge the next ones."""
    machine, own = Machine(library(), tvm.cpu(), ["main"]), []
    if array.flags.writeable:
        array[:] = np.arange(SIZE)
    before, kept = array.copy(), []
    for _ in range(3):
        same, constant, (one, other) = machine.run("main", [array], [], to_numpy)
        expected = (before, np.full(SIZE, 7), 2 * before, 2 * before)
        own.append(all(map(np.array_equal, (same, constant, one, other), expected)))
        for place, output in enumerate((same, constant, one, other)):
            output[:] = -1 - place
            kept.append((output, -1 - place))
    return {
        "case": name,
        "right": own,
        "input_is_as_before": bool(np.array_equal(array, before)),
        "outputs_are_as_written": all((output == value).all() for output, value in kept),
        "is_copied": bool(machine._copies),
    }


if __name__ == "__main__":
    cases = {"aligned": placed(0), "not aligned": placed(4), "read only": read_only(), "reversed": placed(0)[::-1]}
    for name, array in cases.items():
        print(json.dumps(case(name, array)))
