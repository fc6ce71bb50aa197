"""Places where fusion of kernels ends: values that are computed once and stored, instead of inside their consumers.

``FuseOps`` fuses whatever it can. A value that a larger consumer broadcasts is then computed again for every element
of that consumer: eight exponentials of 1024 numbers, added to a matrix of 1024 by 1024, become eight million
(apache/tvm #20342).

``FuseOps`` never fuses an output of a dataflow block into a consumer (``MarkAsExternRef`` in ``fuse_ops.cc``), so a cut
makes the value such an output. ``CanonicalizeBindings`` and ``DeadCodeElimination`` remove outputs that only the block
itself reads, and with them the cuts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

BROADCAST, REDUCTION, TAIL, SHARED, LAYOUT = "broadcast", "reduction", "tail", "shared", "layout"
"""Reasons for a cut; see ``FusionCut``."""

REASONS_TO_TRY = frozenset({BROADCAST, TAIL, SHARED})
"""Reasons for which a search tries a cut. A stored change of layout or result of a sum rarely pays."""

ELEMENTARY, DIVISION = 16, 4
"""Costs of an elementary function and of a division or a root, where an addition costs 1."""
_DIVISION = "divide"
COSTS = {
    **dict.fromkeys(("acos", "asin", "atan", "cos", "cosh", "erf", "exp", "exp10", "exp2", "log", "log10"), ELEMENTARY),
    **dict.fromkeys(("log1p", "log2", "pow", "sigmoid", "sin", "sinh", "tan", "tanh"), ELEMENTARY),
    **dict.fromkeys((_DIVISION, "rsqrt", "sqrt"), DIVISION),
}
"""Costs by the name of TVM's intrinsic."""
_SELECTION = "if_then_else"

LEAST_COST = 2 * DIVISION
"""Cost of one element from which a value is cut without being named."""
LEAST_SAVING = 1 << 18
"""Operations saved from which a value is cut without being named; a further kernel takes about two microseconds."""

_INJECTIVE, _REDUCING = 2, (3, 4)
"""Kinds of kernels (``OpPatternKind``): a change of layout; a reduction, alone or with elementwise consumers."""
_LEVEL = 2
"""Level of ``FuseOps`` in TVM's pipelines."""
_POSITION = "passsearch.position"
"""Attribute of a kernel: the position of its only call."""


def CutFusion(values: Sequence[int] | None = None) -> Any:  # noqa: N802
    """Return a pass that keeps ``FuseOps`` from fusing values into the kernels that read them.

    Args:
        values: Values beside those that ``costly_broadcasts`` selects, by their position among the bindings of
            the entry functions, from 0.

    Raises:
        ValueError: A position is no kernel call.
    """

    def cut(module: Any, _context: Any) -> Any:
        positions = sorted({*costly_broadcasts(module), *(values or ())})
        bindings = list(_entry_bindings(module))
        variables = [_kernel_binding(bindings, position).var for position in positions]
        writer = _OutputWriter(module, variables)
        for entry in _entries(module):
            writer.builder_.update_func(entry, writer.visit_expr(module[entry]))
        return writer.builder_.get() if variables else module

    return tvm.transform.module_pass(cut, opt_level=0, name="CutFusion")


@dataclass(frozen=True)
class FusionCut:
    """A value that ``FuseOps`` fuses into a consumer, and why it may be better to cut there.

    Attributes:
        value: Its position among the bindings of the entry functions.
        kernel: Name of the kernel that computes it.
        shape: Its shape.
        reasons: ``broadcast`` if a consumer is larger; ``reduction`` if the kernel reduces, as products, pools and
            means do; ``tail`` if a reduction's first expensive consumer reads it; ``shared`` if several consumers read
            it; ``layout`` if it or a consumer is a change of layout, as reshapes and transposes are.
        recomputation: Operations that are executed again if the value is computed for every element of its largest
            consumer.
        cost: Operations for one element, with those of all elementwise kernels that are fused into its kernel.
    """

    value: int
    kernel: str
    shape: tuple[int, ...]
    reasons: tuple[str, ...]
    recomputation: int
    cost: int


def fusion_cuts(module: Any) -> tuple[FusionCut, ...]:
    """Return the values at which cuts may pay, for a module that ``AnnotateTIROpPattern`` has annotated."""
    return _Graph(module).cuts()


def regions(module: Any) -> list[dict[str, str]]:
    """Return ``key`` (the number) and ``like`` (a digest of its neighbours) of each value where a cut may be tried."""
    graph = _Graph(module)
    selected = graph.store_costly_broadcasts()
    return [
        {"key": str(cut.value), "like": graph.describe(cut.value)}
        for cut in graph.cuts()
        if cut.value not in selected and not REASONS_TO_TRY.isdisjoint(cut.reasons)
    ]


def costly_broadcasts(module: Any) -> tuple[int, ...]:
    """Return the expensive values that ``FuseOps`` would compute again for every element of a larger consumer."""
    return _Graph(module).store_costly_broadcasts()


