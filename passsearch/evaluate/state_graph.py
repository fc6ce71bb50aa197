"""The state graph: nodes are states (IRs), edges are passes. Every edge is tried once, ever."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import TypeAlias

import networkx as nx

from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.evaluate.records import RECALLED
from passsearch.store import Fact

EdgeKey: TypeAlias = tuple[str, PassSpec]
"""A state and the pass applied to it."""


@dataclass(frozen=True)
class Edge:
    """The effect of one pass on one state.

    Attributes:
        target: The state it led to (the same one if the pass changed nothing), or its failure.
        seconds: Time to apply it.
        copied_from: Edge whose failure this one repeats without being tried; ``None`` for an edge that was tried.
        is_recalled: True if an earlier run found it, so that its time is of another load of the machine.
    """

    target: str | Failure
    seconds: float
    copied_from: EdgeKey | None = None
    is_recalled: bool = False

    @classmethod
    def from_fact(cls, fact: Fact) -> "Edge":
        """Read a fact of kind ``edge``."""
        target = Failure.from_json(fact["failure"]) if "failure" in fact else fact["state"]
        return cls(target, fact["seconds"], is_recalled=bool(fact.get(RECALLED)))

    @property
    def applied(self) -> bool:
        """True if the pass did not fail."""
        return isinstance(self.target, str)

    @property
    def settled(self) -> bool:
        """True if the edge shows what the pass does. A full disk, or a state that was not reached again, does not."""
        # The edges of a nondeterministic pass are copies of one.
        is_accident = isinstance(self.target, Failure) and self.target.kind in ("infra", "unstable")
        return not is_accident or self.copied_from is not None


@dataclass(frozen=True)
class FailedEdge:
    """An edge that failed.

    Attributes:
        key: The edge that was tried, which may be another one than ``(state, step)``.
        state: State the pass was applied to.
        step: The pass.
        failure: The failure.
    """

    key: EdgeKey
    state: str
    step: PassSpec
    failure: Failure


class StateGraph:
    """The states reached so far, by identity. Several threads may add edges and query it."""

    def __init__(self, root: str) -> None:
        self.root = root
        # Two forms of the same edges: the dictionary has failures and passes without effect, which the graph leaves
        # out. A multigraph, because several passes may lead from one state to the same other state.
        self._edges: dict[EdgeKey, Edge] = {}
        self._graph = nx.MultiDiGraph()
        self._graph.add_node(root)
        self._forbidden: dict[PassSpec, Edge] = {}
        self._lock = Lock()

    @property
    def states(self) -> int:
        """Number of states."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the states in the order of their discovery, the root first."""
        with self._lock:
            nodes = list(self._graph)
            if not self._forbidden:
                return iter(nodes)
            reached = {self.root, *nx.descendants(self._graph, self.root)}
        return iter([state for state in nodes if state in reached])

    def edge(self, state: str, step: PassSpec) -> Edge | None:
        """Return the edge of a pass on a state, or ``None`` if it was not tried."""
        return self._forbidden.get(step) or self._edges.get((state, step))

    def forbid(self, step: PassSpec, failure: Failure) -> None:
        """Make a pass fail on every state from now on; states that only it reached no longer count."""
        with self._lock:
            self._forbidden[step] = Edge(failure, 0.0, copied_from=(self.root, step))
            obsolete = [(*ends, key) for *ends, key in self._graph.edges(keys=True) if key == str(step)]
            self._graph.remove_edges_from(obsolete)

    @property
    def has_forbidden(self) -> bool:
        """True if some pass is forbidden."""
        return bool(self._forbidden)

    def add(self, state: str, step: PassSpec, *, edge: Edge) -> None:
        """Add an edge."""
        with self._lock:
            self._edges[state, step] = edge
            if step not in self._forbidden and isinstance(edge.target, str) and edge.target != state:
                self._graph.add_edge(state, edge.target, key=str(step), step=step, seconds=edge.seconds)

    def tried_passes(self) -> frozenset[str]:
        """Return the names of the passes that were applied, failed ones included."""
        with self._lock:
            return frozenset(step.name for _, step in self._edges)

    def idle_passes(self) -> tuple[str, ...]:
        """Return the names of the passes that were applied and changed no state."""
        with self._lock:
            effects = [(step.name, edge.target != state) for (state, step), edge in self._edges.items() if edge.applied]
        effective = {name for name, changed in effects if changed}
        return tuple(dict.fromkeys(name for name, _ in effects if name not in effective))

    def failures(self, steps: Collection[PassSpec]) -> list[FailedEdge]:
        """Return the failures of these passes on the states they reach."""
        edges = [(state, step, self.edge(state, step)) for state in self.reached(steps) for step in steps]
        return [
            FailedEdge(edge.copied_from or (state, step), state, step, edge.target)
            for state, step, edge in edges
            if edge and isinstance(edge.target, Failure)
        ]

    def failed_edge(self, pipeline: Pipeline) -> EdgeKey:
        """Return the edge at which a pipeline fails; every edge before it must have been tried."""
        state = self.root
        for step in pipeline.passes:
            edge = self.edge(state, step)
            assert edge is not None
            if isinstance(edge.target, Failure):
                return edge.copied_from or (state, step)
            state = edge.target
        raise AssertionError(f"`{pipeline}` does not fail")

    def cheapest(self, state: str) -> tuple[Pipeline, float]:
        """Return the known pipeline that reaches a state in the least time, and that time in seconds.

        Passes that change nothing are loops and so are never part of it.
        """
        with self._lock:
            nodes = nx.dijkstra_path(self._graph, self.root, state, weight="seconds")
            edges = [self._fastest(*pair) for pair in pairwise(nodes)]
        return Pipeline(tuple(step for step, _ in edges)), sum(seconds for _, seconds in edges)

    def steps_to(self, state: str) -> list[EdgeKey]:
        """Return the edges of the cheapest pipeline to a state."""
        current, steps = self.root, []
        for step in self.cheapest(state)[0].passes:
            steps.append((current, step))
            current = str(self._edges[current, step].target)
        return steps

    def depths(self) -> dict[str, int]:
        """Return the fewest passes that reach each state."""
        with self._lock:
            return dict(nx.single_source_shortest_path_length(self._graph, self.root))

    def closed(self, steps: Collection[PassSpec]) -> bool:
        """Return whether each of these passes was tried on every state they reach, so that no state is missing."""
        edges = (self.edge(state, step) for state in self.reached(steps) for step in steps)
        return all(edge is not None and edge.settled for edge in edges)

    def first_untried(self, steps: Collection[PassSpec]) -> str | None:
        """Return the state nearest to the root on which one of these passes was not tried."""
        incomplete = (state for state in self.reached(steps) if any(self.edge(state, step) is None for step in steps))
        return next(incomplete, None)

    def reached(self, steps: Collection[PassSpec]) -> list[str]:
        """Return the states that these passes alone are known to reach, breadth first."""
        reached, queue = {self.root: None}, [self.root]
        for state in queue:  # the list grows meanwhile
            for step in steps:
                edge = self.edge(state, step)
                if edge is not None and isinstance(edge.target, str) and edge.target not in reached:
                    reached[edge.target] = None
                    queue.append(edge.target)
        return list(reached)

    def _fastest(self, source: str, target: str) -> tuple[PassSpec, float]:
        # Dijkstra's path is a list of states; the pass that it took between two of them must be found again.
        parallel = self._graph.get_edge_data(source, target).values()
        fastest = min(parallel, key=lambda edge: edge["seconds"])
        return fastest["step"], fastest["seconds"]
