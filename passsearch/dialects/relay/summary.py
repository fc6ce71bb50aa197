"""Convert a Relay module to a `ModuleSummary`, so that the analyzer works on plain data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relay

from passsearch.core import Json, ModuleSummary, Operator, TensorType
from passsearch.dialects.shared import Producers, flatten_producers

_NAMESPACES = re.compile(r"^(?:(?:nn|vision|image|qnn|dyn|contrib|annotation|random|memory|vm)\.)+")
_LAYOUTS = ("data_layout", "layout", "src_layout", "dst_layout", "kernel_layout", "weight_layout", "out_layout")
# Layout and schedule passes rename the operators whose data they repack: `contrib_conv2d_NCHWc` is still a conv2d.
_REPACKED = re.compile(r"^contrib_(?:depthwise_)?(conv\dd|dense|conv2d_winograd)(?:_.*)?$")


def summarize(module: tvm.IRModule) -> ModuleSummary:
    """Return the operators of a module's entry function in topological order.

    Args:
        module: Any valid module with a ``main``; it needs no types.
    """
    typed = relay.transform.InferType()(module)
    main = typed["main"]
    table = _Table()
    for parameter in main.params:
        table.append(parameter, kind="input", op=parameter.name_hint)
    for expression in _post_order(main.body, table.bound):
        if expression not in table.producers:
            table.add(expression)
    return ModuleSummary(tuple(table.operators), flatten_producers(table.producers[main.body]))


def count_operators(module: tvm.IRModule) -> dict[str, int]:
    """Return the number of operators, constants and functions of a module, including functions within functions."""
    counts = Counter[str]()

    def count(expression: Any) -> None:
        if isinstance(expression, relay.Call) and isinstance(expression.op, tvm.ir.Op):
            names = () if expression.attrs is None else _attribute_names(expression.attrs)
            layouts = [str(getattr(expression.attrs, name)) for name in _LAYOUTS if name in names]
            counts[" ".join([expression.op.name, *filter(None, layouts)])] += 1
        elif isinstance(expression, (relay.Function, relay.Constant, relay.Let)):
            counts[type(expression).__name__] += 1

    for function in module.functions.values():
        relay.analysis.post_order_visit(function, count)
    return dict(sorted(counts.items()))


def kind_of(name: str) -> str:
    """Return an operator's name without namespaces and without the affixes of repacking."""
    kind = _NAMESPACES.sub("", name)
    repacked = _REPACKED.match(kind)
    if repacked is None:
        return kind
    return "conv2d" if repacked[1] == "conv2d_winograd" else repacked[1]


@dataclass
class _Table:
    """The operators found so far, and the operators that produce each expression."""

    operators: list[Operator] = field(default_factory=list)
    producers: dict[Any, Producers] = field(default_factory=dict)
    bound: dict[Any, Any] = field(default_factory=dict)

    def add(self, expression: Any) -> None:
        """Add one expression; all its children must be in the table."""
        handler = _HANDLERS.get(type(expression))
        if handler is None:
            # A kind of expression that the analyzer has no rule for still counts as an operator.
            self.append(expression, kind=type(expression).__name__.lower(), op=type(expression).__name__)
            return
        handler(self, expression)

    def append(self, expression: Any, *, kind: str, op: str, **rest: Any) -> None:
        """Add the operator that an expression stands for."""
        index = len(self.operators)
        outputs = tuple(_tensor_types(_checked_type(expression)))
        self.operators.append(
            Operator(
                index,
                kind,
                op,
                rest.get("inputs", ()),
                outputs,
                rest.get("attributes", {}),
                rest.get("value"),
            )
        )
        self.producers[expression] = index

    def inputs(self, expressions: list[Any]) -> tuple[int, ...]:
        """Return the producers of several expressions, in order."""
        return tuple(index for expression in expressions for index in flatten_producers(self.producers[expression]))


def _add_constant(table: _Table, constant: Any) -> None:
    value = None
    # The analyzer reads the values of scalars, for example of divisors. numpy has no bfloat16.
    if not constant.data.shape and constant.data.dtype != "bfloat16":
        value = float(constant.data.numpy())
    table.append(constant, kind="constant", op="constant", value=value)


def _add_call(table: _Table, call: Any) -> None:
    inputs = table.inputs(list(call.args))
    if isinstance(call.op, tvm.ir.Op):
        name = str(call.op.name)
        table.append(call, kind=kind_of(name), op=name, inputs=inputs, attributes=_attributes(call.attrs))
        return
    table.append(call, kind="function", op=_callee(call.op), inputs=inputs)


def _callee(function: Any) -> str:
    if isinstance(function, relay.Function):
        names = dict(function.attrs.items()) if function.attrs else {}
        return str(names.get("Composite") or names.get("Compiler") or "function")
    if isinstance(function, tvm.ir.GlobalVar):
        return str(function.name_hint)
    return str(getattr(function, "name_hint", "function"))


