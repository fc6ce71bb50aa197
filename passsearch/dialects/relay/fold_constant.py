"""Relay's ``FoldConstant``, evaluated by numpy instead of one JIT compilation per constant call.

TVM compiles every call on constants separately, about 30 ms a call. Here numpy evaluates the operators whose results
equal those of LLVM's code bit for bit, and TVM's own pass then folds the other calls. The resulting IR is the one that
TVM alone would make. The rules for which calls are folded are those of ``src/relay/transforms/fold_constant.cc`` (TVM
0.16); a call in doubt is left to TVM.

Imports only ``tvm`` and numpy, because an exported deployment holds a copy of this file.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np
import tvm
from tvm import relay

__all__ = [
    "EVALUATED_OPERATORS",
    "DynamicToStatic",
    "FoldConstant",
    "FoldScaleAxis",
    "Folder",
    "Types",
    "flatten_arguments",
]

Arrays = List[np.ndarray]
Shape = Tuple[int, ...]
Types = Tuple[Tuple[Shape, str], ...]
Result = Union[np.ndarray, Arrays, None]

_NUMERIC = frozenset(["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
_DTYPES = _NUMERIC | {"bool"}


def FoldConstant(evaluator: str = "tvm", fold_qnn: bool = True) -> tvm.transform.Pass:  # noqa: N802
    """Return the pass; both evaluators make structurally equal modules.

    Args:
        evaluator: ``"tvm"`` for TVM's own pass, ``"numpy"`` for the fast one.
        fold_qnn: Fold quantised operators too, as in ``relay.transform.FoldConstant``.

    Raises:
        ValueError: The evaluator is neither ``"tvm"`` nor ``"numpy"``.
    """
    if evaluator not in ("tvm", "numpy"):
        raise ValueError(f'FoldConstant\'s evaluator is "tvm" or "numpy", not {evaluator!r}')
    fold_rest = relay.transform.FoldConstant(fold_qnn)
    if evaluator == "tvm":
        return fold_rest
    # A function pass, because TVM itself then skips functions that belong to external compilers.
    fold_with_numpy = relay.transform.function_pass(_fold_function, opt_level=2, name="FoldConstantNumpy")

    def fold(module: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        return fold_rest(fold_with_numpy(module))

    return tvm.transform.module_pass(fold, opt_level=2, name="FoldConstant")


def FoldScaleAxis(evaluator: str = "tvm") -> tvm.transform.Pass:  # noqa: N802
    """Return ``relay.transform.FoldScaleAxis``, a sequence that ends with FoldConstant, by the same two evaluators."""
    if evaluator == "tvm":
        return relay.transform.FoldScaleAxis()
    moves = [relay.transform.BackwardFoldScaleAxis(), relay.transform.ForwardFoldScaleAxis()]
    return tvm.transform.Sequential([*moves, FoldConstant(evaluator)], name="FoldScaleAxis")


def DynamicToStatic(evaluator: str = "tvm") -> tvm.transform.Pass:  # noqa: N802
    """Return ``relay.transform.DynamicToStatic``, which folds constants first, by the same two evaluators."""
    if evaluator == "tvm":
        return relay.transform.DynamicToStatic()
    return tvm.transform.Sequential(
        [FoldConstant(evaluator), relay.transform.DynamicToStatic()], opt_level=2, name="DynamicToStatic"
    )


def _fold_function(function: Any, _module: tvm.IRModule, _context: tvm.transform.PassContext) -> Any:
    return Folder().fold(function)


class Folder:
    """A walk over one function that evaluates equal calls on the same constants once."""

    def __init__(self) -> None:
        self._replacements: Dict[Any, Any] = {}  # by expression; None if it stays as it is
        self._arrays: Dict[Any, np.ndarray] = {}  # data by constant
        self._results: Dict[Any, Tuple[Any, Result]] = {}

    def fold(self, root: Any) -> Any:
        """Return ``root`` with its constant calls folded."""
        # An explicit stack, because networks are deeper than Python's recursion limit.
        stack: List[Tuple[Any, Optional[List[Any]]]] = [(root, None)]
        while stack:
            expr, children = stack.pop()
            if expr in self._replacements:
                continue
            if children is not None:
                self._replacements[expr] = self._rebuild(expr, children)
                continue
            children = self.children(expr)
            if children is None:
                return root  # one unknown construct leaves the whole function to TVM
            stack.append((expr, children))
            stack.extend((child, None) for child in reversed(children))
        return self._current(root)

    def _current(self, expr: Any) -> Any:
        replacement = self._replacements[expr]
        return expr if replacement is None else replacement

    def _rebuild(self, expr: Any, children: List[Any]) -> Any:
        """Return the replacement of ``expr``, or None if it stays as it is."""
        if not children:
            return None
        is_changed = any(self._replacements[child] is not None for child in children)
        current = [self._current(child) for child in children] if is_changed else children
        if isinstance(expr, relay.Call):
            folded = self.fold_call(expr, current)
            if folded is not None:
                return folded
        if isinstance(expr, relay.TupleGetItem) and isinstance(current[0], relay.Tuple):
            return current[0].fields[expr.index]
        return _with_children(expr, current) if is_changed else None

    def children(self, expr: Any) -> Optional[List[Any]]:
        """Return the expressions below ``expr`` that are folded first; None for a construct that is left to TVM."""
        return _children(expr)

    def types(self, expr: Any) -> Optional[Types]:
        """Return shape and dtype of an expression, or of the fields of a tuple; None if one is unknown or dynamic."""
        return _static_types(expr)

    def fold_call(self, call: Any, args: List[Any]) -> Any:
        """Return what replaces a call with these folded arguments, None if the call stays."""
        if not isinstance(call.op, tvm.ir.Op):
            return None
        name = call.op.name
        if name in ("shape_of", "vm.shape_of", "ndarray_size"):
            return self._fold_shape(call)
        evaluate = _EVALUATORS.get(name)
        if evaluate is None:
            return None
        operands = self._operands(args)
        return None if operands is None else self._evaluate(call, evaluate, operands=operands)

    def _operands(self, args: List[Any]) -> Optional[Arrays]:
        """Return the arrays of constants, tuples flattened; None if one is not constant or numpy lacks its dtype."""
        operands: Arrays = []
        for arg in flatten_arguments(args):
            if not isinstance(arg, relay.Constant):
                return None
            array = self._arrays.get(arg)
            if array is None:
                if arg.data.dtype not in _DTYPES:
                    return None
                array = self._arrays[arg] = arg.data.numpy()
            operands.append(array)
        return operands

    def _evaluate(self, call: Any, evaluate: "_Evaluate", *, operands: Arrays) -> Any:
        types = self.types(call)
        if types is None:
            return None
        # ``self._arrays`` holds the operands until the walk ends, so no other array can get one of their ids.
        attrs = 0 if call.attrs is None else tvm.ir.structural_hash(call.attrs)
        key = (call.op.name, attrs, tuple(map(id, operands)), types)
        if key not in self._results:
            with np.errstate(all="ignore"):
                result = evaluate(operands, call.attrs, types[0][0])
            agrees = result is not None and _agrees(result, types)
            self._results[key] = (_to_tvm(result) if agrees else None, result)  # type: ignore[arg-type]
        data, result = self._results[key]
        if isinstance(data, list):
            return relay.Tuple([self._constant(*pair) for pair in zip(data, result)])  # type: ignore[arg-type]
        return None if data is None else self._constant(data, result)  # type: ignore[arg-type]

    def _fold_shape(self, call: Any) -> Any:
        """Return the value of ``shape_of`` or ``ndarray_size`` of a static shape, else None."""
        # Scalars are left to TVM, which reads memory it never set for them.
        types, dtype = self.types(call.args[0]), call.attrs.dtype
        if types is None or not types[0][0] or dtype not in _NUMERIC:
            return None
        shape = types[0][0]
        value = np.prod(shape, dtype="int32") if call.op.name == "ndarray_size" else np.array(shape, "int32")
        array = np.asarray(value).astype(dtype)
        return self._constant(tvm.nd.array(array), array)

    def _constant(self, data: tvm.nd.NDArray, array: np.ndarray) -> Any:
        constant = relay.Constant(data)
        self._arrays[constant] = array
        return constant


def _children(expr: Any) -> Optional[List[Any]]:
    """Return the expressions that TVM's pass visits below this one; None for a construct that is left to TVM."""
    if isinstance(expr, relay.Call):
        return [*expr.args] if isinstance(expr.op, tvm.ir.Op) else [*expr.args, expr.op]
    if isinstance(expr, relay.Tuple):
        return list(expr.fields)
    if isinstance(expr, relay.TupleGetItem):
        return [expr.tuple_value]
    if isinstance(expr, relay.Function):
        return [] if _is_primitive(expr) else [expr.body]
    if isinstance(expr, relay.Let):
        return [expr.value, expr.body]
    if isinstance(expr, relay.If):
        return [expr.cond, expr.true_branch, expr.false_branch]
    leaves = (relay.Var, relay.Constant, relay.GlobalVar, tvm.ir.Op)
    return [] if isinstance(expr, leaves) else None


