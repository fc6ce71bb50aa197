"""Passes applied to one network: the state graph, what is known of it, and the processes that find out more."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from passsearch.core import Candidate, Failure, PassSpec, Pipeline
from passsearch.dialects.contract import SCALES
from passsearch.errors import UserError, WorkerDied
from passsearch.evaluate.compiler import Compiler
from passsearch.evaluate.pool import Workers
from passsearch.evaluate.state_graph import Edge, StateGraph
from passsearch.measure import Meter
from passsearch.store import STATES, Fact, Log
from passsearch.worker import Worker

OUTPUT_CASES: tuple[int | str, ...] = (1, 2, 3, *SCALES)
"""Seeds of random inputs, and edge inputs."""

DEADLY = 2
"""Times a pass may kill or hang its process before it is left alone; each costs a restart or a whole deadline."""

REMEMBERED = frozenset({"load", "edge", "steady", "census", "hash", "build", "samples", "exploring"})
"""Kinds of facts that hold for later runs too. What confirms a winner is never among them."""

LASTING = frozenset({None, "compile_error", "crash", "wrong_result"})
"""Kinds of failures that hold for later runs too; a full disk or a busy machine does not."""


@dataclass(frozen=True)
class Subject:
    """What is compiled, by what, for what; the same for all candidates of a run.

    Attributes:
        source: Model file as the worker's ``load`` takes it.
        factories: ``module:function`` of every pass of the catalog, by name.
        phases: In which an IR must be for a pass to be applied, by pass; any for those not named.
        start: Starts a worker of the toolchain with so many kernel threads.
        device: Where kernels run.
        threads: Kernel threads while timing.
        approximates: Whether a candidate has a pass that may change numerics.
        tolerance: Largest deviation of outputs from the reference, as a share of the largest output, of candidates that
            approximate; ``None`` judges them as strictly as all others.
        deadline_s: How long one request may take.
        output_cases: Inputs on which outputs are compared with the reference.
        meter: Of the device; ``None`` where it has none.
        lock: File that is locked while kernels run on the device, so that searches take turns; ``None`` without.
        idle: Why nothing that is compiled can run here; empty where it can. Then outputs are not compared and nothing
            is timed: all that is known of a candidate is how long it takes to compile.
    """

    source: Mapping[str, Any]
    factories: Mapping[str, str]
    start: Callable[[int], Worker]
    device: str
    threads: int
    approximates: Callable[[Candidate], bool]
    tolerance: float | None
    deadline_s: float
    output_cases: tuple[int | str, ...] = OUTPUT_CASES
    meter: Meter | None = None
    lock: Path | None = None
    idle: str = ""
    phases: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Applier:
    """Applies passes, every one to every state once; what the log or the memory knows is not done again."""

    def __init__(self, subject: Subject, *, log: Log, artifacts: Path, memory: Log | None = None) -> None:
        """Import the network, or recall that it was.

        Args:
            subject: What is compiled by what.
            log: Of this run.
            artifacts: Folder for what is built.
            memory: What earlier runs found out about the same network, compiler and device.
        """
        self.subject = subject
        self._log, self._memory = log, memory
        self._artifacts = artifacts
        self._census: dict[str, Mapping[str, int]] = {}
        self._steady: dict[PassSpec, bool] = {}
        self._deadly: dict[PassSpec, list[Edge]] = {}
        self._workers = Workers(
            subject.start, threads=subject.threads, deadline_s=subject.deadline_s, lock=subject.lock
        )
        self.seconds = self._workers.seconds
        self.seconds |= log.latest.get("spent", {})
        self._compiler = self._compiling(self._workers)
        loaded = self._known("load", "") or self._record("load", "", fact=self._load())
        self.inputs: Mapping[str, Any] = loaded["inputs"]
        self.summary: Mapping[str, Any] = loaded["summary"]
        self.graph = StateGraph(loaded["state"])

    @property
    def batch(self) -> int:
        """First dimension of the first input."""
        shape: list[Any] = next((shape for shape, _ in self.inputs.values()), [])
        return int(shape[0] or 1) if shape else 1

    @property
    def remembers(self) -> bool:
        """Whether what it finds out is kept for later runs; not while another run on the same network does so."""
        return self._memory is not None and self._memory.writable

    def close(self) -> None:
        """End its processes and drop the states they shared."""
        self._workers.close()
        shutil.rmtree(self._artifacts / STATES, ignore_errors=True)

    @contextmanager
    def compilers(self, number: int) -> Iterator[list[Compiler]]:
        """So many compilers that work side by side and share their states; the first is the one that builds.

        Only its time counts: the others work while it does.
        """
        others = [Workers(self.subject.start, threads=1, deadline_s=self.subject.deadline_s) for _ in range(number - 1)]
        with ExitStack() as stack:
            for each in others:
                stack.callback(each.close)
            yield [self._compiler, *map(self._compiling, others)]

    def _compiling(self, workers: Workers) -> Compiler:
        return Compiler(
            workers,
            lambda: self.graph,
            source=self.subject.source,
            factories=self.subject.factories,
            phases=self.subject.phases,
            deadline_s=self.subject.deadline_s,
        )

    def path(self, pipeline: Pipeline, *, identify: bool = False) -> list[Edge]:
        """What every pass of a pipeline did, step by step over the graph, up to the first that failed.

        Where a pass is applied for it, ``identify`` spares no identity even if nothing has changed.
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
        """The state a pipeline leads to."""
        edges = self.path(pipeline)
        return edges[-1].target if edges else self.graph.root

    def states(self, pipeline: Pipeline) -> list[str]:
        """The root and the state after every pass, up to the first that failed."""
        targets = [edge.target for edge in self.path(pipeline)]
        return [self.graph.root, *(target for target in targets if isinstance(target, str))]

    def apply_seconds(self, pipeline: Pipeline) -> float:
        """Time to apply exactly this pipeline, whatever cheaper way to the same state is known."""
        return sum(edge.seconds for edge in self.path(pipeline))

    def hashes(self, pipeline: Pipeline) -> list[str]:
        """The compiler's own hash of the root and of the state after every pass, up to the first that failed."""
        told = []
        for state in self.states(pipeline):
            fact = self._known("hash", state)
            if fact is None:
                fact = self._record("hash", state, fact=self._compiler.ask("apply", "hash", state=state))
            if "failure" in fact:
                break
            told.append(fact["hash"])
        return told

    def census(self, state: str) -> Mapping[str, int]:
        """What a state consists of, counted; empty if it cannot be told."""
        if state in self._census:
            return self._census[state]
        fact = self._known("census", state)
        if fact is None:
            fact = self._record("census", state, fact=self._compiler.ask("apply", "census", state=state))
        counts: Mapping[str, int] = fact.get("counts", {})
        return counts

    def save(self, state: str, path: Path) -> bool:
        """Write a state's IR with its constants; whether that went well."""
        return "failure" not in self._compiler.ask("build", "save", state=state, path=str(path))

    def expand(self, state: str, steps: Sequence[PassSpec]) -> None:
        """Apply every one of these passes to a state."""
        for step in steps:
            self._edge(state, step)

    @property
    def explored(self) -> bool:
        """Whether this run has had its time for exploring: one that goes on does not explore further."""
        return self._log.recall("explored", "") is not None

    def explored_s(self, steps: Sequence[PassSpec]) -> float:
        """How long this and earlier runs have explored these passes."""
        fact = self._known("exploring", ",".join(map(str, steps)))
        return float(fact["seconds"]) if fact else 0.0

    def note_explored(self, steps: Sequence[PassSpec], *, seconds: float) -> None:
        """It has, and so long did it take."""
        total = self.explored_s(steps) + seconds
        self._record("exploring", ",".join(map(str, steps)), fact={"seconds": total})
        self._record("explored", "", fact={})

    def known(self, state: str, step: PassSpec) -> Edge | None:
        """What one pass does to one state, if that was ever tried or is not to be tried again."""
        if self.forbidden(step) or self.graph.edge(state, step) is not None:
            return self.graph.edge(state, step)
        fact = self._known("edge", f"{state}|{step}")
        if fact is not None:
            return self._learn(state, step, fact=fact)
        edge = self._given_up(step)
        if edge is not None:
            self.graph.add(state, step, edge=edge)
        return edge

    def known_when_explored(self, state: str, step: PassSpec) -> Edge | None:
        """The same, but only what was known when this run had explored.

        A run that goes on must find the space its sampler drew from, without what it and other runs have found since.
        """
        times = self._log.times
        early = times.get(("edge", f"{state}|{step}"), inf) <= times["explored", ""]
        return self.known(state, step) if early else None

    def learn(self, state: str, step: PassSpec, *, fact: Fact) -> Edge:
        """Take in what one pass did to one state, as ``Compiler.apply`` answers it."""
        return self._learn(state, step, fact=self._record("edge", f"{state}|{step}", fact=fact))

    def forbid(self, step: PassSpec, reason: str) -> None:
        """From now on a pass leads nowhere: what it does is not the same every time."""
        failure = Failure("unstable", "apply", step.name, reason)
        self._record("steady", str(step), fact={"failure": failure.to_json()})
        self._steady[step] = False
        self.graph.forbid(step, failure)

    def forbidden(self, step: PassSpec) -> bool:
        """Whether a pass was found unsteady, by this run or by an earlier one."""
        if step not in self._steady:
            fact = self._known("steady", str(step))
            self._steady[step] = fact is None
            if fact is not None:
                self.graph.forbid(step, Failure.from_json(fact["failure"]))
        return not self._steady[step]

    def _edge(self, state: str, step: PassSpec, *, identify: bool = False) -> Edge:
        known = self.known(state, step)
        return known or self.learn(state, step, fact=self._compiler.apply(state, step, identify=identify))

    def _learn(self, state: str, step: PassSpec, *, fact: Fact) -> Edge:
        target = Failure.from_json(fact["failure"]) if "failure" in fact else fact["state"]
        edge = Edge(target, fact["seconds"])
        self.graph.add(state, step, edge=edge)
        if "census" in fact:
            self._census[fact["state"]] = fact["census"]
        if isinstance(target, Failure) and target.kind in ("crash", "timeout", "oom"):
            self._deadly.setdefault(step, []).append(edge)
        return edge

    def _given_up(self, step: PassSpec) -> Edge | None:
        """The last failure of a pass that has killed or hung its process ``DEADLY`` times: it is not asked again."""
        edges = self._deadly.get(step, [])
        return edges[-1] if len(edges) >= DEADLY else None

    def _load(self) -> Fact:
        """Import the network; what cannot be imported is the caller's to mend and leaves nothing behind."""
        path = self.subject.source["path"]
        with ExitStack() as undo:
            undo.callback(self.close)
            try:
                answer = self._compiler.load(summary=True)
            except WorkerDied as error:
                raise UserError(f"The compiler died importing `{path}`: {error}.") from error
            if "error" in answer:
                raise UserError(f"Cannot import `{path}`: {answer['error']['reason']}.")
            undo.pop_all()
        return answer

    def _known(self, kind: str, key: str) -> Fact | None:
        """What the log has, unless it was given up under a shorter deadline than today's."""
        fact = self._log.recall(kind, key)
        if fact is None and self._memory is not None and kind in REMEMBERED:
            fact = self._memory.recall(kind, key)
            fact = fact and self._log.record(kind, key, fact={**fact, "spent": self._spent}, durable=False)
        if fact is None or fact.get("failure", {}).get("kind") != "timeout":
            return fact
        return fact if fact.get("deadline_s", 0.0) >= self.subject.deadline_s else None

    def _record(self, kind: str, key: str, *, fact: Fact) -> Fact:
        fact = {**fact, "deadline_s": self.subject.deadline_s}
        lasting = kind == "steady" or fact.get("failure", {}).get("kind") in LASTING
        kept = False
        if self._memory is not None and kind in REMEMBERED and lasting:
            self._memory.record(kind, key, fact=fact)
            kept = self._memory.writable
        return self._log.record(kind, key, fact={**fact, "spent": self._spent}, durable=not kept)

    @property
    def _spent(self) -> dict[str, float]:
        return {stage: round(seconds, 3) for stage, seconds in self.seconds.items()}
