"""Proof that a network may be padded: its function of open sizes is followed at two sizes at once."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, sym, tirx
from tvm.ir import GenericConst

from passsearch.dialects.relax import padded_values as rules
from passsearch.dialects.relax.padded_values import Shape, Unproven, Value

Sizes = Mapping[str, Shape]

_ERF = np.vectorize(math.erf, otypes=["float64"])


def _cast(array: Any, dtype: str) -> Any:
    return np.asarray(array).astype(dtype)


def _divide(left: Any, right: Any) -> Any:
    """Return a quotient; integers are rounded to zero, as TVM does."""
    whole = np.issubdtype(np.result_type(left, right), np.integer)
    return np.trunc(np.divide(left, right)).astype(np.result_type(left, right)) if whole else np.divide(left, right)


ELEMENTWISE: Mapping[str, Callable[..., Any] | None] = {
    **{
        name: getattr(np, name)
        for name in ("add", "subtract", "multiply", "floor_divide", "power", "minimum", "maximum")
    },
    **{name: getattr(np, name) for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    **{name: getattr(np, name) for name in ("logical_and", "logical_or", "logical_xor", "logical_not", "where")},
    **{
        name: getattr(np, name)
        for name in ("negative", "abs", "exp", "sqrt", "tanh", "ceil", "floor", "square", "sign")
    },
    **{name: getattr(np, name) for name in ("log", "sin", "cos", "isnan", "isinf", "isfinite")},
    "divide": _divide,
    "erf": _ERF,
    "rsqrt": lambda array: 1 / np.sqrt(array),
    "nn.relu": lambda array: np.maximum(array, 0),
    **dict.fromkeys(("sigmoid", "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.leakyrelu", "clip", "round", "mod", "trunc")),
}
"""Operators whose elements depend on those in the same place; with numpy's function where its result is followed."""

REDUCTIONS = frozenset(rules.REDUCTIONS)


@dataclass(frozen=True)
class Padding:
    """What a padded call is: inputs are filled with zeros, and outputs are cut.

    Attributes:
        masks: Inputs that must have a number other than zero along every padded row.
        outputs: For each output by axis, the input and its axis whose size the output has.
    """

    masks: tuple[str, ...]
    outputs: tuple[Mapping[int, tuple[str, int]], ...]


def prove_padding(module: tvm.IRModule, entry: str, pairs: Sequence[Sequence[Sizes]]) -> dict[str, Any]:
    """Return how a function of open sizes is padded in all pairs of a smaller and a larger size, or the ``reason``.

    Args:
        module: The module.
        entry: Name of the function.
        pairs: Shapes of the inputs by name.
    """
    try:
        proofs = [prove(module[entry], small, large) for small, large in pairs]
    except Unproven as error:
        return {"reason": str(error)}
    if any(proof != proofs[0] for proof in proofs):
        return {"reason": "outputs are cut otherwise at other sizes"}
    outputs = [{str(axis): [*place] for axis, place in cuts.items()} for cuts in proofs[0].outputs]
    return {"masks": [*proofs[0].masks], "outputs": outputs}


def prove(function: relax.Function, small: Sizes, large: Sizes) -> Padding:
    """Return how the network is padded from one size to another, without a change of its outputs.

    Args:
        function: The function of open sizes.
        small: Shapes of the inputs.
        large: Shapes of the inputs, none smaller.

    Raises:
        Unproven: An operator may let padded positions change an output.
    """
    outputs = _Walk(function, small, large).outputs
    masks = frozenset[str]().union(*(value.masks for value in outputs))
    # Once more with masks of ones, to see what is hidden besides the positions that masks hide.
    _Walk(function, small, large, shown=masks)
    return Padding(tuple(sorted(masks)), tuple(_cuts(value, small, large) for value in outputs))


def _cuts(value: Value, small: Sizes, large: Sizes) -> dict[int, tuple[str, int]]:
    """Return by padded axis of an output the input and axis of the same size."""
    cuts = {}
    for axis in value.padded:
        sizes = (value.small[axis], value.large[axis])
        places = [
            (name, place)
            for name in small
            for place in range(len(small[name]))
            if (small[name][place], large[name][place]) == sizes
        ]
        if not places:
            raise Unproven("an output has a size that no input has")
        cuts[axis] = places[0]
    return cuts


