"""Convert a Relax module to a `ModuleSummary`, so that the analyzer works on plain data."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from passsearch.core import STORAGE, Json, ModuleSummary, Operator, TensorType
from passsearch.dialects.contract import WEIGHTS
from passsearch.dialects.relax.recurrence.cell import Recurrence, recurrences
from passsearch.dialects.shared import Producers, flatten_producers
from passsearch.standalone.relax.cpu_schedules import LEAST_NUMBERS, NOTES, PACKED
from passsearch.standalone.relax.cpu_schedules.constants import values_of
from passsearch.standalone.relax.cpu_schedules.cpu_pass import SCHEDULED
from passsearch.standalone.relax.cpu_schedules.storage import FLOAT32, exact_type
from passsearch.standalone.relax.deployment.separate_weights import entries

_NAMESPACES = re.compile(r"^relax\.(?:(?:nn|vision|image|builtin|memory|vm)\.)*")
_KINDS = {
    "concat": "concatenate",
    "permute_dims": "transpose",
    "astype": "cast",
    "leakyrelu": "leaky_relu",
    "attention_bias": "attention",
}
"""The analyzer's names of operators that Relax names differently."""

_LAYOUTS = ("data_layout", "layout", "src_layout", "dst_layout", "kernel_layout", "out_layout")
_BOUNDS = ("a_min", "a_max")

MOST_READ = 1 << 16
"""Numbers of a constant that are looked at: the others of a large network's weights stay on the disk until a build."""


def summarize(module: tvm.IRModule) -> ModuleSummary:
    """Return the operators of a module's entry function, of the first one of several, in topological order."""
    main = module[entries(module)[0]]
    table = _Table(recurrences(module))
    for parameter in main.params:
        table.append(parameter, kind="input", op=str(parameter.name), outputs=parameter.ty)
    body = main.body
    for block in body.blocks if isinstance(body, relax.SeqExpr) else ():
        for binding in block.bindings:
            table.bind(binding)
    result = body.body if isinstance(body, relax.SeqExpr) else body
    return ModuleSummary(tuple(table.operators), flatten_producers(table.producers_of(result)))


def count_operators(module: tvm.IRModule) -> dict[str, int]:
    """Return the number of operators, constants and functions of a module, including functions within functions.

    Each line of a function on how its weights are stored is one, too, under ``WEIGHTS``, its name and the line.
    """
    counts = Counter[str]()

    def count(expression: Any) -> None:
        if isinstance(expression, relax.Call) and isinstance(expression.op, tvm.ir.Op):
            attributes = _attributes(expression.attrs)
            layouts = [str(attributes[name]) for name in _LAYOUTS if attributes.get(name)]
            counts[" ".join([str(expression.op.name), *layouts])] += 1
        elif isinstance(expression, GenericConst):
            counts["Constant"] += 1

    for name, function in module.functions_items():
        for line in (function.attrs or {}).get(NOTES, ()):
            counts[f"{WEIGHTS}{name.name_hint.removesuffix(PACKED)}: {line}"] += 1
        # A scheduled kernel may be a hundred times faster than the same kernel without a schedule.
        scheduled = function.attrs is not None and SCHEDULED in function.attrs
        counts[type(function).__name__ + scheduled * " scheduled"] += 1
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, ((relax.Call, GenericConst), count))
    return dict(sorted(counts.items()))


