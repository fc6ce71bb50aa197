"""Properties of passes, computed from the table of a state graph.

The graph may be closed or not, and the table may come from a running exploration or from a certificate's file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.evaluate.state_graph import Edge, StateGraph

# One table of numbers instead of objects: a space has tens of thousands of edges, and the questions below are array
# operations on it. States are numbers from 0 up, so everything that is no state is negative.
UNTRIED, FAILED = -1, -2
"""Entries of the table of edges that are no states; failure number n is ``FAILED - n``."""


@dataclass(frozen=True)
class Closure:
    """The states that a set of passes reaches, breadth first, and the edges between them.

    Attributes:
        states: Identities, the root first.
        steps: Passes with their arguments, as text.
        table: By state and step, the number of the state it leads to, ``UNTRIED``, or ``FAILED`` and below.
        seconds: By state and step, the time it took.
        failures: The failures that the numbers from ``FAILED`` down stand for.
    """

    states: tuple[str, ...]
    steps: tuple[str, ...]
    table: npt.NDArray[np.int32]
    seconds: npt.NDArray[np.float64]
    failures: tuple[Failure, ...] = ()

    @classmethod
    def of(cls, graph: StateGraph, steps: Sequence[PassSpec]) -> "Closure":
        """Return the part of a graph that these passes reach."""
        states = graph.reached(steps)
        numbers = {state: number for number, state in enumerate(states)}
        failures: dict[Failure, int] = {}
        table = np.full((len(states), len(steps)), UNTRIED, "int32")
        seconds = np.zeros(table.shape)
        for row, state in enumerate(states):
            for column, step in enumerate(steps):
                edge = graph.edge(state, step)
                # A fault of the machine is no property of the pass, so such an edge counts as untried.
                if edge is None or not edge.settled:
                    continue
                failed = isinstance(edge.target, Failure)
                table[row, column] = (
                    FAILED - failures.setdefault(edge.target, len(failures)) if failed else numbers[edge.target]  # type: ignore[arg-type, index]
                )
                seconds[row, column] = edge.seconds
        return cls(tuple(states), tuple(map(str, steps)), table, seconds, tuple(failures))

    def to_json(self) -> dict[str, Any]:
        """Return the form of certificates and of measured spaces."""
        return {
            "states": list(self.states),
            "steps": list(self.steps),
            "table": self.table.tolist(),
            "seconds": np.round(self.seconds, 3).tolist(),
            "failures": [failure.to_json() for failure in self.failures],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Closure":
        """Read what ``to_json`` returns.

        Raises:
            ValueError: The table has another size, or an edge leads to a state or a failure that is not there.
        """
        shape = (len(data["states"]), len(data["steps"]))
        table = np.array(data["table"], "int32").reshape(shape)
        if table.size and not FAILED - len(data["failures"]) < table.min() <= table.max() < len(data["states"]):
            raise ValueError("an edge leads to nothing")
        return cls(
            tuple(data["states"]),
            tuple(data["steps"]),
            table,
            np.array(data["seconds"], "float64").reshape(shape),
            tuple(Failure.from_json(failure) for failure in data["failures"]),
        )

    @property
    def closed(self) -> bool:
        """True if no edge is left to try."""
        return not bool((self.table == UNTRIED).any())

    @cached_property
    def changes(self) -> npt.NDArray[np.bool_]:
        """True for every edge, by state and step, that leads to another state."""
        own = np.arange(len(self.states))[:, None]
        changes: npt.NDArray[np.bool_] = (self.table >= 0) & (self.table != own)
        return changes

    @cached_property
    def passes(self) -> tuple[PassSpec, ...]:
        """The steps as pass specifications."""
        return tuple(Pipeline.parse(step).passes[0] for step in self.steps)

    @cached_property
    def graph(self) -> StateGraph:
        """This closure as a state graph, which computes depths and cheapest pipelines."""
        graph = StateGraph(self.states[0])
        for row, column in zip(*np.nonzero(self.table != UNTRIED), strict=True):
            target = int(self.table[row, column])
            outcome = self.states[target] if target >= 0 else self.failures[FAILED - target]
            graph.add(self.states[row], self.passes[column], edge=Edge(outcome, float(self.seconds[row, column])))
        return graph

    @property
    def depth(self) -> int:
        """The fewest passes that reach the state farthest from the root."""
        return max(self.graph.depths().values())

    def no_op_passes(self) -> list[str]:
        """Return passes that succeed on some state of this network and change none."""
        works: npt.NDArray[np.bool_] = np.any(self.table >= 0, axis=0)
        return [step for column, step in enumerate(self.steps) if works[column] and not self.changes[:, column].any()]

    def active(self) -> list[int]:
        """Return the numbers of the passes that change some state."""
        return [column for column in range(len(self.steps)) if self.changes[:, column].any()]

    def not_idempotent(self) -> dict[str, int]:
        """Return passes that change a state which they have just made, with the number of such states."""
        again = {}
        for column in self.active():
            after = self.table[self.changes[:, column], column]
            again[self.steps[column]] = int(self.changes[after, column].sum())
        return {step: count for step, count in again.items() if count}

    def commuting(self) -> tuple[list[tuple[str, str]], dict[tuple[str, str], tuple[int, int]]]:
        """Return pairs of active passes that lead to one state in both orders, and the other pairs with two counts.

        The first count is the number of states from which both orders lead to one state. The second count is the number
        of states from which they lead to two states, or from which only one of them succeeds.
        """
        commuting, others = [], {}
        for left, right in combinations(self.active(), 2):
            left_first, right_first = self._after(self.table[:, left], right), self._after(self.table[:, right], left)
            # Two failures say nothing about the order, so at least one of the two orders must succeed.
            succeeds = (left_first >= 0) | (right_first >= 0)
            comparable = (left_first != UNTRIED) & (right_first != UNTRIED) & succeeds
            equal = int((left_first[comparable] == right_first[comparable]).sum())
            pair = (self.steps[left], self.steps[right])
            if equal == comparable.sum() > 0:
                commuting.append(pair)
            elif comparable.any():
                others[pair] = (equal, int(comparable.sum()) - equal)
        return commuting, others

    def enabling(self) -> dict[tuple[str, str], int]:
        """Return pairs where the second pass acts only after the first, with the number of states where that is so."""
        return dict(self._influences(before=False, after=True))

    def disabling(self) -> dict[tuple[str, str], int]:
        """Return pairs where the second pass acts on a state but not after the first, with the number of states."""
        return dict(self._influences(before=True, after=False))

    def barriers(self) -> list[tuple[str, str]]:
        """Return pairs where the second pass never acts again once the first has acted, whatever comes between."""
        reach = self._reach()
        barriers = []
        for first, second in permutations(self.active(), 2):
            after = self.table[self.changes[:, first], first]
            if not self.changes[reach[after].any(axis=0), second].any():
                barriers.append((self.steps[first], self.steps[second]))
        return barriers

    def sequences(self, length: int) -> list[tuple[int, int]]:
        """Return, by length, the number of all sequences and of those whose every pass can be applied."""
        # Python's integers, because the counts outgrow those of numpy: 35 passes make 10^20 sequences of length 13.
        by_state = [0] * len(self.states)
        by_state[0], counts = 1, []
        for number in range(length + 1):
            counts.append((len(self.steps) ** number, sum(by_state)))
            following = [0] * len(self.states)
            for row, count in enumerate(by_state):
                for target in self.table[row] if count else ():
                    if target >= 0:
                        following[target] += count
            by_state = following
        return counts

    def reached(self, columns: Sequence[int]) -> list[int]:
        """Return the rows of the states that some of the steps reach, breadth first."""
        reached, rows = np.zeros(len(self.states), dtype=bool), [0]
        reached[0] = True
        for row in rows:  # the list grows meanwhile: it is also the queue of the breadth-first search
            targets = self.table[row, columns]
            for target in dict.fromkeys(targets[targets >= 0].tolist()):
                if not reached[target]:
                    reached[target] = True
                    rows.append(target)
        return rows

    def within(self, columns: Sequence[int]) -> "Closure":
        """Return the part that some of the steps reach."""
        rows = self.reached(columns)
        numbers = {row: number for number, row in enumerate(rows)}
        part = self.table[np.ix_(rows, columns)]
        renumbered = np.vectorize(lambda target: numbers[target] if target >= 0 else target, otypes=["int32"])(part)
        return Closure(
            tuple(self.states[row] for row in rows),
            tuple(self.steps[column] for column in columns),
            renumbered,
            self.seconds[np.ix_(rows, columns)],
            self.failures,
        )

    def untried(self, columns: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Return which edges are untried, of the part that some of the steps reach."""
        untried: npt.NDArray[np.bool_] = self.table[np.ix_(self.reached(columns), columns)] == UNTRIED
        return untried

    def closed_part(self) -> "Closure":
        """Return a large part that is closed: steps are removed one by one until no edge is left to try."""
        # Greedy, because there are 2^35 sets of 35 steps. The step to remove is the one without which the most states
        # are complete, and among equals the one without which the fewest edges are untried.

        def completeness_without(removed: int) -> tuple[int, int]:  # the smaller, the more complete
            untried = self.untried([column for column in columns if column != removed])
            return -int((~untried.any(axis=1)).sum()), int(untried.sum())

        columns = list(range(len(self.steps)))
        while self.untried(columns).any():
            columns.remove(min(columns, key=completeness_without))
        return self.within(columns)

    def _after(self, targets: npt.NDArray[np.int32], column: int) -> npt.NDArray[np.int32]:
        """Return the target of a pass from each of these states; entries that are no states stay as they are."""
        # `np.where` computes both sides, and a negative number would index the table from its end.
        return np.where(targets >= 0, self.table[np.maximum(targets, 0), column], targets)

    def _influences(self, *, before: bool, after: bool) -> Iterator[tuple[tuple[str, str], int]]:
        for first, second in permutations(self.active(), 2):
            rows = np.flatnonzero(self.changes[:, first])
            targets = self.table[rows, first]
            comparable = (self.table[rows, second] != UNTRIED) & (self.table[targets, second] != UNTRIED)
            hits = comparable & (self.changes[rows, second] == before) & (self.changes[targets, second] == after)
            if hits.any():
                yield (self.steps[first], self.steps[second]), int(hits.sum())

    def _reach(self) -> npt.NDArray[np.bool_]:
        """Return a matrix that is true where the row's state reaches the column's state; every state reaches itself."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(self.states)))
        graph.add_edges_from(
            (row, int(self.table[row, column])) for row, column in zip(*np.nonzero(self.changes), strict=True)
        )
        reach = np.eye(len(self.states), dtype=bool)
        for row in range(len(self.states)):
            reach[row, list(nx.descendants(graph, row))] = True
        return reach