class _Walk:
    """Follows a function at two sizes."""

    def __init__(
        self, function: relax.Function, small: Sizes, large: Sizes, *, shown: frozenset[str] = frozenset()
    ) -> None:
        self._values: dict[int, Any] = {}
        # Each knows the open sizes at one of the two sizes.
        self._analyzers = (sym.Analyzer(), sym.Analyzer())
        self._named: set[int] = set()
        for parameter in function.params:
            name = str(parameter.name)
            shapes = (tuple(small[name]), tuple(large[name]))
            self._bind_shape(parameter.ty.shape, shapes)
            self._values[parameter.__chandle__()] = self._input(
                name, str(parameter.ty.dtype), shapes, is_shown=name in shown
            )
        for block in function.body.blocks:
            for binding in block.bindings:
                self._bind(binding)
        result = self._value(function.body.body)
        self.outputs: tuple[Value, ...] = tuple(each.promised for each in _flat(result))

    def _input(self, name: str, dtype: str, shapes: tuple[Shape, Shape], *, is_shown: bool) -> Value:
        value = Value(*shapes, None, {}, frozenset({name}))
        if is_shown and dtype != "bfloat16":
            arrays = np.ones(shapes[0], dtype), np.zeros(shapes[1], dtype)
            arrays[1][tuple(map(slice, shapes[0]))] = 1
            return rules.from_arrays(arrays, value)
        return Value(*shapes, None, dict.fromkeys(value.padded, 0.0), value.inputs)

    def _bind(self, binding: Any) -> None:
        value = self._value(binding.value)
        if isinstance(binding, relax.MatchCast):
            if isinstance(value, Value) and isinstance(binding.ty, relax.TensorType):
                self._bind_shape(binding.ty.shape, (value.small, value.large))
            elif isinstance(binding.ty, relax.ShapeType):
                self._bind_sizes(binding.ty.values, value)
        self._values[binding.var.__chandle__()] = value

    def _bind_shape(self, shape: Any, sizes: tuple[Shape, Shape]) -> None:
        if isinstance(shape, relax.ShapeExpr):
            self._bind_sizes(shape.values, sizes)

    def _bind_sizes(self, names: Any, sizes: tuple[Shape, Shape]) -> None:
        for place, name in enumerate(names or ()):
            if not isinstance(name, tirx.Var) or name.__chandle__() in self._named:
                continue
            self._named.add(name.__chandle__())
            for analyzer, own in zip(self._analyzers, sizes, strict=True):
                analyzer.bind(name, tirx.IntImm("int64", own[place]))

    def _value(self, expression: Any) -> Any:
        """Return what is known of an expression: a value, a tuple of them, or a pair of shapes or numbers."""
        found = self._values.get(expression.__chandle__())
        if found is not None:
            return found
        if isinstance(expression, GenericConst):
            return _constant(expression)
        if isinstance(expression, tvm.ir.Tuple):
            return [self._value(item) for item in expression.fields]
        if isinstance(expression, tvm.ir.TupleGetItem):
            return self._value(expression.tuple_value)[expression.index]
        if isinstance(expression, relax.ShapeExpr):
            return tuple(tuple(self._number(size, world) for size in expression.values) for world in (0, 1))
        if tvm.ir.is_prim_expr(expression):
            return (self._number(expression, 0), self._number(expression, 1))
        if isinstance(expression, relax.Call) and isinstance(expression.op, tvm.ir.Op):
            return self._call(expression)
        raise Unproven(f"`{type(expression).__name__}` has no rule")

    def _number(self, expression: Any, world: int) -> int:
        number = self._analyzers[world].simplify(expression)
        if not isinstance(number, (tirx.IntImm, tirx.FloatImm)):
            raise Unproven("a size is not known before the network runs")
        return number.value  # type: ignore[no-any-return]

    def _call(self, call: Any) -> Any:
        name = str(call.op.name).removeprefix("relax.")
        if name == "call_tir":
            return self._loops(call)
        arguments = [self._value(argument) for argument in call.args]
        try:
            if name in ELEMENTWISE:
                return rules.elementwise(name, ELEMENTWISE[name], [_tensor(each) for each in arguments])
            rule = _RULES.get(name)
            result = _UNSET if rule is None else rule(call.attrs, *arguments)
            return self._unchanged(call, arguments) if result is _UNSET else result
        except Unproven as error:
            raise Unproven(f"{error} (operator {name})" if "(operator" not in str(error) else str(error)) from None

    def _loops(self, call: Any) -> Any:
        """Return the results of a function of loops: that of a recurrent layer, whose last state has seen all steps."""
        values = [_tensor(self._value(argument)) for argument in call.args[1].fields]
        if any(value.promised.padded for value in values):
            raise Unproven("padded steps take part in a recurrent layer")
        is_tuple = isinstance(call.ty, relax.TupleType)
        shapes = [self._value(kind.shape) for kind in (call.ty.fields if is_tuple else [call.ty])]
        results = [rules.unchanged(values, *shape) for shape in shapes]
        return results if is_tuple else results[0]

    def _unchanged(self, call: Any, arguments: Sequence[Any]) -> Any:
        shape = getattr(call.ty, "shape", None)
        if not isinstance(shape, relax.ShapeExpr):
            raise Unproven("no rule says how padded positions take part")
        small, large = self._value(shape)
        values = [each for argument in arguments for each in _flat(argument) if isinstance(each, Value)]
        if any(not isinstance(each, Value) and each[0] != each[1] for each in arguments if not isinstance(each, list)):
            raise Unproven("no rule says how padded positions take part")
        return rules.unchanged(values, small, large)


_UNSET = object()


def _flat(value: Any) -> list[Any]:
    return [each for item in value for each in _flat(item)] if isinstance(value, list) else [value]