def _is_primitive(function: Any) -> bool:
    """Return True for a function that becomes one kernel; TVM's pass does not enter it."""
    attrs = function.attrs
    return attrs is not None and "Primitive" in attrs.keys() and int(attrs["Primitive"]) != 0


def _with_children(expr: Any, children: List[Any]) -> Any:
    """Return the node with other children."""
    # Like TVM's own mutators, the "WithFields" functions preserve type, span and device.
    if isinstance(expr, relay.Call):
        operator, args = (expr.op, children) if isinstance(expr.op, tvm.ir.Op) else (children[-1], children[:-1])
        return relay.expr.CallWithFields(expr, operator, args)
    if isinstance(expr, relay.Tuple):
        return relay.expr.TupleWithFields(expr, children)
    if isinstance(expr, relay.TupleGetItem):
        return relay.expr.TupleGetItemWithFields(expr, children[0])
    if isinstance(expr, relay.Function):
        return relay.function.FunctionWithFields(expr, body=children[0])
    if isinstance(expr, relay.Let):
        return relay.expr.LetWithFields(expr, expr.var, *children)
    return relay.expr.IfWithFields(expr, *children)


def flatten_arguments(args: List[Any]) -> Iterator[Any]:
    """Yield the arguments of a call, and the fields of those that are tuples."""
    for arg in args:
        if isinstance(arg, relay.Tuple):
            yield from arg.fields
        else:
            yield arg


