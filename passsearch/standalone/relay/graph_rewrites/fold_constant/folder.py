"""The walk over a function that folds calls on constants."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np
import tvm
from tvm import relay

from .evaluators import DTYPES, EVALUATORS, NUMERIC, Arrays, Evaluate, Result, Shape, Types, has_nan


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
        evaluate = EVALUATORS.get(name)
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
                if arg.data.dtype not in DTYPES:
                    return None
                array = self._arrays[arg] = arg.data.numpy()
            operands.append(array)
        return operands

    def _evaluate(self, call: Any, evaluate: Evaluate, *, operands: Arrays) -> Any:
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
        if types is None or not types[0][0] or dtype not in NUMERIC:
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
    return actual == types and all(array.size and not has_nan(array) for array in arrays)


def _to_tvm(result: Union[np.ndarray, Arrays]) -> Any:
    return [tvm.nd.array(array) for array in result] if isinstance(result, list) else tvm.nd.array(result)
