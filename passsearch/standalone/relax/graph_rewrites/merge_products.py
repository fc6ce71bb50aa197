"""Products of one operand with several constant weights, computed as one product.

Query, key and value of an attention are such products. One product reads the operand once, has wider rows to divide
among threads, and is one kernel; a slice of its columns takes the place of each product, with its bias if all have
one. TVM's ``CombineParallelMatmul`` merges all products or none, and leaves those whose weights or biases are bound
constants, as importers of ONNX write them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator


def MergeProducts(  # noqa: N802
    groups: Mapping[str, int] | None = None, merge: bool = False, most_rows: int | None = None
) -> Any:
    """Return a pass that makes one product of those that share their left operand and have constant weights.

    Args:
        groups: 1 for a group of products that shall become one, 0 for one that shall not, by its place among all
            groups of the network, as text.
        merge: Whether all other groups become one product.
        most_rows: Rows of the operand up to which ``merge`` does that; ``None`` for any number.

    Raises:
        ValueError: A value is not 0 or 1, or a place is not that of a group.
    """
    values = {int(place): value for place, value in (groups or {}).items()}
    if wrong := [value for value in values.values() if value not in (0, 1)]:
        raise ValueError(f"a group has 0 or 1; got {wrong[0]}")

    def is_merged(place: int, group: _Group) -> bool:
        return bool(values.get(place, merge and (most_rows is None or group.rows <= most_rows)))

    def convert(module: Any, _context: Any) -> Any:
        all_groups = list(_find_groups(module))
        if unknown := set(values) - set(range(len(all_groups))):
            raise ValueError(f"there is no group {min(unknown)}; the network has {len(all_groups)}")
        to_merge = [group for place, group in enumerate(all_groups) if is_merged(place, group)]
        if not to_merge:
            return module
        writer = _Writer(module, to_merge)
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        return relax.transform.DeadCodeElimination()(writer.builder_.finalize())

    return tvm.transform.module_pass(convert, opt_level=0, name="MergeProducts")


def regions(module: Any) -> list[dict[str, str]]:
    """Return ``key`` (the number) and ``like`` (the shapes) of each group that ``MergeProducts`` can merge."""
    return [{"key": str(place), "like": group.shapes} for place, group in enumerate(_find_groups(module))]


@dataclass(frozen=True)
class _Product:
    """A product, with the addition of its bias if that is all that reads it.

    Attributes:
        variable: The variable of the product.
        call: The product.
        biased: The variable of the addition; ``None`` without one.
        bias: The numbers that are added, one for each column; ``None`` without an addition.
    """

    variable: Any
    call: Any
    biased: Any = None
    bias: Any = None

    @property
    def weights(self) -> Any:
        """A new copy of the weights, of the shape ``[summed dimension, columns]``."""
        return self.call.args[1].value.numpy()

    @property
    def columns(self) -> int:
        """Number of columns of the weights."""
        return int(self.call.args[1].ty.shape.values[1])


@dataclass(frozen=True)
class _Group:
    """Products of one operand in one block, of one type."""

    products: Sequence[_Product]

    @property
    def has_biases(self) -> bool:
        """Whether all products have a bias, which the one product then has as well."""
        return all(product.bias is not None for product in self.products)

    @property
    def results(self) -> list[Any]:
        """The variables whose values are columns of the one product."""
        return [product.biased if self.has_biases else product.variable for product in self.products]

    @property
    def rows(self) -> int:
        """Rows of the operand."""
        return math.prod(int(extent) for extent in self.products[0].call.args[0].ty.shape.values[:-1])

    @property
    def shapes(self) -> str:
        """The shapes of the operand and the weights, which decide what the products cost."""
        data, *_ = self.products[0].call.args
        operands = [data, *(product.call.args[1] for product in self.products)]
        shapes = ["x".join(str(int(extent)) for extent in operand.ty.shape.values) for operand in operands]
        return " ".join([*shapes, "with biases"] if self.has_biases else shapes)


def _find_groups(module: Any) -> Iterator[_Group]:
    """Yield the groups of two products or more, in the order of their first products."""
    for _, function in sorted(module.functions_items(), key=lambda item: str(item[0].name_hint)):
        for block in function.body.blocks if isinstance(function, relax.Function) else ():
            values = {binding.var: binding.value for binding in block.bindings if isinstance(binding, relax.VarBinding)}
            readers = _readers(block)
            by_operand: dict[Any, list[_Product]] = defaultdict(list)
            for variable, value in values.items():
                if _is_product(value):
                    types = (str(value.ty.dtype), str(value.args[1].ty.dtype))
                    by_operand[value.args[0], types].append(_with_bias(_Product(variable, value), readers, values))
            yield from (_Group(products) for products in by_operand.values() if len(products) > 1)


def _readers(block: Any) -> Mapping[Any, list[Any]]:
    """Return the variables whose values read a variable, by that variable."""
    readers: dict[Any, list[Any]] = defaultdict(list)
    for binding in block.bindings:
        for variable in relax.analysis.free_vars(binding.value):
            readers[variable].append(binding.var)
    return readers


def _is_product(value: Any) -> bool:
    """Return True for a product of data of known columns with a constant matrix."""
    if not _is_call(value, "relax.matmul"):
        return False
    data, weights = value.args
    return (
        isinstance(data, relax.Var)
        and isinstance(weights, tvm.ir.GenericConst)
        and len(weights.ty.shape) == 2
        and isinstance(data.ty.shape, relax.ShapeExpr)
        and len(data.ty.shape.values) > 1
        and all(isinstance(extent, tirx.IntImm) for extent in data.ty.shape.values)
    )


def _with_bias(product: _Product, readers: Mapping[Any, list[Any]], values: Mapping[Any, Any]) -> _Product:
    """Return a product with the addition of a constant for each column, if nothing else reads the product."""
    reading = readers[product.variable]
    # A variable that is not of the block alone may be read elsewhere.
    if len(reading) != 1 or not isinstance(product.variable, relax.DataflowVar):
        return product
    addition = values.get(reading[0])
    if addition is None or not _is_call(addition, "relax.add"):
        return product
    others = [operand for operand in addition.args if not operand.same_as(product.variable)]
    if len(others) != 1 or not isinstance(others[0], tvm.ir.GenericConst):
        return product
    shape = [int(extent) for extent in others[0].ty.shape.values]
    is_one_for_each_column = shape[-1:] == [product.columns] == [math.prod(shape)]
    # A bias of higher rank than the product gives the sum its own rank.
    if not is_one_for_each_column or len(shape) > product.call.ty.ndim:
        return product
    return _Product(product.variable, product.call, reading[0], others[0].value.numpy().reshape(-1))


def _is_call(value: Any, name: str) -> bool:
    return isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op) and value.op.name == name


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Writes one product before the first of each group, and slices in place of all of them."""

    def __init__(self, module: Any, groups: Sequence[_Group]) -> None:
        super().__init__(module)
        self._by_first = {group.products[0].variable: group for group in groups}
        self._slices: dict[Any, Any] = {}

    def visit_var_binding_(self, binding: Any) -> None:
        if (group := self._by_first.get(binding.var)) is not None:
            self._write(group)
        if (columns := self._slices.get(binding.var)) is not None:
            binding = relax.VarBinding(binding.var, columns)
        super().visit_var_binding_(binding)

    def _write(self, group: _Group) -> None:
        first = group.products[0].call
        weights = [product.weights for product in group.products]
        constant = relax.const(np.concatenate(weights, axis=1), str(weights[0].dtype))
        result = self.builder_.emit(relax.Call(first.op, [self.visit_expr(first.args[0]), constant], first.attrs))
        if group.has_biases:
            biases = np.concatenate([product.bias for product in group.products])
            result = self.builder_.emit(relax.op.add(result, relax.const(biases, str(biases.dtype))))
        ends = np.cumsum([each.shape[1] for each in weights])
        last = len(first.ty.shape.values) - 1
        for variable, end, each in zip(group.results, ends, weights, strict=True):
            begin = int(end) - each.shape[1]
            self._slices[variable] = relax.op.strided_slice(result, axes=[last], begin=[begin], end=[int(end)])
