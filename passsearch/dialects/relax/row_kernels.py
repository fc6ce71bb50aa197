"""Kernels that reduce rows and use the results in the same rows: softmax and layer norms.

A layer norm that a framework writes out has two means. ``FuseOps`` ends a group at a second reduction, so that a row is
written and read again by three kernels. ``FuseRows`` makes one kernel of them. ``ScheduleRows`` computes such a kernel
row by row, so that all its passes but the first find the row in the nearest cache.

Imports only TVM, because an exported deployment holds a copy of this file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.target.codegen import llvm_get_vector_width, target_has_features

MIN_PARALLEL_ELEMENTS = 4096
"""Size from which rows are shared between threads; starting them takes longer than a smaller kernel."""
ACCUMULATORS = 4
"""Vectors of partial sums; one alone would wait for each addition to end."""
MIN_ROWS = 16
"""Number of rows from which the rows of a large kernel are enough work for all threads."""
MIN_LANES = 4
X86_VECTOR_BITS = {"avx512f": 512, "avx": 256, "sse": 128}
"""Sizes of vector registers of x86 processors by the feature that brings them, the largest first."""

_ELEMENTWISE, _REDUCING = (0, 1), (3, 4)
"""Kinds of kernels (``OpPatternKind``): elementwise and broadcast; reductions."""


# Fusion.


def FuseRows() -> Any:  # noqa: N802
    """Return a pass that groups the kernels that reduce the same rows twice or more, with what lies between them."""

    def fuse(module: Any, _context: Any) -> Any:
        writer = _GroupWriter(module)
        if not writer.groups:
            return module
        for entry in _entries(module):
            writer.builder_.update_func(entry, writer.visit_expr(module[entry]))
        return writer.builder_.get()

    return tvm.transform.module_pass(fuse, opt_level=0, name="FuseRows")


@mutator
class _GroupWriter(PyExprMutator):  # type: ignore[misc]
    """Replaces the bindings of every group by one call of a function that holds them.

    Attributes:
        groups: The bindings of each group by the variable of its last binding.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.groups: dict[Any, list[Any]] = {}
        for block in (block for entry in _entries(module) for block in module[entry].body.blocks):
            if isinstance(block, relax.DataflowBlock):
                self.groups.update({group[-1].var: group for group in _Rows(module, block.bindings).groups()})
        self._inner = {binding.var for group in self.groups.values() for binding in group[:-1]}

    def visit_var_binding_(self, binding: Any) -> None:
        if binding.var in self._inner:
            return
        if binding.var in self.groups:
            function, arguments = _as_function(self.groups[binding.var])
            names = "_".join(member.value.args[0].name_hint for member in self.groups[binding.var])
            name = self.builder_.add_func(function, f"fused_{names}")
            binding = relax.VarBinding(binding.var, relax.Call(name, arguments))
        super().visit_var_binding_(binding)


def _entries(module: Any) -> list[Any]:
    """Return the variables of the entry functions: ``main``, or one ``main_NAME`` for each of several cases."""
    functions = {name.name_hint: name for name, each in module.functions_items() if isinstance(each, relax.Function)}
    names = ["main"] if "main" in functions else sorted(name for name in functions if name.startswith("main_"))
    return [functions[name] for name in names]


class _Rows:
    """The kernel calls of one dataflow block, by the rows they compute."""

    def __init__(self, module: Any, bindings: Sequence[Any]) -> None:
        self._module, self._bindings = module, bindings
        self._places = {binding.var: place for place, binding in enumerate(bindings)}

    def groups(self) -> list[list[Any]]:
        """Return groups of bindings, each with the one value that is read outside it as its last."""
        groups: list[list[Any]] = []
        taken: set[int] = set()
        for place in range(len(self._bindings)):
            if place not in taken and self._is_row_reduction(place):
                members = self._grow(place, taken)
                if sum(map(self._is_row_reduction, members)) > 1:
                    groups.append([self._bindings[member] for member in members])
                    taken.update(members)
        return groups

    def _grow(self, first: int, taken: set[int]) -> list[int]:
        """Return the first reduction and what follows in its rows, up to a value that alone is read elsewhere."""
        shape = self._row_shape(first)
        members = [first]
        for place in range(first + 1, len(self._bindings)):
            operands = self._operands(place) if self._is_kernel(place) and place not in taken else []
            reads_group = any(operand in members for operand in operands)
            # What is defined after the first member may depend on the group.
            is_ready = all(operand in members or operand < first for operand in operands)
            if reads_group and is_ready and self._row_shape(place) == shape and self._joins(place):
                members.append(place)
        while len(members) > 1 and self._read_elsewhere(members) != {members[-1]}:
            members.pop()
        return members

    def _is_kernel(self, place: int) -> bool:
        value = self._bindings[place].value
        return isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir"

    def _joins(self, place: int) -> bool:
        return self._kind(place) in _ELEMENTWISE or self._is_row_reduction(place)

    def _kind(self, place: int) -> int:
        attributes = self._module[self._bindings[place].value.args[0]].attrs
        return int(attributes["op_pattern"]) if attributes and "op_pattern" in attributes else -1

    def _operands(self, place: int) -> list[int]:
        """Return the places of a kernel's operands, -1 for those that are defined before the block."""
        return [self._places.get(operand, -1) for operand in self._bindings[place].value.args[1].fields]

    def _row_shape(self, place: int) -> tuple[int, ...] | None:
        """Return the shape of a value without its last dimension."""
        shape = _static_shape(self._bindings[place].var.ty)
        return shape[:-1] if shape else None

    def _is_row_reduction(self, place: int) -> bool:
        """Return True for a kernel with one operand that replaces the last dimension by 1."""
        if not self._is_kernel(place) or self._kind(place) not in _REDUCING:
            return False
        operands = self._bindings[place].value.args[1].fields
        shapes = [_static_shape(value.ty) for value in (*operands, self._bindings[place].var)]
        if len(shapes) != 2 or not shapes[0] or not shapes[1]:
            return False
        return shapes[1] == (*shapes[0][:-1], 1) and shapes[0][-1] > 1

    def _read_elsewhere(self, members: Sequence[int]) -> set[int]:
        """Return the members that others read, or that are outputs of the block."""
        inside = {*members}
        found = {place for place in members if not isinstance(self._bindings[place].var, relax.DataflowVar)}
        for place, binding in enumerate(self._bindings):
            if place not in inside:
                found |= {self._places[variable] for variable in _variables(binding.value) if variable in self._places}
        return found & inside