def _static_types(expr: Any) -> Optional[Types]:
    """Return shape and dtype of an expression, or of the fields of a tuple; None if one is unknown or dynamic."""
    if isinstance(expr, relay.Constant):
        return ((tuple(expr.data.shape), str(expr.data.dtype)),)
    try:
        checked = expr.checked_type
    except ValueError:
        return None
    fields = list(checked.fields) if isinstance(checked, tvm.ir.TupleType) else [checked]
    types = [_static_type(field) for field in fields if isinstance(field, tvm.ir.TensorType)]
    static = tuple(kind for kind in types if kind is not None)
    return static if static and len(static) == len(fields) else None


def _static_type(tensor_type: Any) -> Optional[Tuple[Shape, str]]:
    shape = list(tensor_type.shape)
    if not all(isinstance(extent, tvm.tir.IntImm) for extent in shape):
        return None
    return tuple(extent.value for extent in shape), str(tensor_type.dtype)


def _agrees(result: Result, types: Types) -> bool:
    """Return True if ``result`` can replace a call of these types."""
    if result is None:
        return False
    arrays = result if isinstance(result, list) else [result]
    actual = tuple((array.shape, array.dtype.name) for array in arrays)
    # The payload of a NaN depends on the order of a machine instruction's operands, so numpy's may be another one.
    return actual == types and all(array.size and not _has_nan(array) for array in arrays)