def _add_tuple(table: _Table, expression: Any) -> None:
    table.producers[expression] = tuple(table.producers[item] for item in expression.fields)


def _add_projection(table: _Table, expression: Any) -> None:
    whole = table.producers[expression.tuple_value]
    table.producers[expression] = whole if isinstance(whole, int) else whole[expression.index]


def _add_let(table: _Table, let: Any) -> None:
    """Record that the operators which produce the body of a let expression produce the expression."""
    table.producers[let] = table.producers[let.body]


def _add_variable(table: _Table, variable: Any) -> None:
    if variable in table.bound:
        table.producers[variable] = table.producers[table.bound[variable]]
        return
    table.append(variable, kind="variable", op=str(variable.name_hint))


def _add_if(table: _Table, branch: Any) -> None:
    arms = [branch.cond, branch.true_branch, branch.false_branch]
    table.append(branch, kind="if", op="if", inputs=table.inputs(arms))


def _add_match(table: _Table, match: Any) -> None:
    table.append(match, kind="match", op="match", inputs=table.inputs([match.data]))


def _add_function(table: _Table, function: Any) -> None:
    table.append(function, kind="function", op=_callee(function))


_HANDLERS: dict[type, Callable[[_Table, Any], None]] = {
    relay.Constant: _add_constant,
    relay.Call: _add_call,
    relay.Tuple: _add_tuple,
    relay.TupleGetItem: _add_projection,
    relay.Let: _add_let,
    relay.Var: _add_variable,
    relay.If: _add_if,
    relay.Match: _add_match,
    relay.Function: _add_function,
}


def _children(expression: Any, bound: dict[Any, Any]) -> list[Any]:
    """Return the expressions to list before this one.

    Functions are opaque; a let-bound variable stands for its value.
    """
    if isinstance(expression, relay.Call):
        return list(expression.args)
    if isinstance(expression, relay.Tuple):
        return list(expression.fields)
    if isinstance(expression, relay.TupleGetItem):
        return [expression.tuple_value]
    if isinstance(expression, relay.If):
        return [expression.cond, expression.true_branch, expression.false_branch]
    if isinstance(expression, relay.Match):
        return [expression.data]
    if isinstance(expression, relay.Let):
        bound[expression.var] = expression.value
        return [expression.body]
    return [bound[expression]] if expression in bound else []


def _post_order(root: Any, bound: dict[Any, Any]) -> Iterator[Any]:
    """Yield every expression once, after its children."""
    # A loop, because deep networks exceed the recursion limit.
    visited: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        expression, expanded = stack.pop()
        if expression in visited:
            continue
        children = [] if expanded else _children(expression, bound)
        if children:
            stack.append((expression, True))
            stack.extend((child, False) for child in reversed(children))
            continue
        visited.add(expression)
        yield expression


def _checked_type(expression: Any) -> Any:
    try:
        return expression.checked_type
    except ValueError:  # closures and pattern variables may stay untyped
        return None


def _tensor_types(checked: Any) -> Iterator[TensorType]:
    if isinstance(checked, tvm.ir.TensorType):
        yield TensorType(tuple(_dimension(size) for size in checked.shape), str(checked.dtype))
    if isinstance(checked, tvm.ir.TupleType):
        for item in checked.fields:
            yield from _tensor_types(item)


def _dimension(size: Any) -> int | None:
    return int(size) if isinstance(size, (int, tvm.tir.IntImm)) else None


_ATTRIBUTE_NAMES: dict[type, tuple[str, ...]] = {}


def _attributes(attrs: Any) -> dict[str, Json]:
    """Return an operator's attributes as plain data."""
    if attrs is None:
        return {}
    if isinstance(attrs, tvm.ir.attrs.DictAttrs):
        return {str(key): _plain(value) for key, value in attrs.items()}
    return {name: _plain(getattr(attrs, name)) for name in _attribute_names(attrs)}


def _attribute_names(attrs: Any) -> tuple[str, ...]:
    if isinstance(attrs, tvm.ir.attrs.DictAttrs):
        return tuple(map(str, attrs.keys()))
    kind = type(attrs)
    if kind in _ATTRIBUTE_NAMES:
        return _ATTRIBUTE_NAMES[kind]
    names = tuple(str(info.name) for info in tvm.ir.attrs._ffi_api.AttrsListFieldInfo(attrs))
    # TVM lists attribute names slowly, so the names are stored per attribute class. Attributes of a few operators, such
    # as `nn.adaptive_avg_pool1d`, have no class in Python: all are of the class `Object`, without a method `keys`.
    if kind is not tvm.runtime.Object:
        _ATTRIBUTE_NAMES[kind] = names
    return names


def _plain(value: Any) -> Json:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (tvm.tir.IntImm, tvm.tir.FloatImm)):
        return value.value  # type: ignore[no-any-return]
    if isinstance(value, (tvm.ir.Array, list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (str, tvm.tir.StringImm)):
        return str(value)
    if isinstance(value, tvm.tir.PrimExpr):
        return None  # a symbolic dimension
    return str(value)
