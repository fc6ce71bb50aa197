"""Runs attentions with and without ``FuseAttention``; prints one JSON line each.

A script for an interpreter with TVM's Relax: ``test_fuse_attention.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import kernel_calls, run
from tvm import relax
from tvm.relax import op, transform

from passsearch.dialects.relax.phases import SCHEDULED
from passsearch.standalone.relax.attention import FuseAttention, regions
from passsearch.standalone.relax.attention.loops import ROWS
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU, ScheduleRows
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.cut_fusion import CutFusion
from passsearch.standalone.relax.graph_rewrites.expand_math import ExpandMath
from passsearch.standalone.relax.graph_rewrites.passes import CpuGEMV, CpuReduction
from passsearch.standalone.relax.graph_rewrites.row_kernels import FuseRows

TARGETS = {
    name: tvm.target.Target(target_options(f"llvm -mcpu={name}")) for name in ("x86-64", "x86-64-v3", "x86-64-v4")
}
RUNS_LONG_VECTORS = "avx512vl" in Path("/proc/cpuinfo").read_text()
RANDOM = np.random.default_rng(0)
Emit = Callable[[Any], Any]


def number(value: float, dtype: str = "float32") -> Any:
    return relax.const(value, dtype)


def weight(*shape: int, dtype: str = "float32") -> Any:
    return relax.const(RANDOM.standard_normal(shape).astype(dtype), dtype)


def later_tokens(size: int) -> Any:
    return relax.const(np.tril(np.ones((1, size, size), bool)))


def masked_out(size: int) -> Any:
    """A mask that leaves the first row nothing, and every other what is not above the diagonal."""
    mask = np.where(np.tril(np.ones((size, size), bool), -1), 0.0, -np.inf)
    return relax.const(mask[None].astype("float32"))


def windows(emit: Emit, scores: Any) -> Any:
    """Swin adds a mask of windows to scores that it reshapes for that."""
    split = emit(op.reshape(scores, (1, 4, 3, 9, 9)))
    return emit(op.reshape(emit(op.add(split, weight(1, 4, 1, 9, 9))), (4, 3, 9, 9)))


def without_nan(emit: Emit, weights: Any) -> Any:
    return emit(op.where(emit(op.isnan(weights)), number(0.0), weights))


def divided(emit: Emit, scores: Any) -> Any:
    return emit(op.divide(scores, number(8.0)))


def selected(emit: Emit, scores: Any) -> Any:
    """A selection that is computed, of a size that no block of columns divides."""
    is_left = emit(op.greater(emit(op.exp(weight(1, 37))), number(0.5)))
    return emit(op.where(is_left, emit(op.add(weight(37), scores)), number(-1e9)))


def masked(emit: Emit, scores: Any) -> Any:
    """A mask that is computed, of a size that no block of columns divides."""
    mask = emit(op.exp(weight(1, 1, 37)))
    return emit(op.add(mask, divided(emit, scores)))


@dataclass(frozen=True)
class Case:
    """An attention.

    Attributes:
        query: Shape of the query, which is the input.
        columns: Number of keys.
        width: Size of a value.
        between: What happens between the first product and the softmax.
        after: What happens between the softmax and the second product.
        axis: Axis of the softmax.
        dtype: Type of all numbers.
        read_again: True if something else reads the weights.
        in_rows: True for keys that are transposed before the first product.
        group: Heads of the query for each head of keys and values, which are repeated then.
    """

    query: tuple[int, ...]
    columns: int
    width: int
    between: Callable[[Emit, Any], Any] = lambda _emit, scores: scores
    after: Callable[[Emit, Any], Any] = lambda _emit, weights: weights
    axis: int = -1
    dtype: str = "float32"
    read_again: bool = False
    in_rows: bool = False
    group: int = 1

    @property
    def has_few_rows(self) -> bool:
        return self.query[-2] < ROWS


CASES = {
    "plain": Case((2, 3, 24, 8), 64, 32),
    "rows and columns that no tile divides": Case((2, 25, 8), 37, 20),
    "few columns": Case((2, 6, 8), 5, 16),
    "no leading axis": Case((13, 8), 33, 36),
    "one column": Case((2, 7, 8), 1, 16),
    "long": Case((1, 97, 16), 300, 64),
    "narrow values": Case((2, 12, 8), 32, 3),
    "scaled": Case((2, 12, 8), 32, 16, divided),
    "masked": Case((2, 12, 8), 37, 16, masked),
    "selected": Case((2, 12, 8), 37, 16, selected),
    "half precision": Case((2, 12, 8), 32, 16, dtype="float16"),
    "bias": Case((2, 3, 12, 8), 37, 16, lambda emit, scores: emit(op.add(scores, weight(3, 12, 37)))),
    "difference": Case((2, 12, 8), 32, 16, lambda emit, scores: emit(op.subtract(weight(1, 12, 1), scores))),
    "causal": Case((2, 12, 8), 12, 16, lambda emit, scores: emit(op.where(later_tokens(12), scores, number(-1e9)))),
    "windows": Case((4, 3, 9, 8), 9, 16, windows),
    "row that is masked out": Case(
        (2, 12, 8), 12, 16, lambda emit, scores: emit(op.add(scores, masked_out(12))), without_nan
    ),
    "softmax of columns": Case((2, 12, 8), 12, 16, axis=1),
    "few rows": Case((2, 5, 8), 32, 16),
    "double precision": Case((2, 12, 8), 32, 16, dtype="float64"),
    "weights read again": Case((2, 12, 8), 32, 16, read_again=True),
    "token": Case((1, 12, 1, 64), 37, 64, in_rows=True),
    "token of groups": Case((2, 6, 1, 16), 64, 16, divided, in_rows=True, group=3),
    "few rows of groups": Case(
        (1, 4, 5, 8), 37, 12, lambda emit, scores: emit(op.add(scores, weight(4, 5, 37))), in_rows=True, group=2
    ),
    "groups": Case((2, 6, 13, 8), 37, 16, masked, in_rows=True, group=2),
    "token of one head": Case((1, 1, 8), 32, 16, in_rows=True),
    "token of one group": Case((1, 4, 1, 8), 32, 16, in_rows=True, group=4),
    "few rows of a large group": Case((2, 12, 5, 8), 32, 16, in_rows=True, group=6),
    "token of depth 12": Case((2, 1, 12), 32, 16, in_rows=True),
}


def repeated(emit: Emit, tensor: Any, times: int) -> Any:
    """Return keys or values with every head repeated, as exporters write it."""
    *leading, heads, rows, width = (int(size) for size in tensor.ty.shape.values)
    single = emit(op.expand_dims(tensor, len(leading) + 1))
    whole = emit(op.broadcast_to(single, (*leading, heads, times, rows, width)))
    return emit(op.reshape(whole, (*leading, heads * times, rows, width)))


def network(case: Case) -> Any:
    *leading, _, depth = case.query
    builder = relax.BlockBuilder()
    query = relax.Var("x", relax.TensorType(case.query, case.dtype))
    if case.group > 1:
        leading[-1] //= case.group
    shape = (case.columns, depth) if case.in_rows else (depth, case.columns)
    keys = weight(*leading, *shape, dtype=case.dtype)
    values = weight(*leading, case.columns, case.width, dtype=case.dtype)
    with builder.function("main", [query]):
        with builder.dataflow():
            if case.group > 1:
                keys, values = (repeated(builder.emit, each, case.group) for each in (keys, values))
            if case.in_rows:
                rank = len(case.query)
                keys = builder.emit(op.permute_dims(keys, [*range(rank - 2), rank - 1, rank - 2]))
            scores = case.between(builder.emit, builder.emit(op.matmul(query, keys)))
            weights = case.after(builder.emit, builder.emit(op.nn.softmax(scores, case.axis)))
            result = builder.emit(op.matmul(weights, values))
            if case.read_again:
                result = builder.emit(op.add(result, builder.emit(op.sum(weights, -1, keepdims=True))))
            output = builder.emit_output(op.negative(result))
        builder.emit_func_output(output)
    return builder.get()


@dataclass(frozen=True)
class Sample:
    """An input of a network, and its outputs, computed without any pass that is tested."""

    case: Case
    value: Any
    expected: Any

    @classmethod
    def of(cls, case: Case, module: Any) -> Sample:
        value = RANDOM.standard_normal(case.query).astype(case.dtype)
        expected = run(module, value, next(iter(TARGETS.values())))
        assert np.isfinite(expected).all()
        return cls(case, value, expected)

    def agrees(self, module: Any, target: Any) -> bool | None:
        """Return True if a module has these outputs; ``None`` where this processor cannot run it."""
        if str(target.attrs["mcpu"]) == "x86-64-v4" and not RUNS_LONG_VECTORS:
            return None
        limit = 1e-2 if self.case.dtype == "float16" else 1e-5
        outputs = run(module, self.value, target)
        return bool(np.allclose(self.expected, outputs, rtol=limit, atol=limit * np.abs(self.expected).max()))


def outcomes(name: str, case: Case, module: Any) -> Iterator[dict[str, Any]]:
    """Return what becomes of a network on every processor."""
    sample = Sample.of(case, module)
    for number, (processor, target) in enumerate(TARGETS.items()):
        # The loops are the same on all processors, and compared on one.
        yield {"case": f"{name} on {processor}", **outcome(sample, target, module, with_loops=number == 0)}


def outcome(sample: Sample, target: Any, module: Any, *, with_loops: bool) -> dict[str, Any]:
    loops: Sequence[Any] = (
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FuseOps(fuse_opt_level=2),
        transform.FuseTIR(),
    )
    with target, tvm.transform.PassContext(opt_level=4):
        fused = FuseAttention(least_columns=1)(module)
        unscheduled = tvm.transform.Sequential(loops)(fused.clone()) if with_loops else None
        schedule = tvm.transform.Sequential(
            [
                *(*loops[:2], CutFusion(), FuseRows(), *loops[2:], ExpandMath()),
                *(ScheduleRows(), CpuGEMV(), CpuReduction(), ScheduleCPU()),
            ]
        )
        scheduled = schedule(fused.clone())
    same = sample.agrees(scheduled, target)
    if unscheduled is not None and same:
        same = sample.agrees(unscheduled, target)
    kernels = kernel_calls(scheduled)
    names = [name for name in kernels if name.startswith("attention")]
    stages = (*(FEW_ROWS if sample.case.has_few_rows else PACKED), *IN_VECTORS)
    functions = [scheduled[name] for name in names]
    return {
        "attentions": len(names),
        "regions": len(regions(module)),
        "well_formed": bool(relax.analysis.check_well_formed(fused)),
        "same": same,
        "scheduled": all(each.attrs and SCHEDULED in each.attrs for each in functions),
        "vectors": all(has_vectors(each.script(), stage) for each in functions for stage in stages),
        # Other rules would take it before ``ScheduleCPU``, and pack all keys for every row.
        "packed_first": all("part_step_fused" in each.script() for each in functions),
        "copies": [name for name in kernels if "transpose" in name or "broadcast" in name],
    }


PACKED, FEW_ROWS = ("products_update",), ("lane_products_update",)
"""Stages of the first product, with packed keys and of few rows."""

IN_VECTORS = ("scores", "lane_maxima_update", "weights", "lane_sums_update", "results_update")
"""Stages of an attention that take long unless the loop around their statement is a vector."""


def has_vectors(script: str, stage: str) -> bool:
    before, found, _ = script.partition(f'T.sblock("{stage}")')
    return bool(found) and "T.vectorized(" in before.rsplit(" in ", 1)[1]


def chained() -> Any:
    """A network whose first attention is the query of the second and its mask, which is padded."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((1, 12, 8), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            weights = builder.emit(op.nn.softmax(builder.emit(op.matmul(data, weight(1, 8, 16))), -1))
            first = builder.emit(op.matmul(weights, weight(1, 16, 12)))
            scores = builder.emit(op.matmul(first, weight(1, 12, 12)))
            masked_scores = builder.emit(op.add(scores, first))
            weights = builder.emit(op.nn.softmax(masked_scores, -1))
            output = builder.emit_output(op.matmul(weights, weight(1, 12, 16)))
        builder.emit_func_output(output)
    return builder.get()


