"""The known states of a graph as a space of two keys: the number of a state, and the opt level of its build."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from passsearch.core import BuildOptions, Candidate, Failure, PassSpec, Pipeline
from passsearch.evaluate import StateGraph
from passsearch.search.space import BUILDS, Keys, build_at, levels

STATE, LEVEL = "state", "build:opt_level"


class GraphSpace:
    """Grows with its graph: states keep their numbers, and new states get the next ones.

    Attributes:
        find_states: Adds states to the graph; returns why none is left to measure, an empty text while there is one.
    """

    def __init__(
        self,
        graph: StateGraph,
        reach: Callable[[Pipeline], str | Failure],
        *,
        op_counts: Callable[[str], Mapping[str, int]],
        steps: Collection[PassSpec] = (),
        builds: tuple[BuildOptions, ...] = BUILDS,
        find_states: Callable[[], str] = lambda: "",
    ) -> None:
        """Number the states known so far.

        Args:
            graph: The graph.
            reach: Returns the state a pipeline leads to.
            op_counts: Returns the operator counts of a state.
            steps: Passes whose states come first, breadth first, so that numbers do not depend on the order in which
                states were discovered; all other states follow by identity.
            builds: Builds after a state, each named by its opt level.
            find_states: Adds states to the graph; see ``Strategy.prepare``.
        """
        self.find_states = find_states
        self._graph, self._reach, self._op_counts, self._builds = graph, reach, op_counts, builds
        # A resumed run finds states in another order, and its sampler must draw the same numbers for the same states.
        first = graph.reached(steps)
        self._states = [*first, *sorted(set(graph) - set(first))]
        self._numbers = {state: number for number, state in enumerate(self._states)}

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return the keys that an Optuna sampler chooses."""
        for state in self._graph:
            if state not in self._numbers:
                self._numbers[state] = len(self._states)
                self._states.append(state)
        return {STATE: IntDistribution(0, len(self._states) - 1), LEVEL: CategoricalDistribution(levels(self._builds))}

    def decode(self, keys: Mapping[str, Any]) -> Candidate:
        """Return the cheapest known pipeline to a state, built at a level."""
        pipeline, _ = self._graph.cheapest(self._states[keys[STATE]])
        return Candidate(pipeline, build_at(keys[LEVEL], self._builds))

    def encode(self, candidate: Candidate) -> Keys | None:
        """Return the keys of the state a candidate leads to; ``None`` if it fails or is built with other options."""
        state = self._reach(candidate.pipeline)
        self.distributions()  # gives numbers to the states that `reach` has just found
        if isinstance(state, Failure) or candidate.build not in self._builds:
            return None
        return {STATE: self._numbers[state], LEVEL: candidate.build.opt_level}

    def op_counts(self, number: int) -> Mapping[str, int]:
        """Return the operator counts of a state by its number."""
        return self._op_counts(self._states[number])
