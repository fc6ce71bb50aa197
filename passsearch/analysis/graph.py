"""A `ModuleSummary` as a networkx graph, and the walks over it that every feature is made of."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import networkx as nx

from passsearch.analysis.kinds import CONVOLUTIONS, LAYOUTS, MATMULS, TRANSPOSED_CONVOLUTIONS
from passsearch.core import Feature, ModuleSummary, Operator

Digraph: TypeAlias = "nx.DiGraph[int]"
Through: TypeAlias = Callable[[int], bool]

_WALK_LIMIT = 400
# Argument positions that hold weights, for modules whose weights are still inputs.
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
    """The network as the features see it.

    Attributes:
        operators: By index.
        results: Indices whose values the network returns.
        parameters: Indices of values that no input changes: weights and what is computed from them.
        data: What an input changes; edges from producer to consumer, without `parameters`.
    """

    operators: tuple[Operator, ...]
    results: tuple[int, ...]
    parameters: frozenset[int]
    data: Digraph

    def of_kind(self, kinds: Iterable[str]) -> Iterator[Operator]:
        """Operators of some kinds that work on data, in topological order."""
        wanted = frozenset(kinds)
        return (operator for operator in self.operators if operator.kind in wanted and operator.index in self.data)

    def kind(self, index: int) -> str:
        """Kind of one operator."""
        return self.operators[index].kind

    def shape(self, index: int) -> tuple[int | None, ...]:
        """Shape of an operator's first output; empty if it has none."""
        outputs = self.operators[index].outputs
        return outputs[0].shape if outputs else ()

    def arguments(self, index: int) -> tuple[int, ...]:
        """Producers of an operator's data arguments, in order, repeated as they are used."""
        return tuple(source for source in self.operators[index].inputs if source not in self.parameters)

    def weights(self, index: int) -> tuple[int, ...]:
        """Producers of an operator's arguments that are parameters."""
        return tuple(source for source in self.operators[index].inputs if source in self.parameters)

    def users(self, index: int) -> list[int]:
        """Operators that read a value, in order."""
        return sorted(self.data.successors(index)) if index in self.data else []

    def scalars(self, index: int) -> list[float]:
        """Numbers among an operator's arguments."""
        values = (self.operators[source].value for source in self.operators[index].inputs)
        return [value for value in values if value is not None]


@dataclass(frozen=True)
class Walk:
    """Where a walk ended and what it went through on the way."""

    ends: frozenset[int]
    passed: frozenset[int]


def dataflow(summary: ModuleSummary) -> Dataflow:
    """Builds the graph of a summary."""
    graph: Digraph = nx.DiGraph()
    for operator in summary.operators:
        graph.add_node(operator.index, kind=operator.kind)
        graph.add_edges_from((source, operator.index) for source in operator.inputs)
    parameters = _parameters(summary.operators, graph)
    data = graph.subgraph(node for node in graph if node not in parameters).copy()
    return Dataflow(summary.operators, summary.results, parameters, data)


def walk_back(flow: Dataflow, starts: Iterable[int], *, through: Through, limit: int = _WALK_LIMIT) -> Walk:
    """Follows data backwards from values, going on from an operator only if `through` says so."""
    return _walk(starts, lambda index: flow.arguments(index), through=through, limit=limit)


def walk_forward(flow: Dataflow, index: int, *, through: Through, limit: int = _WALK_LIMIT) -> Walk:
    """Follows data forwards from the users of a value."""
    return _walk(flow.users(index), flow.users, through=through, limit=limit)


def root(flow: Dataflow, index: int) -> int:
    """The value of which this one is a rearrangement."""
    while flow.kind(index) in LAYOUTS and len(flow.arguments(index)) == 1:
        index = flow.arguments(index)[0]
    return index


def occurrences(indices: Iterable[int], detail: str = "") -> Feature:
    """A feature that occurs at these operators."""
    found = sorted(indices)
    return Feature(len(found), found[0], detail) if found else Feature(0)


def extent(shape: Sequence[int | None], layout: str, *, axis: str) -> int | None:
    """Size of one axis under a layout such as `NCHW8c`; ``None`` if it is not known."""
    letters = [letter for _, letter in _LAYOUT_AXIS.findall(layout)]
    if len(letters) != len(shape) or axis not in (letter.upper() for letter in letters):
        return None
    found = [size for letter, size in zip(letters, shape, strict=True) if letter.upper() == axis]
    known = [size for size in found if size is not None]
    return math.prod(known) if len(known) == len(found) else None


def integers(operator: Operator, name: str) -> tuple[int, ...]:
    """A list attribute as integers; a lone integer is a list of one, anything else empty."""
    value = operator.attributes.get(name)
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, int))


def is_weighted_matmul(flow: Dataflow, index: int) -> bool:
    """Whether a matrix product multiplies data by a parameter."""
    return flow.kind(index) in MATMULS and len(flow.arguments(index)) == 1 and bool(flow.weights(index))


def is_data_matmul(flow: Dataflow, index: int) -> bool:
    """Whether a matrix product multiplies data by data."""
    return flow.kind(index) in MATMULS and len(flow.arguments(index)) >= 2


def _walk(starts: Iterable[int], following: Callable[[int], Iterable[int]], *, through: Through, limit: int) -> Walk:
    ends: set[int] = set()
    passed: set[int] = set()
    stack = list(starts)
    while stack and len(passed) < limit:
        index = stack.pop()
        if index in passed or index in ends:
            continue
        if not through(index):
            ends.add(index)
            continue
        passed.add(index)
        stack.extend(following(index))
    return Walk(frozenset(ends), frozenset(passed))


def _parameters(operators: Sequence[Operator], graph: Digraph) -> frozenset[int]:
    found: set[int] = set()
    for operator in operators:
        fixed = operator.kind != "input" and all(source in found for source in operator.inputs)
        if fixed or (operator.kind == "input" and _is_weight(operators, graph, index=operator.index)):
            found.add(operator.index)
    return frozenset(found)


def _is_weight(operators: Sequence[Operator], graph: Digraph, *, index: int) -> bool:
    uses = list(_uses(operators, graph, index=index))
    small = bool(operators[index].outputs) and len(operators[index].outputs[0].shape) <= 1
    return bool(uses) and all(_is_weight_use(operators[user], slot, small=small) for user, slot in uses)


def _uses(operators: Sequence[Operator], graph: Digraph, *, index: int) -> Iterator[tuple[int, int]]:
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
    return small and slot == 1 and user.kind in ("add", "multiply", "subtract", "divide")
