"""Concatenations and padding along the last axis, computed part by part in vectors.

The value of an element is a chain of conditions on its place, one for each operand. TVM would test every element of a
vector by itself. Here each part between two places where a condition changes has a loop of its own, without the
conditions, inside the loops over all other axes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Range
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.sym import Analyzer, detect_linear_equation

from .accesses import count_reads, substitute
from .overlap import INDEX
from .sizes import dividing_lanes
from .tiling import MIN_LANES

MAIN_PART = 5 / 8
"""Share of the axis that one part has at least where some are too short, or too odd, for vectors."""

VECTOR_CALLS = frozenset({"tirx.reinterpret", "tirx.shift_left", "tirx.fabs", "tirx.sqrt"})
"""Calls of which LLVM makes instructions of vectors."""

IF_THEN_ELSE = "prim.if_then_else"


@dataclass(frozen=True)
class Parts:
    """The parts of a block along its last axis.

    Attributes:
        bounds: First places of the parts and the size of the axis.
        lanes: Elements of a vector in each part; 1 for a loop over single elements.
    """

    bounds: tuple[int, ...]
    lanes: tuple[int, ...]

    @classmethod
    def find(cls, statement: Any, *, lanes: int) -> Parts | None:
        """Return the parts of a block; ``None`` without conditions, or where too little of it divides into vectors.

        A part that does not is a loop over single elements, of which LLVM makes vectors where it is long.

        Functions with indices of another type than ``INDEX`` have none.
        """
        axis = statement.iter_vars[-1]
        if any(str(each.dom.extent.ty) != INDEX for each in statement.iter_vars):
            return None
        size = int(axis.dom.extent)
        bounds = sorted({0, size, *(place for place in _changes(statement.body, axis.var) if 0 < place < size)})
        sizes = [end - begin for begin, end in itertools.pairwise(bounds)]
        divisors = [dividing_lanes(each, lanes) for each in sizes]
        is_odd = min(divisors) < MIN_LANES
        if len(sizes) < 2 or (is_odd and (max(sizes) < MAIN_PART * size or _calls_functions(statement.body))):
            return None
        return cls(tuple(bounds), tuple(divisor if divisor >= MIN_LANES else 1 for divisor in divisors))

    def insert(self, function: Any, loop: Any) -> Any:
        """Return a scheduled function with a loop for each part.

        Args:
            function: The function.
            loop: The loop over the last axis, which has nothing but the block inside.
        """

        def split_loop(each: Any) -> Any:
            if not each.loop_var.same_as(loop.loop_var):
                return each
            ranges = zip(itertools.pairwise(self.bounds), self.lanes, strict=True)
            return tirx.SeqStmt(
                [
                    _part(each, begin, end, lanes=lanes, number=number)
                    for number, ((begin, end), lanes) in enumerate(ranges)
                ]
            )

        return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, split_loop)))


def _changes(body: Any, axis: Any) -> Iterator[int]:
    """Yield the values of an axis from which on a condition on this axis alone changes."""
    conditions: list[Any] = []

    def visit(call: Any) -> None:
        if getattr(call.op, "name", "") == IF_THEN_ELSE:
            conditions.extend(_conjuncts(call.args[0]))

    tvm_ffi.structural_walk(body, (tvm.ir.Call, visit))
    for condition in conditions:
        # ``a <= b`` changes where ``b - a`` becomes 0, ``a < b`` where it becomes 1.
        if isinstance(condition, (tirx.LE, tirx.LT)):
            factors = detect_linear_equation(condition.b - condition.a, [axis])
            if factors and all(isinstance(factor, tirx.IntImm) for factor in factors):
                step, first = map(int, factors)
                least = int(isinstance(condition, tirx.LT))
                if step == 1:
                    yield least - first
                elif step == -1:
                    yield first - least + 1


def _conjuncts(condition: Any) -> list[Any]:
    """Return conditions that hold together where, and only where, a condition holds."""
    if isinstance(condition, tirx.And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]


def _part(loop: Any, begin: int, end: int, *, lanes: int, number: int) -> Any:
    """Return the loops over one part of the elements that a loop computes."""
    realize = loop.body
    block, last = realize.block, realize.block.iter_vars[-1]
    variables = {axis.var: tirx.Var(f"{axis.var.name}_{number}", INDEX) for axis in block.iter_vars}
    variables |= {bound: tirx.Var(f"{bound.name}_{number}", str(bound.ty)) for bound in _bound_variables(block.body)}
    vector, lane = tirx.Var("vector", INDEX), tirx.Var("lane", INDEX)
    place = vector * lanes + lane + begin
    values = [*realize.iter_values[:-1], place]
    axes = [tirx.IterVar(axis.dom, variables[axis.var], axis.iter_type) for axis in block.iter_vars]
    analyzer = Analyzer()
    analyzer.bind(variables[last.var], Range(begin, end))
    body = _without_conditions(substitute(block.body, variables), analyzer)
    reads = [substitute(region, variables) for region in block.reads if count_reads(body, region.source)]
    writes = [substitute(region, variables) for region in block.writes]
    part = SBlock(axes, reads, writes, f"{block.name_hint}_{number}", body, annotations=block.annotations)
    kind = tirx.ForKind.VECTORIZED if lanes > 1 else tirx.ForKind.SERIAL
    inner = tirx.For(lane, _index(0), _index(lanes), kind, SBlockRealize(values, True, part))
    return tirx.For(vector, _index(0), _index((end - begin) // lanes), tirx.ForKind.SERIAL, inner)


def _bound_variables(body: Any) -> list[Any]:
    """Return the variables of ``Let``; where parts share them, TVM takes the constant of one part for all values."""
    found: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.Let, lambda let: found.append(let.var)))
    return found


def _calls_functions(body: Any) -> bool:
    """Return True if a value calls a function of the mathematics library, which is no vector in a scalar loop."""
    names: set[str] = set()
    tvm_ffi.structural_walk(body, (tvm.ir.Call, lambda call: names.add(getattr(call.op, "name", ""))))
    return bool(names - {IF_THEN_ELSE, *VECTOR_CALLS})


def _without_conditions(body: Any, analyzer: Any) -> Any:
    """Return a statement without the conditions that are known to hold, or not to hold."""

    def choose_branch(call: Any) -> Any:
        if getattr(call.op, "name", "") != IF_THEN_ELSE:
            return call
        condition, value, other = call.args
        left = [each for each in _conjuncts(condition) if not analyzer.can_prove(each)]
        if not left:
            return value
        if any(analyzer.can_prove(tirx.Not(each)) for each in left):
            return other
        return tirx.if_then_else(functools.reduce(tirx.And, left), value, other)

    return tvm_ffi.structural_map(body, (tvm.ir.Call, choose_branch))


def _index(value: int) -> Any:
    return tirx.IntImm(INDEX, value)