def _as_function(bindings: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return a function that computes bindings, and its arguments; constants are arguments, as in ``FuseOps``."""
    values: dict[Any, Any] = {}
    arguments: list[Any] = []
    own = {binding.var for binding in bindings}
    for binding in bindings:
        for operand in binding.value.args[1].fields:
            if operand not in own and operand not in values:
                values[operand] = relax.Var(f"operand{len(arguments)}", operand.ty)
                arguments.append(operand)
    builder = relax.BlockBuilder()
    with builder.function("rows", list(values.values()), attrs={"Primitive": True}, private=True):
        with builder.dataflow():
            for binding in bindings:
                kernel, operands, *rest = binding.value.args
                fields = relax.Tuple([values[operand] for operand in operands.fields])
                call = relax.Call(binding.value.op, [kernel, fields, *rest], binding.value.attrs, binding.value.ty_args)
                is_last = binding is bindings[-1]
                values[binding.var] = builder.emit_output(call) if is_last else builder.emit(call)
        builder.emit_func_output(values[bindings[-1].var])
    return builder.get()["rows"], arguments


def _variables(expression: Any) -> list[Any]:
    variables: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.Var, variables.append))
    return variables


def _static_shape(annotation: Any) -> tuple[int, ...] | None:
    shape = getattr(annotation, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(size, tirx.IntImm) for size in shape.values):
        return None
    return tuple(int(size) for size in shape.values)


# Schedule.


def ScheduleRows() -> Any:  # noqa: N802
    """Return a pass that schedules the kernels of rows on a CPU; it changes no other kernel and no other target."""

    def schedule(module: Any, _context: Any) -> Any:
        target = tvm.target.Target.current(allow_none=False)
        if "cpu" not in target.keys:
            return module
        # FuseTIR makes functions of the groups of FuseOps. After the schedule it would drop it (``fuse_tir.cc``).
        module = relax.transform.FuseTIR()(module)
        width = _vector_bits(target)
        for name, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc) and not (function.attrs and "tirx.is_scheduled" in function.attrs):
                module.update_func(name, _schedule(function, width))
        return module

    return tvm.transform.module_pass(schedule, opt_level=0, name="ScheduleRows")


def _vector_bits(target: Any) -> int:
    # TVM 0.27 answers 512 for every x86 processor.
    own = (bits for name, bits in X86_VECTOR_BITS.items() if target_has_features(name, target))
    return next(own, 0) or max(int(llvm_get_vector_width(target)), min(X86_VECTOR_BITS.values()))


def _schedule(function: Any, width: int) -> Any:
    """Return the function with a schedule, or the function itself if it does not compute rows."""
    bits = re.search(r"\d+", str(function.params[-1].dtype)) if len(function.params) else None
    if bits is None:
        return function
    scheduler = _RowScheduler(function, lanes=width // int(bits[0]))
    try:
        return scheduler.run() if scheduler.fits() else function
    except s_tir.schedule.ScheduleError:
        return function  # TVM refuses, for example, to split a reduction that has two results


class _RowScheduler:
    """Schedules one function whose blocks share their rows, the last block being elementwise."""

    def __init__(self, function: Any, *, lanes: int) -> None:
        self._schedule, self._lanes = s_tir.Schedule(function), lanes
        self._blocks = normalize_prim_func(self._schedule) or []

    def fits(self) -> bool:
        """Return True if the function reduces rows and ends with an elementwise block over rows of the same length."""
        if not self._blocks or not all(isinstance(size, int) for block in self._blocks for size in block.dom()):
            return False
        *before, last = self._blocks
        reductions = [block for block in before if not block.is_injective()]
        length = last.dom()[-1] if last.dom() else 0
        rows = math.prod(last.dom()[:-1])
        sizes = (rows, rows * length)
        return (
            last.is_injective()
            and (rows >= MIN_ROWS or rows * length < MIN_PARALLEL_ELEMENTS)
            and bool(reductions)
            and all(self._reduces_rows(block, length) for block in reductions)
            and all(math.prod(block.dom()) in sizes for block in self._blocks)
        )

    def run(self) -> Any:
        """Return the scheduled function."""
        schedule, last = self._schedule, self._blocks[-1].block_rv
        steps = [step for block in self._inline() for step in self._steps(block)]
        loops = schedule.get_loops(last)
        row = schedule.fuse(*loops[:-1]) if len(loops) > 1 else schedule.split(loops[-1], [1, None])[0]
        for step in reversed(steps):
            schedule.compute_at(step, row, preserve_unit_loops=True)
        # First, because TVM makes no loop parallel around a reduction whose initial value has a block of its own.
        if math.prod(self._blocks[-1].dom()) >= MIN_PARALLEL_ELEMENTS:
            schedule.parallel(row)
        for step in steps:
            self._vectorize(step)
        self._vectorize_last_loop(last)
        return schedule.mod["main"].with_attr("tirx.is_scheduled", True)

    def _reduces_rows(self, block: Any, length: int) -> bool:
        """Return True if a block reduces the contiguous last dimension of its only operand."""
        *rows, reduced = block.iters
        statement = self._schedule.get(block.block_rv)
        own = [write.source for write in statement.writes]
        reads = [read for read in statement.reads if not any(read.source.same_as(buffer) for buffer in own)]
        return (
            reduced.kind == "R"
            and reduced.dom == length
            and all(axis.kind == "S" for axis in rows)
            and len(reads) == len(own) == 1
            and reads[0].region[-1].min.same_as(reduced.var)
        )

    def _inline(self) -> list[Any]:
        """Inline elementwise blocks where that costs little; return the blocks before the last that are left."""
        left = []
        for block in self._blocks[:-1]:
            if block.is_injective() and self._is_inlined(block):
                self._schedule.compute_inline(block.block_rv)
            else:
                left.append(block)
        return left

    def _is_inlined(self, block: Any) -> bool:
        readers = self._schedule.get_consumers(block.block_rv)
        last = self._blocks[-1]
        is_per_row = math.prod(block.dom()) < math.prod(last.dom())
        if is_per_row:  # inlined, it would be computed again for every element of the row
            return False
        return len(readers) == 1 or not _is_expensive(self._schedule.get(block.block_rv))

    def _steps(self, block: Any) -> list[Any]:
        """Return a block, a reduction split into several: of whole vectors, and last of the elements of one vector."""
        if block.is_injective():
            return [block.block_rv]
        steps, rank = [], len(self._schedule.get(block.block_rv).writes[0].region)
        for most in (ACCUMULATORS * self._lanes, self._lanes):
            loop = self._schedule.get_loops(block.block_rv)[-1]
            size = int(self._schedule.get(loop).extent)
            lanes = _divisor(size, most)
            if MIN_LANES <= lanes < size:
                steps.append(self._schedule.rfactor(self._schedule.split(loop, [None, lanes])[1], factor_axis=rank))
        return [*steps, block.block_rv]

    def _vectorize(self, step: Any) -> None:
        """Vectorise a block that writes a row or a vector."""
        schedule, axes = self._schedule, self._schedule.get(step).iter_vars
        loops = list(schedule.get_loops(step))[-len(axes) :]
        reduced = [loop for loop, axis in zip(loops, axes, strict=True) if axis.iter_type == tirx.IterVar.CommReduce]
        if not reduced:
            self._vectorize_last_loop(step)
            return
        spatial = [loop for loop in loops if not any(loop.same_as(other) for other in reduced)]
        lane = max(spatial, key=lambda loop: int(schedule.get(loop).extent), default=None)
        if lane is None or int(schedule.get(lane).extent) < MIN_LANES:
            return
        schedule.reorder(*reduced, lane)
        schedule.vectorize(lane)
        initial = schedule.decompose_reduction(step, reduced[0])
        schedule.vectorize(schedule.get_loops(initial)[-1])

    def _vectorize_last_loop(self, step: Any) -> None:
        schedule, loop = self._schedule, self._schedule.get_loops(step)[-1]
        lanes = _divisor(int(schedule.get(loop).extent), self._lanes)
        if lanes >= MIN_LANES:
            schedule.vectorize(schedule.split(loop, [None, lanes])[1])


def _is_expensive(statement: Any) -> bool:
    """Return True if a block calls a function, or has the polynomial of one."""
    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (tirx.Let, found.append))
    tvm_ffi.structural_walk(statement, (tvm.ir.Call, found.append))
    return bool(found)


def _divisor(size: int, most: int) -> int:
    """Return the largest divisor up to ``most``."""
    return max(divisor for divisor in range(1, most + 1) if size % divisor == 0)
