"""The state graph: nodes are IRs, edges are passes. Every edge is tried once, ever."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

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

    @property
    def settled(self) -> bool:
        """Whether it tells what the pass does; a fault of the machine, such as a full disk, does not."""
        return not isinstance(self.target, Failure) or self.target.kind != "infra"


class StateGraph:
    """States reached so far, by identity. Several threads may add and ask."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._tried: dict[tuple[str, PassSpec], Edge] = {}
        self._graph = nx.MultiDiGraph()
        self._graph.add_node(root)
        self._forbidden: dict[PassSpec, Edge] = {}
        self._lock = Lock()

    @property
    def states(self) -> int:
        """How many different IRs are known."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        """The states in the order they were found, the root first."""
        with self._lock:
            nodes = list(self._graph)
            reached = {self.root, *nx.descendants(self._graph, self.root)} if self._forbidden else nodes
        return iter([state for state in nodes if state in reached] if self._forbidden else nodes)

    def edge(self, state: str, step: PassSpec) -> Edge | None:
        """What is known of one pass on one state."""
        return self._forbidden.get(step) or self._tried.get((state, step))

    def forbid(self, step: PassSpec, failure: Failure) -> None:
        """A pass whose edges lead nowhere, now and from now on; states that only it reached no longer count."""
        with self._lock:
            self._forbidden[step] = Edge(failure, 0.0)
            gone = [(*ends, key) for *ends, key in self._graph.edges(keys=True) if key == str(step)]
            self._graph.remove_edges_from(gone)

    @property
    def forbids(self) -> bool:
        """Whether there is such a pass."""
        return bool(self._forbidden)

    def add(self, state: str, step: PassSpec, *, edge: Edge) -> None:
        """Take in a tried pass."""
        with self._lock:
            self._tried[state, step] = edge
            if step not in self._forbidden and isinstance(edge.target, str) and edge.target != state:
                self._graph.add_edge(state, edge.target, key=str(step), step=step, seconds=edge.seconds)

    def failures(self, steps: Collection[PassSpec]) -> list[tuple[str, PassSpec, Failure]]:
        """Where these passes failed, on the states they reach."""
        edges = [(state, step, self.edge(state, step)) for state in self.reached(steps) for step in steps]
        return [(state, step, edge.target) for state, step, edge in edges if edge and isinstance(edge.target, Failure)]

    def cheapest(self, state: str) -> tuple[Pipeline, float]:
        """The known pipeline that reaches a state in the least time, and that time in seconds.

        Passes that change nothing are loops and so never part of it.
        """
        with self._lock:
            nodes = nx.dijkstra_path(self._graph, self.root, state, weight="seconds")
            edges = [self._fastest(*pair) for pair in pairwise(nodes)]
        return Pipeline(tuple(step for step, _ in edges)), sum(seconds for _, seconds in edges)

    def way(self, state: str) -> list[tuple[str, PassSpec]]:
        """The cheapest way to a state: each state on it with the pass applied to it."""
        here, way = self.root, []
        for step in self.cheapest(state)[0].passes:
            way.append((here, step))
            here = str(self._tried[here, step].target)
        return way

    def depths(self) -> dict[str, int]:
        """The fewest passes that reach each state."""
        with self._lock:
            return dict(nx.single_source_shortest_path_length(self._graph, self.root))

    def closed(self, steps: Collection[PassSpec]) -> bool:
        """Whether every one of these passes was tried on every state they reach: then there is nothing left to find."""
        return self.untried(steps) == 0

    def first_untried(self, steps: Collection[PassSpec]) -> str | None:
        """Of the states these passes reach, the nearest to the root that lacks one of them."""
        lacking = (state for state in self.reached(steps) if any(self.edge(state, step) is None for step in steps))
        return next(lacking, None)

    def untried(self, steps: Collection[PassSpec]) -> int:
        """How many of the states these passes reach still lack one of them."""
        reached = self.reached(steps)
        edges = ([self.edge(state, step) for step in steps] for state in reached)
        return sum(any(edge is None or not edge.settled for edge in each) for each in edges)

    def reached(self, steps: Collection[PassSpec]) -> list[str]:
        """The states known to be reached by these passes alone, breadth first."""
        found, queue = {self.root: None}, [self.root]
        for state in queue:
            for step in steps:
                edge = self.edge(state, step)
                if edge is not None and isinstance(edge.target, str) and edge.target not in found:
                    found[edge.target] = None
                    queue.append(edge.target)
        return list(found)

    def _fastest(self, source: str, target: str) -> tuple[PassSpec, float]:
        parallel = self._graph.get_edge_data(source, target).values()
        fastest = min(parallel, key=lambda edge: edge["seconds"])
        return fastest["step"], fastest["seconds"]
