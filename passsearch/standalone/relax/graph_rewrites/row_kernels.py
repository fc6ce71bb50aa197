"""Kernels that reduce rows and use the results in the same rows: softmax and layer norms.

A layer norm that a framework writes out has two means. ``FuseOps`` ends a group at a second reduction, so that a row is
written and read again by three kernels. ``FuseRows`` makes one kernel of them, which ``ScheduleRows`` schedules on a
CPU, and DLight's ``GeneralReduction`` on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

_ELEMENTWISE, _REDUCING = (0, 1), (3, 4)
"""Kinds of kernels (``OpPatternKind``): elementwise and broadcast; reductions."""


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
