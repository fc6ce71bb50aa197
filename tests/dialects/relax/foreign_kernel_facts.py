"""Prints what the referee knows of kernels; runs under the toolchain's Python."""

import sys
from pathlib import Path

import tvm
from tvm.script import tirx as T  # noqa: N812

from passsearch.dialects.relax.index_parameters import index_parameters
from passsearch.standalone.relax.graph_rewrites.replace_kernel import ReplaceKernel


@T.prim_func(private=True, s_tir=True)
def gather(
    x: T.Buffer((6, 4), "float32"),
    at: T.Buffer((3,), "int64"),
    c: T.Buffer((3, 4), "int32"),
    y: T.Buffer((3, 4), "float32"),
):
    own = T.sblock_alloc_buffer((3,), "int64")
    for a in range(3):
        own[a] = at[a] + T.int64(1)
    for a in range(3):
        for b in range(4):
            with T.sblock("s"):
                va, vb = T.axis.remap("SS", [a, b])
                row: T.let[T.int64] = own[va]
                y[va, vb] = x[row, vb] + T.cast(c[va, vb], "float32")


@T.prim_func(private=True, s_tir=True)
def shift(x: T.Buffer((6,), "int32"), s: T.Buffer((6,), "int32"), y: T.Buffer((6,), "int32")):
    for a in range(6):
        y[a] = T.shift_right(x[a], s[a])


for kernel in (gather, shift):
    print(*index_parameters(kernel))
file = Path(sys.argv[1])
module = tvm.IRModule({"one": shift, "two": shift})
for name in ("one", "one"):
    module = ReplaceKernel(name, str(file))(module)
    print("replaced")
try:
    ReplaceKernel("two", str(file))(module)
except ValueError as error:
    print(str(error).strip().splitlines()[-1])