@dataclass
class _Table:
    """The operators found so far, and the operators that produce each variable."""

    recurrences: Mapping[str, Recurrence]
    operators: list[Operator] = field(default_factory=list)
    producers: dict[int, Producers] = field(default_factory=dict)

    def bind(self, binding: Any) -> None:
        """Record which operators produce the variable of a binding; operators that are new are added."""
        self.producers[binding.var.__chandle__()] = self.producers_of(binding.value, ty=binding.var.ty)

    def producers_of(self, value: Any, *, ty: Any = None) -> Producers:
        """Return the operators that compute an expression; operators that are new are added."""
        # By address, because two structurally equal calls are still two operators.
        producers = self.producers.get(value.__chandle__())
        if producers is not None:
            return producers
        if isinstance(value, tvm.ir.Tuple):
            return tuple(self.producers_of(item) for item in value.fields)
        if isinstance(value, tvm.ir.TupleGetItem):
            whole = self.producers_of(value.tuple_value)
            return whole if isinstance(whole, int) else whole[value.index]
        if isinstance(value, GenericConst):
            rest = {"value": _scalar(value), "attributes": _storage(value)}
            return self.append(value, kind="constant", op="constant", outputs=value.ty, **rest)
        if isinstance(value, relax.Call):
            return self._call(value, ty if ty is not None else value.ty)
        return self.append(value, kind=type(value).__name__.lower(), op=type(value).__name__, outputs=ty)

    def _call(self, call: Any, ty: Any) -> int:
        tensors = [argument for argument in call.args if _is_data(argument)]
        inputs = tuple(index for tensor in tensors for index in flatten_producers(self.producers_of(tensor)))
        if not isinstance(call.op, tvm.ir.Op):
            name = str(getattr(call.op, "name_hint", "function"))
            return self.append(call, kind="function", op=name, outputs=ty, inputs=inputs)
        name = str(call.op.name)
        attributes: Mapping[str, Json] = {**_attributes(call.attrs), **_arguments(call)}
        kind = self._kind(name, inputs)
        if kind == "call_tir" and (recurrence := self.recurrences.get(call.args[0].name_hint)):
            kind, attributes = recurrence.kind.lower(), {"directions": recurrence.directions}
        return self.append(call, kind=kind, op=name, outputs=ty, inputs=inputs, attributes=attributes)

    def _kind(self, name: str, inputs: tuple[int, ...]) -> str:
        """Return the analyzer's name of an operator."""
        kind = _NAMESPACES.sub("", name)
        # Relax has one operator for both: a product with a matrix is a dense layer, that of two batches is batched.
        if kind == "matmul" and len(inputs) == 2:
            ranks = [len(self.operators[index].outputs[0].shape) for index in inputs]
            return "batch_matmul" if min(ranks) > 2 else "dense"
        return _KINDS.get(kind, kind)

    def append(self, expression: Any, *, kind: str, op: str, outputs: Any, **rest: Any) -> int:
        """Add the operator that an expression stands for, and return its index."""
        index = len(self.operators)
        types = tuple(_tensor_types(outputs))
        self.operators.append(
            Operator(index, kind, op, rest.get("inputs", ()), types, rest.get("attributes", {}), rest.get("value"))
        )
        self.producers[expression.__chandle__()] = index
        return index


def _is_data(argument: Any) -> bool:
    """Return True for an argument that an operator computed, False for a shape, name or number of the call itself."""
    is_literal = isinstance(argument, (relax.ShapeExpr, relax.ExternFunc, tvm.ir.StringImm, tvm.ir.GlobalVar))
    return not is_literal and not tvm.ir.is_prim_expr(argument)


def _arguments(call: Any) -> dict[str, Json]:
    """Return the arguments of a call that the analyzer expects as attributes."""
    name = str(call.op.name)
    if name == "relax.clip":
        return {key: _plain(value) for key, value in zip(_BOUNDS, call.args[1:], strict=True)}
    if name == "relax.nn.pad":
        widths = [int(width) for width in call.attrs.pad_width]
        return {"pad_width": [list(pair) for pair in zip(widths[::2], widths[1::2], strict=True)]}
    return {}


def _scalar(constant: Any) -> float | None:
    # The analyzer reads the values of scalars, for example of divisors. numpy has no bfloat16.
    data = constant.value
    if not isinstance(data, tvm.runtime.Tensor) or data.shape or str(data.dtype) == "bfloat16":
        return None
    return float(data.numpy())


def _storage(constant: Any) -> dict[str, Json]:
    """Return the 16-bit type that has the first numbers of large weights in float32, if there is one."""
    # By their values, because a network of 16 bits is imported in float32, and its inputs and outputs may be, too.
    data = constant.value
    is_large = isinstance(data, tvm.runtime.Tensor) and math.prod(data.shape) >= LEAST_NUMBERS
    if not is_large or str(data.dtype) != FLOAT32:
        return {}
    name = exact_type([values_of(data).reshape(-1)[:MOST_READ]], has_float16=True)
    return {} if name == FLOAT32 else {STORAGE: name}


def _tensor_types(ty: Any) -> Iterator[TensorType]:
    if isinstance(ty, relax.TensorType):
        yield tensor_type(ty)
    elif isinstance(ty, tvm.ir.TupleType):
        for item in ty.fields:
            yield from _tensor_types(item)


def tensor_type(relax_type: Any) -> TensorType:
    """Return a Relax tensor type as plain data; a dynamic dimension is ``None``."""
    is_known = isinstance(relax_type.shape, relax.ShapeExpr)
    shape = relax_type.shape.values if is_known else [None] * max(relax_type.ndim, 0)
    sizes = tuple(int(size) if isinstance(size, tvm.tirx.IntImm) else None for size in shape)
    return TensorType(sizes, str(relax_type.dtype))


def _attributes(attrs: Any) -> Mapping[str, Json]:
    if attrs is None:
        return {}
    if isinstance(attrs, tvm.ir.DictAttrs):
        return {str(name): _plain(value) for name, value in attrs.items()}
    return {info.name: _plain(getattr(attrs, info.name)) for info in type(attrs).__tvm_ffi_type_info__.fields}


def _plain(value: Any) -> Json:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (tvm.tirx.IntImm, tvm.tirx.FloatImm)):
        return value.value  # type: ignore[no-any-return]
    if isinstance(value, (tvm_ffi.Array, list, tuple)):
        return [_plain(item) for item in value]
    return str(value)
