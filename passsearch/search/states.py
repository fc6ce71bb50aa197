"""The state graph: nodes are IRs, edges are passes. Every edge is tried once, ever."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

from passsearch.core import Failure, PassSpec, Pipeline


@dataclass(frozen=True)
class Edge:
    """What one pass did to one state.

    Attributes:
        target: The state it led to (the same one if it changed nothing), or how it failed.
        seconds: Time to apply it.
    """

    target: str | Failure
    seconds: float


class StateGraph:
    """States reached so far, by identity."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._tried: dict[tuple[str, PassSpec], Edge] = {}
        self._graph = nx.MultiDiGraph()
        self._graph.add_node(root)

    @property
    def states(self) -> int:
        """How many different IRs are known."""
        return int(self._graph.number_of_nodes())

    def edge(self, state: str, step: PassSpec) -> Edge | None:
        """What is known of one pass on one state."""
        return self._tried.get((state, step))

    def add(self, state: str, step: PassSpec, edge: Edge) -> None:
        """Take in a tried pass."""
        self._tried[state, step] = edge
        if isinstance(edge.target, str) and edge.target != state:
            self._graph.add_edge(state, edge.target, key=str(step), step=step, seconds=edge.seconds)

    def cheapest(self, state: str) -> tuple[Pipeline, float]:
        """The known pipeline that reaches a state in the least time, and that time in seconds.

        Passes that change nothing are loops and so never part of it.
        """
        nodes = nx.dijkstra_path(self._graph, self.root, state, weight="seconds")
        edges = [self._fastest(*pair) for pair in pairwise(nodes)]
        return Pipeline(tuple(step for step, _ in edges)), sum(seconds for _, seconds in edges)

    def closed(self, steps: Collection[PassSpec]) -> bool:
        """Whether every one of these passes was tried on every state: then there is nothing left to find."""
        return all((state, step) in self._tried for state in self._graph for step in steps)

    def _fastest(self, source: str, target: str) -> tuple[PassSpec, float]:
        parallel = self._graph.get_edge_data(source, target).values()
        fastest = min(parallel, key=lambda edge: edge["seconds"])
        return fastest["step"], fastest["seconds"]
