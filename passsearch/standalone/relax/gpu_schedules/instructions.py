"""Instructions of tensor cores, and of the loads for them: what each computes as plain loops, and its code.

A warp of 32 threads multiplies two tiles of 16 by 16, of 16 by 32 in 8 bits, and adds the products to a third one.
Each thread holds eight values of each tile, 16 of those in 8 bits, at places that the PTX ISA lays down
(``mma.m16n8k32``, ``mma.m16n8k16``, ``mma.m16n8k8`` and ``ldmatrix``, sections 9.7.14 and 9.7.15 of version 9.0).
Factors in float32 are multiplied as TF32: the loads round them to 10 bits after the point, to the nearer one and ties
away from zero, which the plain loops leave out. Sums of integers are int32 and exact, all others are float32.

TVM's own module ``tvm.s_tir.tensor_intrin.cuda`` parses a hundred such descriptions on import, which takes 44 s; these
are built without a parser when a kernel needs them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.backend.cuda.op import cuda_func_call
from tvm.s_tir import TensorIntrin
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812 -- TVM's own name for it
from tvm.tirx import Cast

WARP = 32
EDGE = 16
"""Rows and columns of what one description computes."""
SUMS = EDGE * EDGE // WARP
"""Sums of a tile that a thread holds."""

TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "tf32", "int8": "int8", "uint8": "uint8"}
"""Types of factors, and their names in TVM's instruction."""
SUM_TYPES = {"float32": "fp32", "int32": "int32"}
"""Types of sums, and their names there."""

VECTOR_BYTES = 16
"""Bytes that one instruction reads or writes at most, and those of a row of a matrix that ``ldmatrix`` loads."""

ROUND = "round_to_tf32"
ROUND_CODE = f"""
static __device__ __forceinline__ float {ROUND}(float value) {{
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return __uint_as_float(rounded);
}}
"""


def bytes_of(dtype: str) -> int:
    """Return the bytes of a value."""
    return int(tvm.DataType(dtype).bits) // 8


def steps_of(dtype: str) -> int:
    """Return the steps of what one description computes with factors of a type."""
    return 2 * EDGE if bytes_of(dtype) == 1 else EDGE


def sums_of(dtype: str) -> str:
    """Return the type of sums of products of a type."""
    return "int32" if bytes_of(dtype) == 1 else "float32"


def place_sum(row: Any, column: Any) -> tuple[Any, Any]:
    """Return the thread and the place in its registers of a sum."""
    return 4 * (row % 8) + column % 8 // 2, 4 * (column // 8) + 2 * (row // 8) + column % 2


