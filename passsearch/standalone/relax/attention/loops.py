"""The loops of an attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import te, tirx

ROWS, COLUMNS = 6, 16
"""Rows of scores that are computed together, and columns of a block of them. Six rows of one block have twelve sums in
registers of 256 bits, and six rows of two blocks as many in registers of 512 bits."""

LANES = 8
"""Partial sums of each score of few rows, which are computed in one vector."""

MOST_FEW_ROWS = 12
"""Most rows that are computed together where a head of the query has fewer than ``ROWS``: their sums, one vector of
values and one weight are in registers."""

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "relax.add": lambda x, y: x + y,
    "relax.subtract": lambda x, y: x - y,
    "relax.multiply": lambda x, y: x * y,
    "relax.divide": lambda x, y: x / y,
}
SELECTION, RESHAPE = "relax.where", "relax.reshape"
"""Operators that may stand between the first product and the softmax, beside the binary ones."""

SCORE = None
"""Stands for the scores among the operands of an operator."""


@dataclass(frozen=True)
class Operator:
    """An operator between the first product and the softmax.

    Attributes:
        name: Its name.
        operands: Its operands in their order: tensors, numbers, and ``SCORE``.
        leading: Sizes of its result without the last two.
    """

    name: str
    operands: tuple[Any, ...]
    leading: tuple[int, ...]


def block_count(columns: int) -> int:
    """Return the number of blocks of columns: one, or an even number, so that two can be computed together."""
    blocks = -(-columns // COLUMNS)
    return blocks + blocks % 2 if blocks > 1 else blocks


def attention_loops(
    query: Any,
    keys: Any,
    values: Any,
    operators: Sequence[Operator],
    *,
    replaces_nan: bool,
    group: int = 1,
    has_rows_of_keys: bool = False,
) -> Any:
    """Return the result of an attention, the last of its stages.

    The first stage packs the keys in blocks of columns; the others have a loop over tiles of ``ROWS`` rows. A row is
    divided by the sum of its weights after the second product, where it is shorter, as in FlashAttention (Dao et al.,
    NeurIPS 2022). Unlike there, a whole row of scores is computed before its weights, because the caches of a CPU hold
    it.

    With fewer rows, a tile has those of all heads that share keys, which it reads once and where they are.

    Args:
        query: Tensor of the shape [..., rows, depth].
        keys: Tensor of the shape [..., depth, columns].
        values: Tensor of the shape [..., columns, width].
        operators: The operators between the first product and the softmax. The last axis of their tensors has 1
            element, or as many as all blocks of columns.
        replaces_nan: True if a row without weights has the result 0.
        group: Heads of the query, the axis before the rows, that share a head of keys and values.
        has_rows_of_keys: True for keys of the shape [..., columns, depth], as they must be for few rows.
    """
    return _Loops(query, keys, values, operators, replaces_nan, group, has_rows_of_keys).result()


@dataclass(frozen=True)
class _Loops:
    """One attention; ``result`` computes it in stages (arguments: see ``attention_loops``).

    Buffers between the stages have one axis in place of all leading ones.
    """

    query: Any
    keys: Any
    values: Any
    operators: Sequence[Operator]
    replaces_nan: bool
    group: int
    has_rows_of_keys: bool
    zero: Any = field(default_factory=lambda: tirx.const(0.0, "float32"))

    @property
    def leading(self) -> list[int]:
        return [int(size) for size in self.query.shape[:-2]]

    @property
    def rows(self) -> int:
        return int(self.query.shape[-2])

    @property
    def has_few_rows(self) -> bool:
        return self.rows < ROWS

    @property
    def columns(self) -> int:
        return int(self.values.shape[-2])

    @property
    def blocks(self) -> int:
        return block_count(self.columns)

    @property
    def of_scores(self) -> list[Any]:
        """Shape of the scores: parts, tiles, rows of a tile, blocks of columns, columns of a block."""
        if self.has_few_rows:
            parts = math.prod(self.leading) // self.group
            return _shape(parts, 1, self.group * self.rows, self.blocks, COLUMNS)
        return _shape(math.prod(self.leading), -(-self.rows // ROWS), ROWS, self.blocks, COLUMNS)

    def result(self) -> Any:
        products = self._products_of_few_rows() if self.has_few_rows else self._products(self._packed_keys())
        scores = self._scores(products)
        maxima = self._reduce(scores, te.max, ("lane_maxima", "maxima"))
        weights = te.compute(self.of_scores, lambda *place: te.exp(scores[place] - maxima[place[:3]]), name="weights")
        sums = self._reduce(weights, te.sum, ("lane_sums", "sums"))
        results = self._weighted_values(weights)

        def output(*indices: Any) -> Any:
            *outer, row, place = indices
            part = _ravel(outer, self.leading)
            tile = (part, row // ROWS, row % ROWS)
            if self.has_few_rows:
                tile = (part // self.group, _index(0), part % self.group * self.rows + row)
            at_place = (*tile, place)
            result = results[at_place] / sums[tile]
            # Where all weights are 0, or one is NaN, each divided by their sum is NaN.
            return tirx.Select(sums[tile] > self.zero, result, self.zero) if self.replaces_nan else result

        return te.compute(_shape(*self.leading, self.rows, int(self.values.shape[-1])), output, name="attention")

    def _exists(self, block: Any, lane: Any) -> Any | None:
        """Return the condition that a column exists; ``None`` where all do."""
        is_whole = self.columns % (self.blocks * COLUMNS) == 0
        return None if is_whole else block * COLUMNS + lane < self.columns

    def _row(self, part: Any, tile: Any, row: Any) -> tuple[Any, Any]:
        """Return the part and the row of the query; rows beyond the last repeat it, and nothing reads what they give.

        The rows of few are those of one head of a group after another.
        """
        if self.has_few_rows:
            return part * self.group + row // self.rows, row % self.rows
        index = tile * ROWS + row
        return part, index if self.rows % ROWS == 0 else tirx.min(index, tirx.const(self.rows - 1, "int64"))

    def _packed_keys(self) -> Any:
        def key(part: Any, block: Any, step: Any, lane: Any) -> Any:
            column, exists = block * COLUMNS + lane, self._exists(block, lane)
            place = (column, step) if self.has_rows_of_keys else (step, column)
            value = self._read_shared(self.keys, part, *place)
            return value if exists is None else tirx.if_then_else(tirx.likely(exists), value, self.zero)

        depth, parts = int(self.query.shape[-1]), math.prod(self.leading) // self.group
        return te.compute(_shape(parts, self.blocks, depth, COLUMNS), key, name="keys")

    def _products_of_few_rows(self) -> Any:
        """Return the products with keys as they are: of each score first ``LANES`` partial sums, then their sum."""
        step = te.reduce_axis((0, int(self.query.shape[-1]) // LANES), "step")

        def product(part: Any, tile: Any, row: Any, block: Any, lane: Any, place: Any) -> Any:
            at, column = step * LANES + place, block * COLUMNS + lane
            if self._exists(block, lane) is not None:  # columns beyond the last repeat it
                column = tirx.min(column, tirx.const(self.columns - 1, "int64"))
            head, row = self._row(part, tile, row)
            return te.sum(self._read(self.query, head, row, at) * self._read_shared(self.keys, part, column, at), step)

        by_lane = te.compute((*self.of_scores, *_shape(LANES)), product, name="lane_products")

        def total(*at: Any) -> Any:
            sums = [by_lane(*at, _index(place)) for place in range(LANES)]
            while len(sums) > 1:  # in halves, as vectors are added up
                half = len(sums) // 2
                sums = [left + right for left, right in zip(sums[:half], sums[half:], strict=True)]
            return sums[0]

        return te.compute(self.of_scores, total, name="products")

    def _products(self, keys: Any) -> Any:
        step = te.reduce_axis((0, int(self.query.shape[-1])), "step")

        def product(part: Any, tile: Any, row: Any, block: Any, lane: Any) -> Any:
            value = self._read(self.query, *self._row(part, tile, row), step)
            shared = part // self.group if self.group > 1 else part
            return te.sum(value * keys[shared, block, step, lane], axis=step)

        return te.compute(self.of_scores, product, name="products")

    def _scores(self, products: Any) -> Any:
        def score(part: Any, tile: Any, row: Any, block: Any, lane: Any) -> Any:
            value, (head, at) = products[part, tile, row, block, lane], self._row(part, tile, row)
            for operator in self.operators:
                value = _apply(operator, value, head, (at, block * COLUMNS + lane))
            exists = self._exists(block, lane)
            return value if exists is None else tirx.Select(exists, value, tirx.const(-math.inf, "float32"))

        return te.compute(self.of_scores, score, name="scores")

    def _reduce(self, values: Any, reducer: Callable[..., Any], names: tuple[str, str]) -> Any:
        """Return the reduction of every row: of each lane over all blocks, and then of the lanes."""
        parts, tiles, rows, blocks, lanes = self.of_scores
        block, lane = te.reduce_axis((0, int(blocks)), "block"), te.reduce_axis((0, int(lanes)), "lane")
        by_lane = te.compute(
            (parts, tiles, rows, lanes),
            lambda part, tile, row, place: reducer(values[part, tile, row, block, place], axis=block),
            name=names[0],
        )
        return te.compute(
            (parts, tiles, rows),
            lambda *place: reducer(by_lane[place[0], place[1], place[2], lane], axis=lane),
            name=names[1],
        )

    def _weighted_values(self, weights: Any) -> Any:
        column = te.reduce_axis((0, self.columns), "column")

        def weighted_value(part: Any, tile: Any, row: Any, place: Any) -> Any:
            weight = weights[part, tile, row, column // COLUMNS, column % COLUMNS]
            shared = part // self.group if self.group > 1 and not self.has_few_rows else part
            return te.sum(weight * self._read_shared(self.values, shared, column, place), axis=column)

        return te.compute((*self.of_scores[:3], *_shape(int(self.values.shape[-1]))), weighted_value, name="results")

    def _read(self, tensor: Any, part: Any, *place: Any) -> Any:
        indices = (*_unravel(part, self.leading), *place)
        return tensor[indices]

    def _read_shared(self, tensor: Any, part: Any, *place: Any) -> Any:
        """Return an element of the keys or values, which have a part for each group."""
        indices = (*_unravel(part, [int(size) for size in tensor.shape[:-2]]), *place)
        return tensor[indices]


def _apply(operator: Operator, score: Any, part: Any, place: tuple[Any, Any]) -> Any:
    """Return a score after an operator; ``place`` has its row and its column."""

    def read_operand(operand: Any) -> Any:
        if operand is SCORE:
            return score
        if isinstance(operand, float):
            return tirx.const(operand, "float32")
        # A tensor is repeated along axes of one element, and along those that it lacks.
        sizes = [int(size) for size in operand.shape]
        indices = [*_unravel(part, operator.leading), *place][-len(sizes) :]
        return operand[tuple(_index(0) if size == 1 else index for size, index in zip(sizes, indices, strict=True))]

    operands = [read_operand(operand) for operand in operator.operands]
    if operator.name in BINARY:
        return BINARY[operator.name](*operands)
    return tirx.Select(*operands) if operator.name == SELECTION else score


def _unravel(part: Any, sizes: Sequence[int]) -> list[Any]:
    """Return the indices of a part along axes of these sizes."""
    indices: list[Any] = []
    for size in reversed(sizes):
        indices.insert(0, part % size if size > 1 else _index(0))
        part = part // size if size > 1 else part
    return indices


def _ravel(indices: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Return the part at these indices."""
    part = _index(0)
    for index, size in zip(indices, sizes, strict=True):
        part = part * size + index
    return part


def _index(value: int) -> Any:
    return tirx.IntImm("int64", value)


def _shape(*extents: int) -> list[Any]:
    """Return a shape as Relax writes it, in 64 bits; buffers that are joined must agree in that too."""
    return [_index(extent) for extent in extents]
