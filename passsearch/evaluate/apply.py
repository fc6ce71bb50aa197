"""Passes applied to one network: the state graph, grown by compiler processes and by recorded facts."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.evaluate.compiler import Compiler
from passsearch.evaluate.facts import FactStore, read_fact
from passsearch.evaluate.state_graph import Edge, EdgeKey
from passsearch.store import Fact

# One crash may be an accident of the machine. A third would only cost another restart of the compiler, or a deadline.
MOST_CRASHES = 2
"""Number of times a pass may crash or hang its process before it is given up."""

_log = logging.getLogger(__name__)


class Applier:
    """Applies every pass to every state at most once. Implements the protocol ``Explorer``.

    Attributes:
        graph: The states reached so far.
        compiler: The compiler that also builds.
    """

    def __init__(self, compiler: Compiler, facts: FactStore) -> None:
        """Start with the imported network.

        Args:
            compiler: The compiler that also builds.
            facts: The facts of this run.
        """
        self.compiler, self.graph, self._facts = compiler, compiler.graph, facts
        self._op_counts: dict[str, Mapping[str, int]] = {}
        self._deterministic: dict[PassSpec, bool] = {}
        self._crashes: dict[PassSpec, list[tuple[EdgeKey, Edge]]] = {}

    @contextmanager
    def compilers(self, number: int) -> Iterator[list[Compiler]]:
        """Open several compilers that work side by side and share their states; the first is the one that builds."""
        # A sibling counts its time in a pool of its own, which nobody reads: it works while the first compiler works,
        # and the stages of a run must not add up to more than its wall time.
        with ExitStack() as stack:
            yield [self.compiler, *(stack.enter_context(self.compiler.sibling()) for _ in range(number - 1))]

    def path(self, pipeline: Pipeline, *, identify: bool = False) -> list[Edge]:
        """Return the edges of a pipeline, up to the first that failed; passes that were never tried are applied.

        ``identify`` forces hashing even when a pass changed nothing.
        """
        edges: list[Edge] = []
        state = self.graph.root
        for step in pipeline.passes:
            edges.append(self._edge(state, step, identify=identify))
            if isinstance(edges[-1].target, Failure):
                break
            state = edges[-1].target
        return edges

    def reach(self, pipeline: Pipeline) -> str | Failure:
        """Return the state a pipeline leads to."""
        edges = self.path(pipeline)
        return edges[-1].target if edges else self.graph.root

    def states(self, pipeline: Pipeline) -> list[str]:
        """Return the root and the state after every pass, up to the first that failed."""
        targets = [edge.target for edge in self.path(pipeline)]
        return [self.graph.root, *(target for target in targets if isinstance(target, str))]

    def apply_seconds(self, pipeline: Pipeline) -> float | Failure:
        """Return the time that this run takes to apply exactly this pipeline, or why it cannot be applied."""
        state, seconds = self.graph.root, 0.0
        for step in pipeline.passes:
            edge = self._edge(state, step)
            if isinstance(edge.target, Failure):
                return edge.target
            own_s = self._own_seconds(state, step, edge)
            if isinstance(own_s, Failure):
                return own_s
            state, seconds = edge.target, seconds + own_s
        return seconds

    def _own_seconds(self, state: str, step: PassSpec, edge: Edge) -> float | Failure:
        """Return how long this run takes for an edge: one that an earlier run found is applied once more."""
        key = f"{state}|{step}"
        if not edge.is_recalled:
            return edge.seconds
        # Of another kind than the edge itself, whose time in the log says which edges the sampler knew.
        fact = self._facts.recall_or_record("applied", key, lambda: self.compiler.apply(state, step))
        if "failure" in fact:
            return Failure.from_json(fact["failure"])
        if fact["state"] != edge.target:
            return Failure("unstable", "apply", step.name, "the pass leads to another IR than in an earlier run")
        return float(fact["seconds"])

    def known_state(self, pipeline: Pipeline) -> str | None:
        """Return the state that recorded edges say a pipeline leads to; ``None`` if they do not say. Apply nothing."""
        state = self.graph.root
        for step in pipeline.passes:
            edge = self.cached_edge(state, step)
            if edge is None or isinstance(edge.target, Failure):
                return None
            state = edge.target
        return state

    def hashes(self, pipeline: Pipeline) -> list[str]:
        """Return the compiler's own hash of the root and of the state after every pass, up to the first failure."""
        hashes = []
        for state in self.states(pipeline):
            found = self.hash(state)
            if isinstance(found, Failure):
                break
            hashes.append(found)
        return hashes

    def hash(self, state: str) -> str | Failure:
        """Return the compiler's own hash of a state."""
        return read_fact(self._state_fact("hash", "hash", state), lambda fact: str(fact["hash"]))

    def op_counts(self, state: str) -> Mapping[str, int]:
        """Return the counts of operators, fused groups and constants of a state; empty if they are unavailable."""
        if state not in self._op_counts:
            # The kind, the verb and the key `census` are in recorded logs, so they keep their name.
            self._op_counts[state] = self._state_fact("census", "census", state).get("counts", {})
        return self._op_counts[state]

    def _state_fact(self, kind: str, verb: str, state: str) -> Fact:
        return self._facts.recall_or_record(kind, state, lambda: self.compiler.ask("apply", verb, state=state))

    def text(self, state: str) -> str | Failure:
        """Return a state as the compiler prints it."""
        answer = self.compiler.ask("apply", "text", state=state)
        return Failure.from_json(answer["failure"]) if "failure" in answer else str(answer["text"])

    def save(self, state: str, path: Path) -> Failure | None:
        """Write a state's IR with its constants; return why that failed."""
        return read_fact(self.compiler.ask("build", "save", state=state, path=str(path)), lambda fact: None)

    def expand(self, state: str, steps: Sequence[PassSpec]) -> None:
        """Apply every one of these passes to a state, where that is not recorded."""
        for step in steps:
            self._edge(state, step)

    @property
    def explored(self) -> bool:
        """True if this run has spent its time for exploration; a resumed run does not explore further."""
        return self._facts.recall("explored", "") is not None

    def explored_s(self, steps: Sequence[PassSpec]) -> float:
        """Return how long this and earlier runs have explored these passes, in seconds."""
        fact = self._facts.recall("exploring", ",".join(map(str, steps)))
        return float(fact["seconds"]) if fact else 0.0

    def record_exploration(self, steps: Sequence[PassSpec], *, seconds: float) -> None:
        """Record exploration time."""
        total = self.explored_s(steps) + seconds
        # `exploring` is shared by all runs on the network: they have one time limit together. `explored` is a fact of
        # this run alone, and the time at which it is written divides the edges known before sampling from later ones.
        self._facts.record("exploring", ",".join(map(str, steps)), fact={"seconds": total})
        self._facts.record("explored", "", fact={})

    def cached_edge(self, state: str, step: PassSpec) -> Edge | None:
        """Return the edge of a pass on a state if it is recorded or known to fail; apply nothing."""
        if self.is_forbidden(step) or self.graph.edge(state, step) is not None:
            return self.graph.edge(state, step)
        fact = self._facts.recall("edge", f"{state}|{step}")
        if fact is not None:
            return self._add_edge(state, step, fact=fact)
        edge = self._given_up(step)
        if edge is not None:
            # In the graph but not in the log, because the edge itself was never tried.
            self.graph.add(state, step, edge=edge)
        return edge

    def cached_edge_before_sampling(self, state: str, step: PassSpec) -> Edge | None:
        """Return a cached edge only if this run had it when its sampler started."""
        # A sampler draws the same proposals only from the same space. Edges that this run or another one found since
        # would change that space, and a resumed run would leave the path that its log records.
        early = self._facts.precedes_sampling("edge", f"{state}|{step}")
        return self.cached_edge(state, step) if early else None

    def record_edge(self, state: str, step: PassSpec, *, fact: Fact) -> Edge:
        """Record the answer of ``Compiler.apply`` and add its edge to the graph."""
        return self._add_edge(state, step, fact=self._facts.record("edge", f"{state}|{step}", fact=fact))

    def forbid(self, step: PassSpec, reason: str) -> None:
        """Record that a pass is nondeterministic, for this reason; from now on it fails on every state."""
        _log.info("pass %s is nondeterministic: %s", step, reason)
        failure = Failure("unstable", "apply", step.name, reason)
        # Recorded logs have the kind `steady` for this fact.
        self._facts.record("steady", str(step), fact={"failure": failure.to_json()})
        self._deterministic[step] = False
        self.graph.forbid(step, failure)

    def is_forbidden(self, step: PassSpec) -> bool:
        """Return whether a pass was found to be nondeterministic, by this run or an earlier one."""
        if step not in self._deterministic:
            fact = self._facts.recall("steady", str(step))
            self._deterministic[step] = fact is None
            if fact is not None:
                self.graph.forbid(step, Failure.from_json(fact["failure"]))
        return not self._deterministic[step]

    def _edge(self, state: str, step: PassSpec, *, identify: bool = False) -> Edge:
        edge = self.cached_edge(state, step)
        return edge or self.record_edge(state, step, fact=self.compiler.apply(state, step, identify=identify))

    def _add_edge(self, state: str, step: PassSpec, *, fact: Fact) -> Edge:
        edge = Edge.from_fact(fact)
        self.graph.add(state, step, edge=edge)
        if "census" in fact:  # the worker counts a new state at once, which saves a request when the sampler needs it
            self._op_counts[fact["state"]] = fact["census"]
        if isinstance(edge.target, Failure) and edge.target.kind in ("crash", "timeout", "oom"):
            self._crashes.setdefault(step, []).append(((state, step), edge))
        return edge

    def _given_up(self, step: PassSpec) -> Edge | None:
        """Return the last failure of a pass that crashed or hung ``MOST_CRASHES`` times: it is not tried again."""
        crashes = self._crashes.get(step, [])
        if len(crashes) < MOST_CRASHES:
            return None
        _log.debug("pass %s is given up after %d crashes or timeouts", step, len(crashes))
        key, edge = crashes[-1]
        return Edge(edge.target, edge.seconds, copied_from=key)
