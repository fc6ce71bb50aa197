"""The known states of a graph as a space of two keys: the number of a state, and the level of the build after it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from passsearch.core import BuildOptions, Candidate, Failure, PassSpec, Pipeline
from passsearch.evaluate.state_graph import StateGraph
from passsearch.search.space import BUILDS, Keys, build_at, levels

STATE, LEVEL = "state", "build:opt_level"


class GraphSpace:
    """Grows with its graph: states keep their numbers, new ones get the next."""

    def __init__(
        self,
        graph: StateGraph,
        reach: Callable[[Pipeline], str | Failure],
        *,
        census: Callable[[str], Mapping[str, int]],
        steps: Collection[PassSpec] = (),
        builds: tuple[BuildOptions, ...] = BUILDS,
    ) -> None:
        """Number the states known so far.

        Args:
            graph: The states.
            reach: The state a pipeline leads to.
            census: What a state consists of, counted.
            steps: What they reach comes first, breadth first, in whatever order it was found; all else by identity.
            builds: What is built after a state, each by its level.
        """
        self._graph, self._reach, self._census, self._builds = graph, reach, census, builds
        first = graph.reached(steps)
        self._states = [*first, *sorted(set(graph) - set(first))]
        self._numbers = {state: number for number, state in enumerate(self._states)}

    def distributions(self) -> dict[str, BaseDistribution]:
        """The keys an Optuna sampler chooses."""
        for state in self._graph:
            if state not in self._numbers:
                self._numbers[state] = len(self._states)
                self._states.append(state)
        return {STATE: IntDistribution(0, len(self._states) - 1), LEVEL: CategoricalDistribution(levels(self._builds))}

    def decode(self, keys: Mapping[str, Any]) -> Candidate:
        """The cheapest known pipeline to that state, built at that level."""
        pipeline, _ = self._graph.cheapest(self._states[keys[STATE]])
        return Candidate(pipeline, build_at(keys[LEVEL], self._builds))

    def encode(self, candidate: Candidate) -> Keys | None:
        """Keys of the state a candidate leads to; ``None`` if it fails or is built in another way."""
        state = self._reach(candidate.pipeline)
        self.distributions()
        if isinstance(state, Failure) or candidate.build not in self._builds:
            return None
        return {STATE: self._numbers[state], LEVEL: candidate.build.opt_level}

    def census(self, number: int) -> Mapping[str, int]:
        """What a state consists of, counted."""
        return self._census(self._states[number])