def _has_nan(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _to_tvm(result: Union[np.ndarray, Arrays]) -> Any:
    return [tvm.nd.array(array) for array in result] if isinstance(result, list) else tvm.nd.array(result)


_Evaluate = Callable[[Arrays, Any, Shape], Result]
"""A function of operands, attributes and result shape (a tuple's: of its first field); None leaves the call to TVM."""


def _arithmetic(function: Callable[..., Any], kinds: str = "fiu") -> _Evaluate:
    def evaluate(operands: Arrays, _attrs: Any, _shape: Shape) -> Result:
        return np.asarray(function(*operands)) if all(x.dtype.kind in kinds for x in operands) else None

    return evaluate


def _comparison(function: Callable[..., Any]) -> _Evaluate:
    def evaluate(operands: Arrays, _attrs: Any, _shape: Shape) -> Result:
        # LLVM's comparisons are ordered: to TVM, NaN is not unequal to NaN either.
        return None if any(map(_has_nan, operands)) else np.asarray(function(*operands))

    return evaluate


def _maximum(left: Any, right: Any) -> Any:
    """Return the larger operand, as LLVM's compare and select does."""
    # np.maximum differs: for two zeros, or if one operand is NaN, LLVM's code returns the second operand.
    return np.where(left > right, left, right)


def _minimum(left: Any, right: Any) -> Any:
    return np.where(left < right, left, right)


def _clip(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    (data,) = operands
    if data.dtype.kind != "f":
        return None
    low, high = data.dtype.type(attrs.a_min), data.dtype.type(attrs.a_max)
    return np.asarray(_maximum(_minimum(data, high), low))


def _rsqrt(data: Any) -> Any:
    return data.dtype.type(1) / np.sqrt(data)


def _cast(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    (data,), dtype = operands, str(attrs.dtype)
    # TVM's conversion from float64 to float16 gives garbage.
    if dtype not in _DTYPES or _has_nan(data) or (data.dtype.name, dtype) == ("float64", "float16"):
        return None
    if data.dtype.kind == "f" and dtype in _NUMERIC and np.dtype(dtype).kind in "iu":
        bounds = np.iinfo(dtype)
        # LLVM leaves a conversion out of range undefined. As a float, the upper bound of int64 rounds up to 2**63.
        if not bool(np.all((data > bounds.min) & (data.astype("float64") < float(bounds.max)))):
            return None
    return data.astype(dtype)


def _reshape(operands: Arrays, _attrs: Any, shape: Shape) -> Result:
    return operands[0].reshape(shape)


def _broadcast_to(operands: Arrays, _attrs: Any, shape: Shape) -> Result:
    return np.broadcast_to(operands[0], shape)


def _filled(value: Callable[[Arrays], Any]) -> _Evaluate:
    def evaluate(operands: Arrays, _attrs: Any, shape: Shape) -> Result:
        return np.full(shape, value(operands), operands[0].dtype)

    return evaluate


def _transpose(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.transpose(operands[0], _integers(attrs.axes) if attrs.axes else None)


def _layout_transform(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    source, target = _parse_layout(str(attrs.src_layout)), _parse_layout(str(attrs.dst_layout))
    if source is None or target is None:
        return None
    data, order = _unblock(operands[0], source)
    factors = dict((axis.upper(), factor) for axis, factor in target if axis.islower())
    if sorted(order) != sorted(axis for axis, _ in target if axis.isupper()):
        return None
    split: List[Tuple[str, int]] = []
    for axis, extent in zip(order, data.shape):
        factor = factors.get(axis, 1)
        if extent % factor:
            return None
        split += [(axis, extent // factor)] + ([(axis.lower(), factor)] if axis in factors else [])
    names = [axis for axis, _ in split]
    return data.reshape([extent for _, extent in split]).transpose([names.index(axis) for axis, _ in target])  # type: ignore[no-any-return]


def _parse_layout(layout: str) -> Optional[List[Tuple[str, int]]]:
    """Return the axes of a layout, None if one is blocked twice.

    ``NCHW16c`` gives ``[("N", 0), ("C", 0), ("H", 0), ("W", 0), ("c", 16)]``.
    """
    if not re.fullmatch(r"([A-Z]|\d+[a-z])+", layout):
        return None
    axes = [(axis, int(factor or 0)) for factor, axis in re.findall(r"(\d*)([A-Za-z])", layout)]
    names = {axis for axis, _ in axes}
    is_complete = all(axis.upper() in names for axis in names)
    return axes if is_complete and len(names) == len(axes) else None


def _unblock(data: np.ndarray, layout: List[Tuple[str, int]]) -> Tuple[np.ndarray, List[str]]:
    """Return the array with every blocked axis merged into its outer axis, and the order of its axes."""
    names = [axis for axis, _ in layout]
    order = [axis for axis in names if axis.isupper()]
    places = [names.index(part) for axis in order for part in (axis, axis.lower()) if part in names]
    extents = dict(zip(names, data.shape))
    merged = [extents[axis] * extents.get(axis.lower(), 1) for axis in order]
    return data.transpose(places).reshape(merged), order


def _concatenate(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.concatenate(operands, axis=int(attrs.axis))


def _stack(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.stack(operands, axis=int(attrs.axis))


def _split(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    (data,), sections = operands, attrs.indices_or_sections
    parts = int(sections) if isinstance(sections, (int, tvm.tir.IntImm)) else _integers(sections)
    return list(np.split(data, parts, axis=int(attrs.axis)))


def _strided_slice(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    if len(operands) != 1 or attrs.slice_mode != "end" or attrs.begin is None or attrs.end is None:
        return None
    begin, end = _integers(attrs.begin), _integers(attrs.end)
    strides = _integers(attrs.strides or []) or [1]
    strides += [strides[-1] if len(strides) == 1 else 1] * (len(begin) - len(strides))
    axes = range(len(begin)) if attrs.axes is None else _integers(attrs.axes)
    if len(begin) != len(end) or min(strides) < 1:
        return None
    index = [slice(None)] * operands[0].ndim
    for axis, first, last, stride in zip(axes, begin, end, strides):
        index[axis] = slice(first, last, stride)
    return operands[0][tuple(index)]


def _take(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    data, indices = operands
    axis = None if attrs.axis is None else int(attrs.axis)
    extent = data.size if axis is None else data.shape[axis]
    # Out of range, TVM's result depends on the mode; numpy would raise.
    in_range = indices.dtype.kind in "iu" and indices.size and indices.min() >= 0 and indices.max() < extent
    return np.asarray(np.take(data, indices, axis=axis)) if in_range and int(attrs.batch_dims) == 0 else None


def _where(operands: Arrays, _attrs: Any, _shape: Shape) -> Result:
    condition, left, right = operands
    return np.where(condition, left, right) if condition.dtype.kind == "b" else None


def _arange(operands: Arrays, _attrs: Any, _shape: Shape) -> Result:
    integers = all(x.dtype.kind == "i" and x.ndim == 0 for x in operands)
    return np.arange(*map(int, operands), dtype=operands[0].dtype) if integers and operands[2] else None


def _tile(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.tile(operands[0], _integers(attrs.reps))


def _repeat(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.repeat(operands[0], int(attrs.repeats), axis=int(attrs.axis))


def _integers(values: Any) -> List[int]:
    return [int(value) for value in values]


_EVALUATORS: Dict[str, _Evaluate] = {
    "add": _arithmetic(np.add),
    "subtract": _arithmetic(np.subtract),
    "multiply": _arithmetic(np.multiply),
    # np.divide of integers gives floats, so integers are left to TVM.
    "divide": _arithmetic(np.divide, kinds="f"),
    "maximum": _arithmetic(_maximum),
    "minimum": _arithmetic(_minimum),
    "negative": _arithmetic(lambda data: data.dtype.type(0) - data),  # TVM computes -x as 0 - x: negative(0.0) is 0.0
    "abs": _arithmetic(np.abs),
    "sqrt": _arithmetic(np.sqrt, kinds="f"),
    "rsqrt": _arithmetic(_rsqrt, kinds="f"),
    "clip": _clip,
    "cast": _cast,
    "copy": _arithmetic(np.array, kinds="fiub"),
    "equal": _comparison(np.equal),
    "not_equal": _comparison(np.not_equal),
    "less": _comparison(np.less),
    "less_equal": _comparison(np.less_equal),
    "greater": _comparison(np.greater),
    "greater_equal": _comparison(np.greater_equal),
    "logical_and": _arithmetic(np.logical_and, kinds="b"),
    "logical_or": _arithmetic(np.logical_or, kinds="b"),
    "logical_not": _arithmetic(np.logical_not, kinds="b"),
    "where": _where,
    "reshape": _reshape,
    "contrib_reverse_reshape": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "nn.batch_flatten": _reshape,
    "broadcast_to": _broadcast_to,
    "zeros_like": _filled(lambda operands: 0),
    "ones_like": _filled(lambda operands: 1),
    "full": _filled(lambda operands: operands[0]),
    "full_like": _filled(lambda operands: operands[1]),
    "transpose": _transpose,
    "layout_transform": _layout_transform,
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "strided_slice": _strided_slice,
    "take": _take,
    "arange": _arange,
    "tile": _tile,
    "repeat": _repeat,
}

EVALUATED_OPERATORS = frozenset([*_EVALUATORS, "shape_of", "vm.shape_of", "ndarray_size"])
"""Operators that numpy evaluates; TVM evaluates the others."""