def _tensor(argument: Any) -> Value:
    return argument if isinstance(argument, Value) else rules.from_arrays(argument)


def _constant(constant: Any) -> Value:
    if not isinstance(constant.value, tvm.runtime.Tensor):
        raise Unproven("a constant is no array")
    shape = tuple(map(int, constant.value.shape))
    if math.prod(shape) > rules.MOST_KNOWN or str(constant.value.dtype) == "bfloat16":
        return Value(shape, shape)
    array = constant.value.numpy()
    return rules.from_arrays((array, array))


def _axes(attrs: Any, name: str = "axis") -> list[int] | None:
    axes = getattr(attrs, name)
    if axes is None:
        return None
    return [int(axis) for axis in axes] if hasattr(axes, "__len__") else [int(axes)]


def _permuted(attrs: Any, value: Value) -> Value:
    return rules.moved(value, _axes(attrs, "axes") or range(len(value.large))[::-1])


def _expanded(attrs: Any, value: Value) -> Value:
    rank = len(value.large) + len(attrs.axis)
    new = {axis % rank for axis in _axes(attrs) or ()}
    old = iter(range(rank))
    return rules.moved(value, [None if place in new else next(old) for place in range(rank)])


def _squeezed(attrs: Any, value: Value) -> Value:
    axes, rank = _axes(attrs), len(value.large)
    gone = {axis % rank for axis in axes} if axes else {axis for axis in range(rank) if value.large[axis] == 1}
    return rules.moved(value, [axis for axis in range(rank) if axis not in gone])


def _sliced(_: Any, value: Value, axes: Any, begin: Any, end: Any, strides: Any = None) -> Value:
    strides = strides or [(1, 1)] * len(axes)
    rank = len(value.large)
    ranges = {}
    for axis, first, last, step in zip(axes, begin, end, strides, strict=True):
        ranges[axis[0] % rank] = tuple((first[world], last[world], step[world]) for world in (0, 1))
    return rules.sliced(value, ranges)  # type: ignore[arg-type]


def _arange(attrs: Any, begin: Any, end: Any, step: Any) -> Value:
    arrays = [np.arange(begin[world], end[world], step[world], dtype=str(attrs.dtype)) for world in (0, 1)]
    return rules.from_arrays(arrays)


def _filled(number: float) -> Callable[..., Value]:
    def fill(attrs: Any, shapes: Any) -> Value:
        return rules.from_arrays(np.full(shape, number, str(attrs.dtype)) for shape in shapes)

    return fill


def _full(attrs: Any, shapes: Any, number: Value) -> Value:
    return rules.broadcast(number, *shapes)


def _gathered(attrs: Any, value: Value, places: Value) -> Any:
    gathered = rules.computed(lambda array, at: np.take_along_axis(array, at, int(attrs.axis)), [value, places])
    return _UNSET if gathered is None else gathered


def _shape_tensor(_: Any, shapes: Any) -> Value:
    return rules.from_arrays(np.array(shape, "int64") for shape in shapes)


def _tensor_shape(_: Any, value: Value) -> Any:
    if value.known is None:
        raise Unproven("a size depends on the values of inputs")
    return tuple(tuple(map(int, array)) for array in value.known)


def _reduction(name: str) -> Callable[..., Value]:
    return lambda attrs, value: rules.reduced(name, value, _axes(attrs), keeps=bool(attrs.keepdims))


_RULES: Mapping[str, Callable[..., Any]] = {
    **{name: _reduction(name) for name in REDUCTIONS},
    "astype": lambda attrs, value: rules.elementwise("astype", lambda array: _cast(array, str(attrs.dtype)), [value]),
    "matmul": lambda attrs, left, right: rules.product(left, right),
    "nn.softmax": lambda attrs, value: rules.softmax(value, int(attrs.axis)),
    "nn.layer_norm": lambda attrs, *values: rules.normalized(values, _axes(attrs, "axes") or ()),
    "nn.rms_norm": lambda attrs, *values: rules.normalized(values, _axes(attrs, "axes") or ()),
    "permute_dims": _permuted,
    "expand_dims": _expanded,
    "squeeze": _squeezed,
    "reshape": lambda attrs, value, shapes: rules.reshaped(value, *shapes),
    "broadcast_to": lambda attrs, value, shapes: rules.broadcast(value, *shapes),
    "take": lambda attrs, value, places: rules.taken(value, _tensor(places), int(attrs.axis)),
    "gather_elements": _gathered,
    "strided_slice": _sliced,
    "concat": lambda attrs, values: rules.joined(values, int(attrs.axis)),
    "arange": _arange,
    "zeros": _filled(0),
    "ones": _filled(1),
    "full": _full,
    "cumsum": lambda attrs, value: rules.summed_up(value, int(attrs.axis)),
    "shape_of": lambda attrs, value: (value.small, value.large),
    "shape_to_tensor": _shape_tensor,
    "tensor_to_shape": _tensor_shape,
}
