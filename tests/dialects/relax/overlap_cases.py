"""Schedules functions that TVM does not make itself, at sizes that no tile divides; prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_overlap.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from textwrap import indent
from typing import Any

import numpy as np
import tvm
from small_modules import run
from tvm import relax
from tvm.relax import op, transform
from tvm.script import from_source, tirx

from passsearch.dialects.relax.phases import SCHEDULED
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU, ScheduleRows
from passsearch.standalone.relax.deployment.lowering import target_options

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)

PRODUCT = """
@T.prim_func(private=True, s_tir=True)
def kernel(
    a: T.Buffer((T.int64({rows}), T.int64(16)), "float32"),
    b: T.Buffer((T.int64(16), T.int64({columns})), "float32"),
    d: T.Buffer((T.int64({rows}), T.int64({columns})), "float32"),
):
    T.func_attr({{"tirx.noalias": True}})
    c = T.sblock_alloc_buffer((T.int64({rows}), T.int64({columns})))
    for i, j, k in T.grid(T.int64({rows}), T.int64({columns}), T.int64(16)):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
    for i, j in T.grid(T.int64({rows}), T.int64({columns})):
        with T.sblock("reader"):
            vi, vj = T.axis.remap("SS", [i, j])
            {reader}
"""
READERS = {
    "the same place": "d[vi, vj] = T.max(c[vi, vj], T.float32(0))",
    "another row": "d[vi, vj] = T.if_then_else(vi < T.int64({last}), c[vi + T.int64(1), vj], T.float32(0))",
    "rows in reverse": "d[vi, vj] = c[T.int64({last}) - vi, vj] + T.float32(1)",
    "two rows": "d[vi, vj] = c[vi, vj] + c[T.int64({last}) - vi, vj]",
    "transposed": "d[vi, vj] = c[vj, vi] + T.float32(1)",
    "columns in reverse": "d[vi, vj] = c[vi, T.int64({last}) - vj] + T.float32(1)",
}
"""What reads the sums, by the place that it reads."""

ROWS = """
@T.prim_func(private=True, s_tir=True)
def kernel(a: T.Buffer(({type}(32), {type}(37)), "float32"), d: T.Buffer(({type}(32), {type}(37)), "float32")):
    T.func_attr({{"tirx.noalias": True}})
    c = T.sblock_alloc_buffer(({type}(32),))
    for i, k in T.grid({type}(32), {type}(37)):
        with T.sblock("reduction"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                c[vi] = T.float32({initial})
            c[vi] = {combination}
    for i, j in T.grid({type}(32), {type}(37)):
        with T.sblock("reader"):
            vi, vj = T.axis.remap("SS", [i, j])
            d[vi, vj] = a[vi, vj] - c[vi]
"""
SUM, LEAST, PRODUCT_OF_ROW = "c[vi] + a[vi, vk]", "T.min(c[vi], a[vi, vk])", "c[vi] * a[vi, vk]"


def product(place: str, *, rows: int, columns: int, index: str = "int64") -> Any:
    source = PRODUCT.format(rows=rows, columns=columns, reader=READERS[place].format(last=rows - 1))
    return module(source.replace("int64", index), (rows, 16), (16, columns))


def in_block_with_reads() -> Any:
    """Return a product whose outermost block says that it reads the weights, which TVM's own does not."""
    source = PRODUCT.format(rows=37, columns=37, reader=READERS["the same place"])
    head, body = source.split("    c = T.sblock", 1)
    block = '    with T.sblock("root"):\n        T.reads(b[0:16, 0:37])\n        T.writes()\n'
    return module(head + block + indent("    c = T.sblock" + body, "    "), (37, 16), (16, 37))


def rows(combination: str, *, initial: str = "0", index: str = "int64") -> Any:
    return module(ROWS.format(type=f"T.{index}", initial=initial, combination=combination), (32, 37))


def module(source: str, shape: tuple[int, int], *weights: tuple[int, int]) -> Any:
    """Return a module that calls one function, with an input and constant weights."""
    function = from_source(source, extra_vars={"T": tirx})
    builder = relax.BlockBuilder()
    kernel = builder.add_func(function, "kernel")
    data = relax.Var("x", relax.TensorType(shape, "float32"))
    constants = [relax.const(RANDOM.standard_normal(each, dtype="float32")) for each in weights]
    output = relax.TensorType((shape[0], weights[0][1] if weights else shape[1]), "float32")
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(relax.call_tir(kernel, [data, *constants], output))
        builder.emit_func_output(result)
    return builder.get()


def chain(*, length: int) -> Any:
    """Return a module with a chain of ``exp`` in one function, as TVM's ``FastMathTransform`` writes them out."""
    builder = relax.BlockBuilder()
    data = value = relax.Var("x", relax.TensorType((64, 1), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            for _ in range(length):
                value = builder.emit(op.exp(builder.emit(op.multiply(value, relax.const(-0.5, "float32")))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    passes = (transform.FastMathTransform(), transform.LegalizeOps(), transform.AnnotateTIROpPattern())
    with TARGET:
        return tvm.transform.Sequential([*passes, transform.FuseOps(2), transform.FuseTIR()])(builder.get())


CASES = {
    **{
        f"{place}, {size[0]} by {size[1]}": product(place, rows=size[0], columns=size[1])
        for place in READERS
        for size in ((37, 37), (53, 48))
        if place not in ("transposed", "columns in reverse") or size[0] == size[1]
    },
    "product with narrow indices": product("the same place", rows=37, columns=37, index="int32"),
    "product in a block that names its reads": in_block_with_reads(),
    "sum of rows": rows(SUM),
    "sum of rows with narrow indices": rows(SUM, index="int32"),
    "least of rows": rows(LEAST, initial='"inf"'),
    "product of rows": rows(PRODUCT_OF_ROW, initial="1"),
    "sum of rows that begins at one": rows(SUM, initial="1"),
    "chain of exp": chain(length=8),
}


def case(plain: Any) -> dict[str, Any]:
    with TARGET:
        scheduled = ScheduleCPU()(ScheduleRows()(plain.clone()))
    shape = [int(size) for size in plain["main"].params[0].ty.shape.values]
    value = RANDOM.standard_normal(shape, dtype="float32")
    expected, actual = run(plain, value, TARGET), run(scheduled, value, TARGET)
    (function,) = [each for _, each in scheduled.functions_items() if isinstance(each, tvm.tirx.PrimFunc)]
    return {
        "scheduled": SCHEDULED in function.attrs,
        "same": bool(np.allclose(expected, actual, rtol=1e-5, atol=1e-5 * float(np.abs(expected).max()))),
    }


if __name__ == "__main__":
    for name, plain in CASES.items():
        print(json.dumps({"case": name, **case(plain)}), flush=True)