def separated() -> list[Any]:
    """Return the number of attentions, and whether the module is well-formed, if two blocks have their parts."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((1, 12, 8), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            scores = builder.emit(op.matmul(data, weight(1, 8, 16)))
            weights = builder.emit_output(op.nn.softmax(scores, -1))
        values = builder.emit(op.exp(weight(1, 16, 16)))
        with builder.dataflow():
            output = builder.emit_output(op.matmul(weights, values))
        builder.emit_func_output(output)
    module = builder.get()
    fused = FuseAttention(least_columns=1)(module)
    return [len(regions(module)), bool(relax.analysis.check_well_formed(fused))]


def reshaped_values() -> list[int]:
    """Return the number of attentions of few rows whose keys and values are of tensors of three axes."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((1, 2, 1, 16), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            keys, values = (builder.emit(op.reshape(weight(1, 64, 32), (1, 2, 64, 16))) for _ in range(2))
            scores = builder.emit(op.matmul(data, builder.emit(op.permute_dims(keys, [0, 1, 3, 2]))))
            weights = builder.emit(op.nn.softmax(scores, -1))
            output = builder.emit_output(op.matmul(weights, values))
        builder.emit_func_output(output)
    module = builder.get()
    FuseAttention(least_columns=1)(module)
    return [len(regions(module))]


