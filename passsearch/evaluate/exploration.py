"""Breadth-first closure of a state graph under a set of passes, by several compilers side by side.

When no edge is left to try, every sequence of these passes, of any length and with any repetition, leads to a known
state (Kulkarni, Whalley, Tyson and Davidson, Practical exhaustive optimization phase order exploration and evaluation,
ACM TACO 6(1), 2009).
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Condition
from time import monotonic
from typing import TypeAlias

from passsearch.core import Failure, PassSpec
from passsearch.evaluate.apply import Applier
from passsearch.evaluate.compiler import Compiler
from passsearch.evaluate.state_graph import Edge
from passsearch.store import Fact

REPETITIONS = 3
"""Changes a pass must make twice alike, each in two processes where there are two, before it is taken to be steady."""

IDLE_STATES = 20
"""States a pass may change nothing on before its other edges wait until those of busier passes are done: an exploration
that has to end early has then come further under these."""

_Answer: TypeAlias = tuple[Fact, Compiler]
_Running: TypeAlias = dict[Future[_Answer], tuple[str, PassSpec, Fact | None]]


@dataclass(frozen=True)
class Limits:
    """Where to stop; ``None`` is no limit.

    Attributes:
        depth: Passes in a sequence.
        states: Different IRs.
        seconds: Wall time.
    """

    depth: int | None = None
    states: int | None = None
    seconds: float | None = None


@dataclass
class Growth:
    """What an exploration did.

    Attributes:
        ended: ``closed``, or the limit that ended it.
        tried: Passes it applied, repetitions included; what was known before is not among them.
        seconds: Wall time.
        curve: Seconds, states whose edges are all known, and all states, whenever one of the two has grown.
        by_step: States first reached by each pass.
        unsteady: Passes that led to another IR when they were repeated; their edges lead nowhere.
    """

    ended: str = ""
    tried: int = 0
    seconds: float = 0.0
    curve: list[tuple[float, int, int]] = field(default_factory=list)
    by_step: dict[str, int] = field(default_factory=dict)
    unsteady: list[str] = field(default_factory=list)


class _Free:
    """The compilers that have nothing to do."""

    def __init__(self, compilers: Sequence[Compiler]) -> None:
        self._free, self._others = list(compilers), len(compilers) > 1
        self._changed = Condition()

    def take(self, other_than: Compiler | None) -> Compiler:
        """Wait for one; where there are several, for one that is not this."""
        unwanted = other_than if self._others else None
        with self._changed:
            self._changed.wait_for(lambda: any(each is not unwanted for each in self._free))
            chosen = next(each for each in self._free if each is not unwanted)
            self._free.remove(chosen)
        return chosen

    def give_back(self, compiler: Compiler) -> None:
        """It is free again."""
        with self._changed:
            self._free.append(compiler)
            self._changed.notify_all()


class Exploration:
    """One closure. ``run`` may be interrupted: what was tried is in the graph and in the log."""

    def __init__(
        self,
        applier: Applier,
        steps: Sequence[PassSpec],
        *,
        limits: Limits,
        compilers: int,
        progress: Callable[[int, int], None],
        known: Callable[[str, PassSpec], Edge | None] | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            applier: Whose graph is closed.
            steps: Every pass with every choice of arguments.
            limits: Where to stop.
            compilers: Processes that apply passes.
            progress: Told the states whose edges are all known, and all states.
            known: What is known of one pass on one state before it is applied; what the applier knows by default.
        """
        self.growth = Growth()
        self._applier, self._steps, self._limits = applier, list(steps), limits
        self._compilers, self._progress, self._known = compilers, progress, known or applier.known
        self._depths = {applier.graph.root: 0}
        self._left: dict[str, int] = {}
        self._frontier: deque[tuple[str, PassSpec]] = deque()
        self._waiting: deque[tuple[str, PassSpec]] = deque()  # edges of passes that seem idle
        self._barren: dict[PassSpec, int] = dict.fromkeys(self._steps, 0)  # edges that led to no other state
        self._busy: set[PassSpec] = set()
        self._whole = 0  # states whose edges are all known
        self._unknown: list[tuple[str, PassSpec]] = []  # edges left when a limit was met
        self._alike: dict[PassSpec, int] = {}

    def run(self) -> Growth:
        """Explore until there is nothing left or a limit is met."""
        begin = monotonic()
        self._recall()
        self._open(self._applier.graph.root)
        try:
            with (
                self._applier.compilers(self._compilers) as compilers,
                ThreadPoolExecutor(self._compilers) as pool,
            ):
                try:
                    self._work(compilers, pool, begin=begin)
                finally:
                    pool.shutdown(wait=False, cancel_futures=True)  # after Ctrl-C nothing new starts
        finally:
            self.growth.seconds = monotonic() - begin
        return self.growth

    def _work(self, compilers: Sequence[Compiler], pool: ThreadPoolExecutor, *, begin: float) -> None:
        free = _Free(compilers)

        def apply(state: str, step: PassSpec, *, other_than: Compiler | None = None) -> _Answer:
            compiler = free.take(other_than)
            try:
                return compiler.apply(state, step), compiler
            finally:
                free.give_back(compiler)

        running: _Running = {}
        while self._fill(running, lambda *edge: pool.submit(apply, *edge), begin=begin) or self._reopened():
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                state, step, before = running.pop(done)
                fact, compiler = done.result()
                self.growth.tried += 1
                if before is None and self._doubtful(state, step, fact=fact):
                    running[pool.submit(apply, state, step, other_than=compiler)] = (state, step, fact)
                else:
                    self._take(state, step, fact=fact, before=before)
                    self._note(begin)
        self.growth.ended = self._limited(begin) if self._unknown else "depth" if self._cut() else "closed"

    def _fill(self, running: _Running, submit: Callable[[str, PassSpec], Future[_Answer]], *, begin: float) -> bool:
        """Give every compiler something to do, and something to do next; whether any has.

        Past a limit only what is known is taken in.
        """
        while len(running) < 2 * self._compilers and (edge := self._next()):
            if self._limited(begin):
                self._unknown.append(edge)
            else:
                running[submit(*edge)] = (*edge, None)
        return bool(running)

    def _reopened(self) -> bool:
        """Whether a shorter way was found to a state that seemed too deep, so that there is more to do."""
        if self._limits.depth is None:
            return False
        for state, depth in self._applier.graph.depths().items():
            self._depths[state] = depth
        before = len(self._left)
        for state in list(self._depths):
            self._open(state)
        return len(self._left) > before

    def _next(self) -> tuple[str, PassSpec] | None:
        """The next edge nothing is known of; those that are known are taken in on the way."""
        while self._frontier or self._waiting:
            first = self._frontier or self._waiting
            state, step = first.popleft()
            edge = self._known(state, step)
            if edge is not None:
                self._settle(state, step, target=edge.target)
            elif first is self._frontier and step not in self._busy and self._barren[step] >= IDLE_STATES:
                self._waiting.append((state, step))
            else:
                return state, step
        return None

    def _open(self, state: str) -> None:
        depth = self._depths[state]
        if state in self._left or (self._limits.depth is not None and depth >= self._limits.depth):
            return
        self._left[state] = len(self._steps)
        self._frontier.extend((state, step) for step in self._steps)

    def _take(self, state: str, step: PassSpec, *, fact: Fact, before: Fact | None) -> None:
        """Take in an answer; of a pass that was repeated only if both are alike."""
        if before is not None and "state" in fact:
            self._alike[step] = self._alike.get(step, 0) + 1
            if before["state"] != fact["state"]:
                if str(step) not in self.growth.unsteady:
                    self._applier.forbid(step, f"applied twice to {state} it led to two different IRs")
                    self.growth.unsteady.append(str(step))
                    self._drop_unreached()
                self._settle(state, step, target=None)
                return
        edge = self._applier.learn(state, step, fact=before or fact)
        self._settle(state, step, target=edge.target)

    def _drop_unreached(self) -> None:
        """States that only a pass reached whose edges now lead nowhere."""
        reached = set(self._applier.graph)
        for state in set(self._depths) - reached:
            del self._depths[state]
            self._whole -= self._left.pop(state, 1) == 0
        self._frontier = deque(edge for edge in self._frontier if edge[0] in reached)
        self._waiting = deque(edge for edge in self._waiting if edge[0] in reached)

    def _settle(self, state: str, step: PassSpec, *, target: str | Failure | None) -> None:
        if state not in self._left:
            return
        self._left[state] -= 1
        self._whole += self._left[state] == 0
        if not isinstance(target, str) or target == state:
            self._barren[step] += 1
            return
        self._wake(step)
        if self._applier.forbidden(step):
            return
        depth = self._depths[state] + 1
        if target not in self._depths:
            self.growth.by_step[str(step)] = self.growth.by_step.get(str(step), 0) + 1
        if depth < self._depths.get(target, depth + 1):
            self._depths[target] = depth
        self._open(target)

    def _doubtful(self, state: str, step: PassSpec, *, fact: Fact) -> bool:
        changes = "state" in fact and fact["state"] != state
        return changes and self._alike.get(step, 0) < REPETITIONS

    def _recall(self) -> None:
        """Passes that an earlier exploration found unsteady stay so."""
        self.growth.unsteady = [str(step) for step in self._steps if self._applier.forbidden(step)]

    def _wake(self, step: PassSpec) -> None:
        """A pass that acts waits no longer."""
        if step not in self._busy:
            self._busy.add(step)
            self._frontier.extend(edge for edge in self._waiting if edge[1] == step)
            self._waiting = deque(edge for edge in self._waiting if edge[1] != step)

    def _note(self, begin: float) -> None:
        sizes = (self._whole, len(self._depths))
        if not self.growth.curve or sizes != self.growth.curve[-1][1:]:
            self.growth.curve.append((round(monotonic() - begin, 2), *sizes))
            self._progress(*sizes)

    def _cut(self) -> bool:
        return any(state not in self._left for state in self._depths)

    def _limited(self, begin: float) -> str:
        limits = self._limits
        if limits.seconds is not None and monotonic() - begin >= limits.seconds:
            return "seconds"
        return "states" if limits.states is not None and len(self._depths) >= limits.states else ""
