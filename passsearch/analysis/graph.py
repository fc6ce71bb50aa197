"""A `ModuleSummary` as a networkx graph, and the walks over it that the features are computed with."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import networkx as nx

from passsearch.analysis.kinds import CONVOLUTIONS, LAYOUTS, MATMULS, TRANSPOSED_CONVOLUTIONS
from passsearch.core import Feature, ModuleSummary, Operator

Digraph: TypeAlias = "nx.DiGraph[int]"
Through: TypeAlias = Callable[[int], bool]

_WALK_LIMIT = 400
# Argument positions of weights. An importer that does not freeze parameters leaves the weights as inputs of the
# network, and then only their use tells them from data.
_WEIGHT_SLOTS = {
    **dict.fromkeys(CONVOLUTIONS | TRANSPOSED_CONVOLUTIONS, (1, 2)),
    "dense": (1,),
    "bias_add": (1,),
    "prelu": (1,),
    "batch_norm": (1, 2, 3, 4),
    "layer_norm": (1, 2),
    "group_norm": (1, 2),
    "instance_norm": (1, 2),
    "take": (0,),
}
_LAYOUT_AXIS = re.compile(r"(\d*)([A-Za-z])")


@dataclass(frozen=True)
class Dataflow:
    """The dataflow graph of a network, with data separated from parameters.

    Attributes:
        operators: All operators, by index.
        results: Indices of the operators whose values the network returns.
        parameters: Indices of values that do not depend on the data: weights and values computed from weights.
        data: Graph of the values that depend on the data; edges go from producer to consumer.
    """

    operators: tuple[Operator, ...]
    results: tuple[int, ...]
    parameters: frozenset[int]
    data: Digraph

    def of_kind(self, kinds: Iterable[str]) -> Iterator[Operator]:
        """Return the operators of some kinds whose values depend on data, in topological order."""
        kinds = frozenset(kinds)
        return (operator for operator in self.operators if operator.kind in kinds and operator.index in self.data)

    def kind(self, index: int) -> str:
        """Return the kind of one operator."""
        return self.operators[index].kind

    def shape(self, index: int) -> tuple[int | None, ...]:
        """Return the shape of an operator's first output, empty if it has no output."""
        outputs = self.operators[index].outputs
        return outputs[0].shape if outputs else ()

    def arguments(self, index: int) -> tuple[int, ...]:
        """Return the producers of an operator's data arguments, in order; a value used twice appears twice."""
        return tuple(source for source in self.operators[index].inputs if source not in self.parameters)

    def weights(self, index: int) -> tuple[int, ...]:
        """Return the producers of those arguments of an operator that are parameters."""
        return tuple(source for source in self.operators[index].inputs if source in self.parameters)

    def users(self, index: int) -> list[int]:
        """Return the operators that read a value, in order."""
        return sorted(self.data.successors(index)) if index in self.data else []

    def scalars(self, index: int) -> list[float]:
        """Return the numbers among an operator's arguments."""
        values = (self.operators[source].value for source in self.operators[index].inputs)
        return [value for value in values if value is not None]


@dataclass(frozen=True)
class Walk:
    """The result of a walk over the graph.

    Attributes:
        ends: Operators at which the walk stopped.
        interior: Operators that the walk went through.
    """

    ends: frozenset[int]
    interior: frozenset[int]


def dataflow(summary: ModuleSummary) -> Dataflow:
    """Build the graph of a summary."""
    graph: Digraph = nx.DiGraph()
    for operator in summary.operators:
        graph.add_node(operator.index, kind=operator.kind)
        graph.add_edges_from((source, operator.index) for source in operator.inputs)
    parameters = _parameters(summary.operators, graph)
    data = graph.subgraph(node for node in graph if node not in parameters).copy()
    return Dataflow(summary.operators, summary.results, parameters, data)


def walk_back(flow: Dataflow, starts: Iterable[int], *, through: Through, limit: int = _WALK_LIMIT) -> Walk:
    """Follow data backwards from values; the walk goes on behind an operator only if `through` is true for it."""
    return _walk(starts, lambda index: flow.arguments(index), through=through, limit=limit)


def walk_forward(flow: Dataflow, index: int, *, through: Through, limit: int = _WALK_LIMIT) -> Walk:
    """Follow data forwards from the users of a value; `through` has the same meaning as in `walk_back`."""
    return _walk(flow.users(index), flow.users, through=through, limit=limit)


def unwrap_layouts(flow: Dataflow, index: int) -> int:
    """Return the value that this one only rearranges or converts, through any number of reshapes and casts."""
    while flow.kind(index) in LAYOUTS and len(flow.arguments(index)) == 1:
        index = flow.arguments(index)[0]
    return index


