"""Edges of the state graph as a log recorded them, for statistics over many runs."""

from collections.abc import Iterator
from dataclasses import dataclass

from passsearch.core import PassSpec, Pipeline
from passsearch.evaluate.state_graph import Edge
from passsearch.store import Log


@dataclass(frozen=True)
class RecordedEdge:
    """One application of a pass to an IR.

    Attributes:
        state: State the pass was applied to.
        step: The pass.
        edge: Its effect.
        written_s: Time at which it was recorded, on the clock of ``Log.clock_s``.
    """

    state: str
    step: PassSpec
    edge: Edge
    written_s: float

    @property
    def is_no_op(self) -> bool:
        """True if the pass left the IR unchanged."""
        return self.edge.target == self.state


def recorded_edges(log: Log) -> Iterator[RecordedEdge]:
    """Yield the edges of a log, in the order in which they were recorded.

    The log of a run (``log.jsonl`` in its folder) has the edges of this run. The fact cache of a network
    (``Session.cache_path``) has the edges of all runs on it, except failures that another run may not repeat.

    Args:
        log: The log; one that is not writable suffices.
    """
    for (kind, key), written_s in list(log.times.items()):
        if kind == "edge":
            state, _, step = key.partition("|")
            fact = log.recall(kind, key)
            assert fact is not None, "every fact has a time"
            yield RecordedEdge(state, Pipeline.parse(step).passes[0], Edge.from_fact(fact), written_s)