class _Graph:
    """The kernel calls of the entry functions, and the groups that ``FuseOps`` makes of them.

    Attributes:
        groups: The name of its group for every value that is fused into a consumer.
        stored: Values that are cut.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        bindings = list(_entry_bindings(module))
        self._calls = {place: binding for place, binding in enumerate(bindings) if _is_kernel_call(binding)}
        self._members, self.groups = _fusion_groups(module)
        self._producers, self._consumers = _edges(bindings, self._calls)
        self._operators_of: dict[str, Counter[str]] = {}
        self._costs: dict[int, int] = {}
        self.stored: set[int] = set()

    def store_costly_broadcasts(self) -> tuple[int, ...]:
        """Store the values that ``costly_broadcasts`` returns, so that they count for others as computed once."""
        for position in sorted(self.groups):
            cut = self.cut(position)
            if cut is not None and cut.cost >= LEAST_COST and cut.recomputation >= LEAST_SAVING:
                self.stored.add(position)
        return tuple(sorted(self.stored))

    def cuts(self) -> tuple[FusionCut, ...]:
        """Return the values for whose cut there is a reason."""
        cuts = (self.cut(position) for position in sorted(self.groups))
        return tuple(cut for cut in cuts if cut is not None and cut.reasons)

    def cut(self, position: int) -> FusionCut | None:
        """Return the cut at a value; ``None`` if its shape is not static."""
        shape = _static_shape(self._calls[position].var.ty)
        if shape is None:
            return None
        consumers = [place for place in self._consumers[position] if self._in_group(place, position)]
        sizes = [self._size(place) for place in consumers if not self._selects(place)]
        again = max([0, *(size - math.prod(shape) for size in sizes)])
        reasons = {
            BROADCAST: again > 0,
            REDUCTION: self._reduces(position),
            TAIL: self._ends_epilogue(position, consumers),
            SHARED: len(consumers) > 1,
            LAYOUT: any(self._kind(place) == _INJECTIVE for place in (position, *consumers)),
        }
        names = tuple(name for name, holds in reasons.items() if holds)
        cost = self._cost(position)
        return FusionCut(position, self._kernel(position).name_hint, shape, names, again * cost, cost)

    def describe(self, position: int) -> str:
        """Return the names of the kernels that compute and read a value; calls of one kernel are alike."""
        readers = sorted(self._kernel(place).name_hint for place in self._consumers[position])
        return f"{self._kernel(position).name_hint} to {', '.join(readers)}"

    def _in_group(self, position: int, other: int) -> bool:
        return self._members.get(position) == self._members[other]

    def _size(self, position: int) -> int:
        return math.prod(_static_shape(self._calls[position].var.ty) or (0,))

    def _kernel(self, position: int) -> Any:
        return self._calls[position].value.args[0]

    def _kind(self, position: int) -> int:
        return int(self._module[self._kernel(position)].attrs["op_pattern"])

    def _reduces(self, position: int) -> bool:
        return self._kind(position) in _REDUCING

    def _own_cost(self, position: int) -> int:
        """Return the cost of one element, without that of the operands."""
        operators = self._operators(position)
        return 1 + sum(COSTS.get(name, 0) * number for name, number in operators.items())

    def _selects(self, position: int) -> bool:
        """Return True if a kernel reads an operand for some of its elements only, as concatenations and paddings do."""
        return _SELECTION in self._operators(position)

    def _operators(self, position: int) -> Counter[str]:
        name = self._kernel(position).name_hint
        if name not in self._operators_of:
            self._operators_of[name] = _operators(self._module[name])
        return self._operators_of[name]

    def _fused_producers(self, position: int) -> list[int]:
        """Return the values that are computed inside this kernel."""
        producers = self._producers[position]
        return [place for place in producers if place in self.groups and self._in_group(place, position)]

    def _cost(self, position: int) -> int:
        """Return the cost of one element, with that of the values that are computed again for it."""
        if position not in self._costs:
            # A reduction is computed before the kernel that reads it, so that its elements are not computed again.
            inlined = (place for place in self._fused_producers(position) if place not in self.stored)
            rest = sum(self._cost(place) for place in inlined if not self._reduces(place))
            self._costs[position] = self._own_cost(position) + (0 if self._reduces(position) else rest)
        return self._costs[position]

    def _ends_epilogue(self, position: int, consumers: Sequence[int]) -> bool:
        """Return True if an expensive consumer reads a reduction, or cheap operators after one."""
        if not any(self._own_cost(place) >= ELEMENTARY for place in consumers):
            return False
        pending, reaches = {position}, False
        while pending:
            place = pending.pop()
            if self._reduces(place):
                reaches = True
            elif self._own_cost(place) >= ELEMENTARY:
                return False
            else:
                pending |= set(self._fused_producers(place))
        return reaches


def _entry_bindings(module: Any) -> Iterator[Any]:
    """Yield the bindings of all entry functions; positions of values count through them."""
    for entry in _entries(module):
        yield from _bindings(module[entry])


def _entries(module: Any) -> list[Any]:
    """Return the variables of the entry functions: ``main``, or one ``main_NAME`` for each of several cases."""
    functions = {name.name_hint: name for name, each in module.functions_items() if isinstance(each, relax.Function)}
    names = ["main"] if "main" in functions else sorted(name for name in functions if name.startswith("main_"))
    return [functions[name] for name in names]


def _bindings(function: Any) -> Iterator[Any]:
    for block in function.body.blocks:
        yield from block.bindings


def _is_kernel_call(binding: Any) -> bool:
    value = binding.value
    is_call = isinstance(binding, relax.VarBinding) and isinstance(value, relax.Call)
    return is_call and getattr(value.op, "name", "") == "relax.call_tir"


def _kernel_binding(bindings: Sequence[Any], position: int) -> Any:
    if not 0 <= position < len(bindings):
        raise ValueError(f"CutFusion takes positions of bindings, 0 to {len(bindings) - 1}; got {position}")
    if not _is_kernel_call(bindings[position]):
        raise ValueError(f"CutFusion takes positions of kernel calls; binding {position} is none")
    return bindings[position]


@mutator
class _OutputWriter(PyExprMutator):  # type: ignore[misc]
    """Makes variables outputs of their dataflow blocks."""

    def __init__(self, module: Any, variables: Sequence[Any]) -> None:
        super().__init__(module)
        self._variables = variables

    def visit_var_binding_(self, binding: Any) -> None:
        inner = isinstance(binding.var, relax.DataflowVar)
        if inner and any(binding.var.same_as(variable) for variable in self._variables):
            self.set_var_remap(binding.var, self.builder_.emit_output(self.visit_expr(binding.value)))
        else:
            super().visit_var_binding_(binding)


def _static_shape(annotation: Any) -> tuple[int, ...] | None:
    """Return the shape of a tensor; ``None`` for a tuple and for a shape with variables."""
    shape = getattr(annotation, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(size, tirx.IntImm) for size in shape.values):
        return None
    return tuple(int(size) for size in shape.values)


def _operators(kernel: Any) -> Counter[str]:
    """Count the intrinsics and divisions that are written down in a kernel, by name."""
    names: list[str] = []
    tvm_ffi.structural_walk(kernel, (tvm.ir.Call, lambda call: names.append(str(getattr(call.op, "name", "")))))
    tvm_ffi.structural_walk(kernel, (tirx.Div, lambda _: names.append(_DIVISION)))
    return Counter(name.rpartition(".")[2] for name in names)


def _edges(bindings: Sequence[Any], calls: dict[int, Any]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return the kernel calls that each kernel call reads, and those that read it."""
    sources: dict[Any, int] = {}
    producers: dict[int, list[int]] = {place: [] for place in calls}
    consumers: dict[int, list[int]] = {place: [] for place in calls}
    for place, binding in enumerate(bindings):
        value = binding.value
        if place in calls:
            sources[binding.var] = place
            operands = [sources[operand] for operand in value.args[1].fields if operand in sources]
            producers[place] = list(dict.fromkeys(operands))
            for operand in producers[place]:
                consumers[operand].append(place)
        elif isinstance(value, relax.TupleGetItem) and value.tuple_value in sources:
            sources[binding.var] = sources[value.tuple_value]
    return producers, consumers


