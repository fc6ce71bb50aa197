"""Breadth-first closure of a state graph under a set of passes, by several compilers side by side.

When no edge is left to try, every sequence of these passes, of any length and with any repetition, leads to a known
state (Kulkarni, Whalley, Tyson and Davidson, Practical exhaustive optimization phase order exploration and evaluation,
ACM TACO 6(1), 2009).
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Condition
from typing import TypeAlias

from passsearch.core import Failure, PassSpec, TimeLimit
from passsearch.evaluate.plans import MeasurementPlans
from passsearch.evaluate.protocols import Explorer, StepCompiler
from passsearch.evaluate.state_graph import Edge, EdgeKey
from passsearch.store import Fact

# Repeating every change would double the time of an exploration; the first three changes of each pass cost little.
REPETITIONS = 3
"""Number of changes a pass must repeat with equal results, in two processes where there are two, before it counts as
deterministic."""

_Answer: TypeAlias = tuple[Fact, StepCompiler]
_Running: TypeAlias = dict[Future[_Answer], tuple[str, PassSpec, Fact | None]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExplorationLimits:
    """Limits of an exploration; infinite for none.

    Attributes:
        depth: Passes in a sequence.
        states: Number of different IRs.
        seconds: Wall time in seconds.
        no_op_states: See ``MeasurementPlans.no_op_states``.
    """

    depth: float = math.inf
    states: float = math.inf
    seconds: float = math.inf
    no_op_states: int = MeasurementPlans.no_op_states


@dataclass
class Growth:
    """Progress and outcome of an exploration.

    Attributes:
        ended: ``closed``, or the limit that ended it.
        applied_count: Number of passes it applied, repetitions included; edges from the log are not counted.
        seconds: Wall time in seconds.
        curve: Points of seconds, states whose edges are all known, and all states; a point whenever a number grew.
        by_step: Number of states first reached by each pass.
        nondeterministic: Passes that led to another IR when they were repeated; their edges lead nowhere.
    """

    ended: str = ""
    applied_count: int = 0
    seconds: float = 0.0
    curve: list[tuple[float, int, int]] = field(default_factory=list)
    by_step: dict[str, int] = field(default_factory=dict)
    nondeterministic: list[str] = field(default_factory=list)


class _FreeCompilers:
    """The compilers that are waiting for work."""

    # A queue cannot serve here: a thread that gets the wrong compiler from it must wait while it has that compiler, and
    # two such threads wait for each other.
    def __init__(self, compilers: Sequence[StepCompiler]) -> None:
        self._free, self._several = list(compilers), len(compilers) > 1
        self._changed, self._is_stopping = Condition(), False

    def take_compiler(self, other_than: StepCompiler | None) -> StepCompiler:
        """Wait for a free compiler and take it; with several compilers, one that is not ``other_than``.

        Raises:
            CancelledError: The exploration was stopped.
        """
        excluded = other_than if self._several else None
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_stopping or any(compiler is not excluded for compiler in self._free)
            )
            if self._is_stopping:
                raise CancelledError
            compiler = next(compiler for compiler in self._free if compiler is not excluded)
            self._free.remove(compiler)
        return compiler

    def put_back(self, compiler: StepCompiler) -> None:
        """Make a compiler free again."""
        with self._changed:
            self._free.append(compiler)
            self._changed.notify_all()

    def stop(self) -> None:
        """Give no more compilers away."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()


