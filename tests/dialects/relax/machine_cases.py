"""Calls networks whose outputs are an input, a constant, one value twice and a value of their own.

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


def built(builder: Any) -> Any:
    with TARGET:
        return relax.build(lower(builder.get(), level=0, target=TARGET), TARGET, relax_pipeline=None)


def library() -> Any:
    builder = relax.BlockBuilder()
    value = relax.Var("x", relax.TensorType((SIZE,), "float32"))
    with builder.function("main", [value]):
        with builder.dataflow():
            double = builder.emit(op.add(value, value))
            constant = relax.const(np.full(SIZE, 7, "float32"))
            outputs = builder.emit_output(relax.Tuple([value, constant, relax.Tuple([double, double])]))
        builder.emit_func_output(outputs)
    return built(builder)


def branches() -> dict[str, Any]:
    """Call a network that returns a constant in one branch, after the other one has been taken twice."""
    builder, sevens = relax.BlockBuilder(), relax.const(np.full(SIZE, 7, "float32"))
    is_constant, value = (
        relax.Var("c", relax.TensorType((), "bool")),
        relax.Var("x", relax.TensorType((SIZE,), "float32")),
    )
    double = relax.Var("double", relax.TensorType((SIZE,), "float32"))
    computed = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(double, op.add(value, value))])], double)
    with builder.function("main", [is_constant, value]):
        builder.emit_func_output(builder.emit(relax.If(is_constant, relax.SeqExpr([], sevens), computed)))
    machine, array, right = Machine(built(builder), tvm.cpu(), ["main"]), placed(0), []
    array[:] = np.arange(SIZE)
    for flag in (False, False, True, True):
        output = machine.run("main", [np.array(flag), array], [], to_numpy)
        right.append(bool((output == (7 if flag else 2 * array)).all()))
        output[:] = -1
    return {"case": "branches", "right": right}


def nothing() -> dict[str, Any]:
    """Call a network of an open size with arrays of no element, whose strides numpy chooses."""
    count, builder = tvm.tirx.Var("n", "int64"), relax.BlockBuilder()
    value = relax.Var("x", relax.TensorType((2, count, 8), "float32"))
    with builder.function("main", [value]):
        with builder.dataflow():
            outputs = builder.emit_output(op.add(value, value))
        builder.emit_func_output(outputs)
    machine = Machine(built(builder), tvm.cpu(), ["main"])
    arrays = [
        np.empty((2, 0, 8), "float32"),
        placed(0)[: 2 * 8].reshape(2, 1, 8)[:, :0],
        placed(4)[:0].reshape(2, 0, 8),
    ]
    shapes = [machine.run("main", [array], [], to_numpy).shape for array in arrays * 20]
    return {"case": "nothing", "shapes": sorted(set(shapes))}


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
    print(json.dumps(branches()))
    print(json.dumps(nothing()))