def place_factor(operand: int, dtype: str) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return a function of row, or column, and step: the thread and the place in its registers of a factor.

    Args:
        operand: 0 for the left one, 1 for the right one.
        dtype: Type of the values.
    """
    values = 4 // bytes_of(dtype)  # of a register; those of the four threads of a row follow each other

    def place(row: Any, step: Any) -> tuple[Any, Any]:
        group, upper = step // (4 * values), row // 8
        register = 2 * group + upper if operand == 0 else steps_of(dtype) // (4 * values) * upper + group
        return 4 * (row % 8) + step % (4 * values) // values, values * register + step % values

    return place


@cache
def load(operand: int, dtype: str, *, transposed: bool) -> str:
    """Return the name of the instruction that loads a tile of an operand from shared memory into registers.

    Args:
        operand: 0 for the left one, 1 for the right one.
        dtype: Type of the values.
        transposed: True if rows or columns are neighbours in shared memory, and not steps of the sum.
    """
    place = place_factor(operand, dtype)
    sizes = (steps_of(dtype), EDGE) if transposed else (EDGE, steps_of(dtype))

    def describe(shared: Any, warp: Any) -> None:
        with _each("load", "SS", sizes) as (row, column):
            at = place(column, row) if transposed else place(row, column)
            _store(warp, at, shared[row, column], reads=[shared[row, column]])

    def generate(shared: Any, warp: Any) -> None:
        with T.thread_binding(0, WARP, thread="threadIdx.x") as lane:
            if dtype == "float32":
                _load_tf32(shared, warp, lane, operand, transposed=transposed)
                return
            if transposed and bytes_of(dtype) == 1:
                _load_values(shared, warp, lane, operand)
                return
            # A thread names one row of one of the four matrices of 8 by 8, in the order of the registers that they go
            # to: for the left operand and a transposed right one, the next eight rows before the next eight columns.
            rows_first = (operand == 0) != transposed
            row, column = (lane % 16, lane // 16) if rows_first else (8 * (lane // 16) + lane % 8, lane % 16 // 8)
            _load_matrices(shared, warp, 0, row, VECTOR_BYTES // bytes_of(dtype) * column, transposed=transposed)

    name, buffers = f"load{operand}_{dtype}_{transposed}", (_Buffer(dtype, sizes, "shared"), _factors(dtype))
    return _register(name, buffers, (0,), describe, generate)


@cache
def multiply(left_type: str, right_type: str, *, steps: int) -> str:
    """Return the name of the instruction that adds the products of two tiles to sums.

    Args:
        left_type: Type of the left factors.
        right_type: Type of the right ones: the same, or another one of 8 bits.
        steps: Terms of the sums that one instruction of the device adds: 16, 8 on sm_75 and in TF32, 32 in 8 bits.
    """
    dtypes = (left_type, right_type)
    places = [place_factor(operand, dtype) for operand, dtype in enumerate(dtypes)]
    all_steps, sum_type = steps_of(left_type), sums_of(left_type)

    def describe(left: Any, right: Any, sums: Any) -> None:
        with _each("multiply", "SSR", (EDGE, EDGE, all_steps)) as (row, column, step):
            first, second, at = left[places[0](row, step)], right[places[1](column, step)], place_sum(row, column)
            # TVM makes no cast of a type to itself.
            product = first * second if left_type == sum_type else Cast(sum_type, first) * Cast(sum_type, second)
            _store(sums, at, sums[at] + product, reads=[sums[at], first, second])

    def generate(left: Any, right: Any, sums: Any) -> None:
        kinds = (f"m16n8k{steps}", "row", "col", TYPES[left_type], TYPES[right_type], SUM_TYPES[sum_type])
        with T.thread_binding(0, WARP, thread="threadIdx.x"):
            for half, step in itertools.product((0, 1), range(0, all_steps, steps)):
                registers = ((left, step // 2), (right, (half * all_steps + step) // 4), (sums, half * SUMS // 2))
                own = [each for buffer, at in registers for each in (buffer.data, buffer.elem_offset + at)]
                T.evaluate(T.ptx_legacy.mma(*kinds, *own, False, dtype=sum_type))

    name, buffers = f"multiply_{left_type}_{right_type}_{steps}", (*map(_factors, dtypes), _sums(sum_type))
    return _register(name, buffers, (2, 0, 1), describe, generate)


@cache
def clear(sum_type: str) -> str:
    """Return the name of the instruction that sets sums of a type to 0."""

    def describe(sums: Any) -> None:
        with _each("clear", "SS", (EDGE, EDGE)) as (row, column):
            _store(sums, place_sum(row, column), tirx.const(0, sum_type), reads=[])

    def generate(sums: Any) -> None:
        with T.thread_binding(0, WARP, thread="threadIdx.x"):
            T.evaluate(T.cuda.mma_fill_legacy(SUMS, sums.data, sums.elem_offset, dtype=sum_type))

    return _register(f"clear_{sum_type}", (_sums(sum_type),), (), describe, generate)


def _load_matrices(shared: Any, warp: Any, register: int, row: Any, column: Any, *, transposed: bool = False) -> None:
    """Load four matrices of eight rows of 16 bytes, of which this thread names the row that begins at a value."""
    offset = shared.strides[0] * row + column
    target, source = (warp.data, warp.elem_offset + register), shared.access_ptr("r")
    T.evaluate(T.ptx_legacy.ldmatrix(transposed, 4, ".b16", *target, source, offset, dtype=str(warp.dtype)))


def _load_tf32(shared: Any, warp: Any, lane: Any, operand: int, *, transposed: bool) -> None:
    """Load a tile of float32 and round it to TF32; ``ldmatrix`` turns no matrices of 32 bits."""
    for half in () if transposed else (0, 1):
        # Registers 4 to 7 of the left operand have the next eight steps, those of the right one the next columns.
        starts = ((lane % 16, 8 * half + lane // 16 * 4), (8 * half + lane % 8, lane // 8 * 4))
        _load_matrices(shared, warp, 4 * half, *starts[operand])
    for register, (row, step) in enumerate(_own_factors(operand, "float32", lane)):
        value = shared[step, row] if transposed else warp[lane, register]
        T.buffer_store(
            warp, cuda_func_call(ROUND, value, source_code=ROUND_CODE, return_type="float32"), [lane, register]
        )


def _load_values(shared: Any, warp: Any, lane: Any, operand: int) -> None:
    """Load a tile of 8 bits value by value: ``ldmatrix`` turns pairs of them."""
    for place, (row, step) in enumerate(_own_factors(operand, str(warp.dtype), lane)):
        T.buffer_store(warp, shared[step, row], [lane, place])


def _own_factors(operand: int, dtype: str, lane: Any) -> Iterator[tuple[Any, Any]]:
    """Yield row and step of each factor of a thread, the inverse of ``place_factor``."""
    values = 4 // bytes_of(dtype)
    groups = steps_of(dtype) // (4 * values)
    for register, value in itertools.product(range(2 * groups), range(values)):
        upper, group = (register % 2, register // 2) if operand == 0 else (register // groups, register % groups)
        yield 8 * upper + lane // 4, values * (4 * group + lane % 4) + value


def keep_in_registers(function: Any) -> Any:
    """Return a function in which a thread has only its own values of the tiles that a warp holds.

    TVM's own pass, ``LowerWarpMemory``, gives every thread the values of all, in local memory, or exchanges values
    that a thread has already (0.27). Each thread reads and writes its own values here: loops are bound so.
    """
    own: dict[Any, Any] = {}

    def thread_buffer(buffer: Any) -> Any:
        if buffer not in own:
            *outer, _, values = buffer.shape
            match = {"elem_offset": buffer.elem_offset, "offset_factor": buffer.offset_factor}
            own[buffer] = tirx.decl_buffer(
                [*outer, values], buffer.dtype, buffer.name, scope="local", data_alignment=64, layout=None, **match
            )
        return own[buffer]

    def is_shared(buffer: Any) -> bool:
        return bool(tirx.is_buffer_var(buffer)) and buffer.scope() == "warp"

    def change(node: Any) -> Any:
        if isinstance(node, tvm.ir.Var):
            return thread_buffer(node) if is_shared(node) else node
        if isinstance(node, tirx.BufferStore):
            if is_shared(node.buffer):
                return tirx.BufferStore(thread_buffer(node.buffer), node.value, _without_lane(node.indices))
        elif is_shared(node.source):
            if isinstance(node, tvm.ir.TensorLoad):
                return tirx.BufferLoad(thread_buffer(node.source), _without_lane(node.indices))
            return tirx.BufferRegion(thread_buffer(node.source), _without_lane(node.region))
        return node

    kinds = (tvm.ir.Var, tvm.ir.TensorLoad, tvm.ir.TensorRegion, tirx.BufferStore)
    return function.with_body(tvm_ffi.structural_map(function.body, (kinds, change), order="pre"))


def _without_lane(indices: Any) -> list[Any]:
    *outer, _, value = indices
    return [*outer, value]


@dataclass(frozen=True)
class _Buffer:
    """What an instruction reads or writes."""

    dtype: str
    shape: tuple[int, int]
    scope: str

    def match(self, handle: Any, *, strided: bool) -> Any:
        """Return the buffer of a function's argument; rows of shared memory lie apart in code."""
        strides = [T.int32(), T.int32()] if strided and self.scope == "shared" else None
        options = {"scope": self.scope, "strides": strides, "layout": None}
        return T.match_buffer(handle, self.shape, self.dtype, offset_factor=8, align=64, **options)