class Exploration:
    """The closure of one graph. ``run`` may be interrupted: every edge it tried is in the graph and in the log."""

    def __init__(
        self,
        explorer: Explorer,
        steps: Sequence[PassSpec],
        *,
        limits: ExplorationLimits,
        compilers: int,
        progress: Callable[[int, int], None],
        cached_edge: Callable[[str, PassSpec], Edge | None] | None = None,
    ) -> None:
        """Prepare an exploration.

        Args:
            explorer: Owner of the graph that is closed.
            steps: Every pass with every choice of arguments.
            limits: What ends it.
            compilers: Number of processes that apply passes.
            progress: Callback; gets the number of states whose edges are all known, and of all states.
            cached_edge: Looks an edge up before it is tried; the explorer's own function by default.
        """
        self.growth = Growth()
        self._explorer, self._steps, self._limits = explorer, list(steps), limits
        self._compilers, self._progress = compilers, progress
        self._cached_edge = cached_edge or explorer.cached_edge
        self._depths = {explorer.graph.root: 0}
        self._untried: dict[str, int] = {}  # edges without a result, by state
        self._frontier: deque[EdgeKey] = deque()
        self._postponed: deque[EdgeKey] = deque()  # edges of passes that seem to be no-ops
        self._no_ops: dict[PassSpec, int] = dict.fromkeys(self._steps, 0)  # edges that led to no other state
        self._active: set[PassSpec] = set()  # passes that changed some state
        self._complete = 0  # states whose edges are all known
        self._beyond_limit: list[EdgeKey] = []
        self._met = ""  # the limit that holds these back; states that turn out to be unstable may leave it again
        self._repeated: dict[PassSpec, int] = {}  # changes that were repeated, by pass
        self._found_by: dict[str, PassSpec] = {}  # pass that reached a state first, by state

    def run(self) -> Growth:
        """Explore until no edge is left or a limit is met."""
        time_limit = TimeLimit(self._limits.seconds)
        _log.info("exploring %d passes with %d compilers", len(self._steps), self._compilers)
        # Passes that an earlier exploration found nondeterministic stay forbidden.
        self.growth.nondeterministic = [str(step) for step in self._steps if self._explorer.is_forbidden(step)]
        self._open(self._explorer.graph.root)
        try:
            with (
                self._explorer.compilers(self._compilers) as compilers,
                # Threads, because each only waits for the process of its compiler.
                ThreadPoolExecutor(self._compilers) as pool,
            ):
                free = _FreeCompilers(compilers)
                try:
                    self._work(free, pool, time_limit)
                except BaseException:
                    # After Ctrl-C nothing new starts, and nobody waits for a pass that hangs.
                    free.stop()
                    pool.shutdown(wait=False, cancel_futures=True)
                    for compiler in compilers:
                        compiler.interrupt()
                    raise
        finally:
            self.growth.seconds = time_limit.clock_s()
        self.growth.by_step = dict(Counter(map(str, self._found_by.values())))
        _log.info("exploration ended (%s): %d states", self.growth.ended, len(self._depths))
        return self.growth

    def _work(self, free: _FreeCompilers, pool: ThreadPoolExecutor, time_limit: TimeLimit) -> None:
        def apply(state: str, step: PassSpec, *, other_than: StepCompiler | None = None) -> _Answer:
            compiler = free.take_compiler(other_than)
            try:
                return compiler.apply(state, step), compiler
            finally:
                free.put_back(compiler)

        running: _Running = {}
        while self._fill(running, lambda *edge: pool.submit(apply, *edge), time_limit) or self._reopened():
            # Answers are taken in by this thread alone, so that the graph and the log need no order between threads.
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                state, step, first = running.pop(future)
                fact, compiler = future.result()
                self.growth.applied_count += 1
                if first is None and self._needs_repetition(state, step, fact=fact):
                    running[pool.submit(apply, state, step, other_than=compiler)] = (state, step, fact)
                else:
                    self._finish(state, step, fact=fact, first=first)
                    self._note_progress(time_limit.clock_s())
        self.growth.ended = self._met if self._beyond_limit else "depth" if self._cut_by_depth() else "closed"

    def _fill(
        self, running: _Running, submit: Callable[[str, PassSpec], Future[_Answer]], time_limit: TimeLimit
    ) -> bool:
        """Submit edges until every compiler has one to try and one that waits; return whether any edge is in work."""
        # After a limit is met, no new edge is applied, but the queue is still emptied: `_next` takes recorded edges
        # into the graph. So a resumed search, with a limit of 0 s, rebuilds its earlier space from the log.
        while len(running) < 2 * self._compilers and (edge := self._next()):
            if limit := self._limit_met(time_limit):
                self._met = limit
                self._beyond_limit.append(edge)
            else:
                running[submit(*edge)] = (*edge, None)
        return bool(running)

    def _reopened(self) -> bool:
        """Return whether a state that seemed too deep is reached by fewer passes now, so that there is more to try."""
        # Compilers finish in any order, so the first path to a state need not be its shortest.
        if math.isinf(self._limits.depth):
            return False
        for state, depth in self._explorer.graph.depths().items():
            self._depths[state] = depth
        before = len(self._untried)
        for state in list(self._depths):
            self._open(state)
        return len(self._untried) > before

    def _next(self) -> EdgeKey | None:
        """Return the next edge to try; recorded edges before it are settled."""
        while self._frontier or self._postponed:
            queue = self._frontier or self._postponed
            state, step = queue.popleft()
            edge = self._cached_edge(state, step)
            if edge is not None:
                self._settle(state, step, target=edge.target)
            elif queue is self._frontier and self._seems_no_op(step):
                self._postponed.append((state, step))
            else:
                return state, step
        return None

    def _seems_no_op(self, step: PassSpec) -> bool:
        return step not in self._active and self._no_ops[step] >= self._limits.no_op_states

    def _open(self, state: str) -> None:
        depth = self._depths[state]
        if state in self._untried or depth >= self._limits.depth:
            return
        self._untried[state] = len(self._steps)
        self._frontier.extend((state, step) for step in self._steps)

    def _finish(self, state: str, step: PassSpec, *, fact: Fact, first: Fact | None) -> None:
        """Record an answer; a repeated pass must have led to the same state both times."""
        # A repetition that fails proves nothing about the IR: the first answer is recorded, and the next change of the
        # pass is repeated instead.
        if first is not None and "state" in fact:
            self._repeated[step] = self._repeated.get(step, 0) + 1
            if first["state"] != fact["state"]:
                self._forbid(state, step)
                self._settle(state, step, target=None)
                return
        edge = self._explorer.record_edge(state, step, fact=first or fact)
        self._settle(state, step, target=edge.target)

    def _forbid(self, state: str, step: PassSpec) -> None:
        if str(step) not in self.growth.nondeterministic:
            self._explorer.forbid(step, f"applied twice to {state} it led to two different IRs")
            self.growth.nondeterministic.append(str(step))
            self._drop_unreached()

    def _drop_unreached(self) -> None:
        """Remove states that only a forbidden pass reached."""
        # A later run would not find them again, and a certificate must not list them.
        reached = set(self._explorer.graph)
        for state in set(self._depths) - reached:
            del self._depths[state]
            self._found_by.pop(state, None)
            self._complete -= self._untried.pop(state, 1) == 0
        # A limit of states may not be met any more.
        self._frontier.extend(self._beyond_limit)
        self._beyond_limit.clear()
        self._frontier = deque(edge for edge in self._frontier if edge[0] in reached)
        self._postponed = deque(edge for edge in self._postponed if edge[0] in reached)

    def _settle(self, state: str, step: PassSpec, *, target: str | Failure | None) -> None:
        if state not in self._untried:  # removed with a forbidden pass while the edge was being tried
            return
        self._untried[state] -= 1
        self._complete += self._untried[state] == 0
        if not isinstance(target, str) or target == state:
            self._no_ops[step] += 1
            return
        self._mark_active(step)
        if self._explorer.is_forbidden(step):
            return
        depth = self._depths[state] + 1
        if target not in self._depths:
            self._found_by[target] = step
        if depth < self._depths.get(target, depth + 1):
            self._depths[target] = depth
        self._open(target)

    def _needs_repetition(self, state: str, step: PassSpec, *, fact: Fact) -> bool:
        changes = "state" in fact and fact["state"] != state
        return changes and self._repeated.get(step, 0) < REPETITIONS

    def _mark_active(self, step: PassSpec) -> None:
        """Note that a pass changed a state; its postponed edges go back to the queue."""
        if step not in self._active:
            self._active.add(step)
            self._frontier.extend(edge for edge in self._postponed if edge[1] == step)
            self._postponed = deque(edge for edge in self._postponed if edge[1] != step)

    def _note_progress(self, now_s: float) -> None:
        sizes = (self._complete, len(self._depths))
        if not self.growth.curve or sizes != self.growth.curve[-1][1:]:
            self.growth.curve.append((round(now_s, 2), *sizes))
            self._progress(*sizes)

    def _cut_by_depth(self) -> bool:
        return any(state not in self._untried for state in self._depths)

    def _limit_met(self, time_limit: TimeLimit) -> str:
        if time_limit.is_over:
            return "seconds"
        return "states" if len(self._depths) >= self._limits.states else ""