def _fusion_groups(module: Any) -> tuple[dict[int, str], dict[int, str]]:
    """Return the group of every value that is in one, and of the values that are not the result of their group."""
    members, inner, names = {}, {}, [entry.name_hint for entry in _entries(module)]
    fused = relax.transform.FuseOps(fuse_opt_level=_LEVEL)(_with_numbered_kernels(module))
    for group, function in fused.functions_items():
        if not isinstance(function, relax.Function) or group.name_hint in names:
            continue
        for binding in filter(_is_kernel_call, _bindings(function)):
            attributes = fused[binding.value.args[0]].attrs
            if attributes and _POSITION in attributes:
                members[int(attributes[_POSITION])] = group.name_hint
                if isinstance(binding.var, relax.DataflowVar):
                    inner[int(attributes[_POSITION])] = group.name_hint
    return members, inner


def _with_numbered_kernels(module: Any) -> Any:
    """Return the module with a kernel of its own for every call in entry functions, which has the call's position."""
    writer = _Numbering(module)
    for entry in _entries(module):
        writer.builder_.update_func(entry, writer.visit_expr(module[entry]))
    return writer.builder_.get()


@mutator
class _Numbering(PyExprMutator):  # type: ignore[misc]
    """Gives every kernel call of ``main`` a kernel of its own, with the position of the call as attribute."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._module = module
        bindings = enumerate(_entry_bindings(module))
        self._positions = {binding.var: place for place, binding in bindings if _is_kernel_call(binding)}

    def visit_var_binding_(self, binding: Any) -> None:
        if binding.var in self._positions:
            call = binding.value
            kernel = self._module[call.args[0]].with_attr(_POSITION, self._positions[binding.var])
            name = self.builder_.add_func(kernel, call.args[0].name_hint)
            value = relax.Call(call.op, [name, *call.args[1:]], call.attrs, call.ty_args)
            binding = relax.VarBinding(binding.var, value)
        super().visit_var_binding_(binding)