def _factors(dtype: str) -> _Buffer:
    return _Buffer(dtype, (WARP, EDGE * steps_of(dtype) // WARP), "warp")


def _sums(dtype: str) -> _Buffer:
    return _Buffer(dtype, (WARP, SUMS), "warp")


def _register(
    name: str,
    buffers: tuple[_Buffer, ...],
    reads: tuple[int, ...],
    describe: Callable[..., None],
    generate: Callable[..., None],
) -> str:
    """Register an instruction that reads the buffers at these places and writes the last one; return its name."""
    name = f"passsearch.{name}"
    functions = [_function(buffers, reads, body, strided=body is generate) for body in (describe, generate)]
    TensorIntrin.register(name, *functions, override=True)
    return name


def _function(buffers: tuple[_Buffer, ...], reads: tuple[int, ...], body: Callable[..., None], *, strided: bool) -> Any:
    with IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            handles = [T.arg(f"data{number}", T.handle()) for number in range(len(buffers))]
            own = [each.match(handle, strided=strided) for each, handle in zip(buffers, handles, strict=True)]
            with T.sblock("root"):
                T.reads(*(_whole(own[each]) for each in reads))
                T.writes(_whole(own[-1]))
                body(*own)
        return builder.get()


def _whole(buffer: Any) -> Any:
    first, second = buffer.shape
    return buffer[0:first, 0:second]


@contextmanager
def _each(name: str, kinds: str, sizes: tuple[int, ...]) -> Iterator[list[Any]]:
    """Loop over rows and columns, and over steps of a sum, in a block."""
    with T.grid(*sizes) as loops, T.sblock(name):
        yield list(T.axis.remap(kinds, list(loops)))


def _store(buffer: Any, place: tuple[Any, Any], value: Any, *, reads: list[Any]) -> None:
    T.reads(*reads)
    T.writes(buffer[place])
    T.buffer_store(buffer, value, list(place))