def choices() -> dict[str, Any]:
    """Return which of two attentions become one function by which arguments."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((1, 40, 16), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            value = data
            for columns in (40, 20):
                scores = builder.emit(op.matmul(value, weight(1, 16, columns)))
                weights = builder.emit(op.nn.softmax(scores, -1))
                value = builder.emit(op.matmul(weights, weight(1, columns, 16)))
            output = builder.emit_output(op.negative(value))
        builder.emit_func_output(output)
    module = builder.get()

    def sizes(**arguments: Any) -> list[int]:
        """Return the number of columns of every attention that is one function."""
        found: list[int] = []

        def visit(call: Any) -> None:
            if getattr(call.op, "name", "") == "relax.call_tir":
                found.append(int(call.args[1].fields[1].ty.shape[-1]))

        tvm_ffi.structural_walk(FuseAttention(**arguments)(module)["main"], (relax.Call, visit))
        return found

    def refusal(**arguments: Any) -> str:
        try:
            FuseAttention(**arguments)(module)
        except ValueError as error:
            return str(error)
        return ""

    return {
        "two blocks": separated(),
        "reshaped values": reshaped_values(),
        "by default": sizes(),
        "from 30": sizes(least_columns=30),
        "all": sizes(least_columns=1),
        "the second": sizes(attentions={"1": 1}),
        "all but the first": sizes(least_columns=1, attentions={"0": 0}),
        "places": [each["key"] for each in regions(module)],
        "no such place": refusal(attentions={"2": 1}),
        "no such value": refusal(attentions={"0": 2}),
    }


if __name__ == "__main__":
    networks = {name: (case, network(case)) for name, case in CASES.items()}
    networks["chained"] = Case((1, 12, 8), 12, 16), chained()
    for name, (case, module) in list(networks.items())[:: int(sys.argv[1])]:
        for line in outcomes(name, case, module):
            print(json.dumps(line), flush=True)
    print(json.dumps({"case": "choices", **choices()}), flush=True)