def make_feature(indices: Iterable[int], detail: str = "") -> Feature:
    """Return a feature that counts these operators and names the first; its count is 0 if there are none."""
    ordered = sorted(indices)
    return Feature(len(ordered), ordered[0], detail) if ordered else Feature(0)


def axis_size(shape: Sequence[int | None], layout: str, *, axis: str) -> int | None:
    """Return the size of one axis in a layout such as `NCHW8c`, ``None`` if the shape does not determine it."""
    # A network has few shapes, and hundreds of operators of each.
    return _axis_size(tuple(shape), layout, axis)


@lru_cache(maxsize=4096)
def _axis_size(shape: tuple[int | None, ...], layout: str, axis: str) -> int | None:
    letters = [letter for _, letter in _LAYOUT_AXIS.findall(layout)]
    if len(letters) != len(shape) or axis not in (letter.upper() for letter in letters):
        return None
    # A packed layout splits an axis: the channels of NCHW8c are the product of C and c.
    parts = [size for letter, size in zip(letters, shape, strict=True) if letter.upper() == axis]
    sizes = [size for size in parts if size is not None]
    return math.prod(sizes) if len(sizes) == len(parts) else None


def integer_attribute(operator: Operator, name: str) -> tuple[int, ...]:
    """Return a list attribute as a tuple; an integer gives a tuple of one, any other value an empty tuple."""
    value = operator.attributes.get(name)
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, int))


def is_weighted_matmul(flow: Dataflow, index: int) -> bool:
    """Return whether an operator is a matrix product of data with a parameter."""
    return flow.kind(index) in MATMULS and len(flow.arguments(index)) == 1 and bool(flow.weights(index))


def is_data_matmul(flow: Dataflow, index: int) -> bool:
    """Return whether an operator is a matrix product of data with data."""
    return flow.kind(index) in MATMULS and len(flow.arguments(index)) >= 2


def _walk(starts: Iterable[int], following: Callable[[int], Iterable[int]], *, through: Through, limit: int) -> Walk:
    ends: set[int] = set()
    interior: set[int] = set()
    stack = list(starts)
    # The limit keeps a walk local: without it one walk per operator would make large networks quadratic.
    while stack and len(interior) < limit:
        index = stack.pop()
        if index in interior or index in ends:
            continue
        if not through(index):
            ends.add(index)
            continue
        interior.add(index)
        stack.extend(following(index))
    return Walk(frozenset(ends), frozenset(interior))


def _parameters(operators: Sequence[Operator], graph: Digraph) -> frozenset[int]:
    """Return the indices of the operators whose values do not depend on the data: weights, and values of weights."""
    parameters: set[int] = set()
    # One pass is enough: operators are in topological order.
    for operator in operators:
        fixed = operator.kind != "input" and all(source in parameters for source in operator.inputs)
        if fixed or (operator.kind == "input" and _is_weight(operators, graph, index=operator.index)):
            parameters.add(operator.index)
    return frozenset(parameters)


def _is_weight(operators: Sequence[Operator], graph: Digraph, *, index: int) -> bool:
    """Return whether every use of an input is one of a weight."""
    uses = list(_uses(operators, graph, index=index))
    # Tables hold floats; `take` of an integer input picks a column of indices, as recommenders do.
    indices = any(kind.dtype.startswith(("int", "uint")) for kind in operators[index].outputs)
    if indices and any(operators[user].kind == "take" for user, _ in uses):
        return False
    small = bool(operators[index].outputs) and len(operators[index].outputs[0].shape) <= 1
    return bool(uses) and all(_is_weight_use(operators[user], slot, small=small) for user, slot in uses)


def _uses(operators: Sequence[Operator], graph: Digraph, *, index: int) -> Iterator[tuple[int, int]]:
    """Yield each operator that computes with a value, and the argument position; ``LAYOUTS`` are passed through."""
    stack = [index]
    while stack:
        producer = stack.pop()
        for user in graph.successors(producer):
            if operators[user].kind in LAYOUTS:
                stack.append(user)
                continue
            yield from ((user, slot) for slot, source in enumerate(operators[user].inputs) if source == producer)


def _is_weight_use(user: Operator, slot: int, *, small: bool) -> bool:
    if slot in _WEIGHT_SLOTS.get(user.kind, ()):
        return True
    # A bias or scale: a vector that is the second operand of elementwise arithmetic.
    return small and slot == 1 and user.kind in ("add", "multiply", "subtract", "divide")
