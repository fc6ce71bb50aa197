"""The states that a search measures next: neighbours and variants of the best candidates, then all others."""

from collections.abc import Callable, Iterator, Sequence

from passsearch.core import Pipeline
from passsearch.evaluate import Evaluator, Explorer
from passsearch.search.evaluation import Evaluation
from passsearch.search.records import Scored
from passsearch.search.space import Space
from passsearch.search.variants import variants

# The space never closes with some passes (`Space.unbounded`), so they are applied where they may help most.
EXPANDED_STATES = 5
"""Number of best states to which all passes are applied, where the space is not closed."""


class NextStates:
    """Applies passes until a state is known that is not measured yet."""

    def __init__(
        self,
        evaluator: Evaluator,
        space: Space,
        *,
        evaluation: Evaluation,
        explorer: Explorer | None,
        seed: int,
        is_over: Callable[[], bool],
    ) -> None:
        """Prepare to look for states.

        Args:
            evaluator: Knows the graph of states.
            space: The passes to apply, and the builds after a state.
            evaluation: Knows which states are measured, and the best candidates.
            explorer: Applies passes to states; without one, no state is looked for beyond those that candidates reach.
            seed: Seed of the order of variants.
            is_over: Returns whether the search has to end.
        """
        self._evaluator, self._space, self._evaluation, self._explorer = evaluator, space, evaluation, explorer
        self._seed, self._is_over = seed, is_over
        self._variants: dict[str, Iterator[Pipeline]] = {}  # not tried yet, by the pipeline they are variants of

    def find(self) -> str:
        """Look for states, and return why none is left to measure; an empty text while there is one."""
        self._expand_best()
        self._reach_variants()
        if self._has_unmeasured():
            return ""
        closed = self._evaluator.graph.closed(self._space.steps)
        space = "the space is closed and every state of it" if closed else "every state that was reached"
        return f"{space} is measured"

    def _best(self) -> Sequence[Scored]:
        """Return the candidates near which states are looked for, baselines and named sequences included."""
        return self._evaluation.ranked()[:EXPANDED_STATES] if self._explorer else ()

    def _expand_best(self) -> None:
        """Find the neighbours of the best states; recorded ones are free."""
        # Before every proposal, so that the sampler decides by what it measures which part of the space is explored.
        for scored in self._best():
            state = self._evaluator.reach(scored.candidate.pipeline)
            if isinstance(state, str) and not self._is_over() and self._explorer:
                self._explorer.expand(state, self._space.steps)

    def _reach_variants(self) -> None:
        """Apply variants of the best pipelines until one of them leads to a state that is not measured."""
        # Exploration begins at the imported network. Where a good state is a dozen passes away, the states it explores
        # in minutes are all far from it: of the first 43 of a ResNet-18, none had scheduled kernels.
        for scored in self._best():
            pipeline = scored.candidate.pipeline
            if str(pipeline) not in self._variants:
                self._variants[str(pipeline)] = variants(
                    pipeline, self._space.steps, catalog=self._space.catalog, seed=self._seed
                )
            for variant in self._variants[str(pipeline)]:
                if self._is_over():
                    return
                state = self._evaluator.reach(variant)
                if isinstance(state, str) and not self._is_measured(state):
                    return

    def _is_measured(self, state: str) -> bool:
        """Return whether a state was evaluated with every build."""
        return self._evaluation.is_measured(state, self._space.builds)

    def _has_unmeasured(self) -> bool:
        """Return whether a state is left to measure; where none is known, passes are applied until there is one."""
        graph = self._evaluator.graph
        while all(self._is_measured(state) for state in graph):
            incomplete = graph.first_untried(self._space.steps) if self._explorer else None
            if incomplete is None or self._explorer is None:
                return False
            if self._is_over():
                break
            self._explorer.expand(incomplete, self._space.steps)
        return True
