"""One compiling worker, asked about any state of the graph."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from passsearch.core import MACHINE_FAULTS, Candidate, Failure, PassSpec, Pipeline
from passsearch.errors import WorkerDied
from passsearch.evaluate.facts import ACCIDENTS
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.session import Session
from passsearch.evaluate.state_graph import StateGraph
from passsearch.store import Fact
from passsearch.worker import Worker

_log = logging.getLogger(__name__)


class Compiler:
    """Applies passes to states, builds and saves them, in one process.

    After a crash, the passes that lead to a requested state are applied again in the new process, and no others.

    Attributes:
        graph: Pipelines to the states.
    """

    def __init__(self, pool: WorkerPool, graph: StateGraph, *, session: Session, source: Mapping[str, Any]) -> None:
        """Prepare a compiler; no process starts yet.

        Args:
            pool: Pool whose compiling worker is used.
            graph: Pipelines to the states.
            session: Factories and phases of the passes, and the deadline.
            source: The model file, in the form of the request ``load``.
        """
        self.graph, self._pool, self._session, self._source = graph, pool, session, source

    @contextmanager
    def sibling(self) -> Iterator["Compiler"]:
        """Open a compiler with a process of its own that shares the graph and the states."""
        pool = self._pool.sibling()
        try:
            yield Compiler(pool, self.graph, session=self._session, source=self._source)
        finally:
            pool.close()

    def interrupt(self) -> None:
        """End the process; a request in another thread fails."""
        self._pool.interrupt()

    def apply(self, state: str, step: PassSpec, *, identify: bool = False) -> Fact:
        """Apply one pass to one state; return ``seconds`` with ``state`` or ``failure``.

        ``identify`` forces hashing even when the pass changed nothing.
        """
        answer = self.ask("apply", "apply", state=state, step=step.name, identify=identify, **self.step_request(step))
        # The answer about a failed pass has no time in it.
        return {"seconds": 0.0, **answer}

    def ask(
        self, stage: str, verb: str, *, state: str, step: str = "", deadline_s: float = math.inf, **request: Any
    ) -> dict[str, Any]:
        """Send a request about one state; ``deadline_s`` is its longest time, if that is shorter than the usual."""
        message = {"verb": verb, "state": state, **request}
        answer = self._pool.ask(
            partial(self._worker_with, state), stage, request=message, step=step, deadline_s=deadline_s
        )
        # The state left the worker's memory between the two requests, and no folder has it. That is an accident of the
        # machine: kind `infra` is never stored in the fact cache.
        if "missing" in answer:
            return {"failure": Failure("infra", stage, step, f"state {state} was lost").to_json()}
        return answer

    def step_request(self, step: PassSpec) -> dict[str, Any]:
        """Return a pass in the form of requests."""
        return {
            "pass": {"name": step.name, "arguments": step.argument_values},
            "factory": self._session.factories[step.name],
            "phases": list(self._session.phases_by_pass.get(step.name, ())),
        }

    def passes_request(self, passes: Sequence[PassSpec]) -> list[dict[str, Any]]:
        """Return passes that one request applies, in its form."""
        steps = map(self.step_request, passes)
        return [{**step["pass"], "factory": step["factory"], "phases": step["phases"]} for step in steps]

    def compile_request(self, candidate: Candidate, folder: Path) -> dict[str, Any]:
        """Return the request to import, apply and build in one process, as a deployment does."""
        return {
            "verb": "compile",
            "source": self._source,
            "passes": self.passes_request(candidate.pipeline.passes),
            "options": candidate.build.to_json(),
            "folder": str(folder),
        }

    def reach_anew(self, pipeline: Pipeline) -> str | Failure:
        """Return the state that a pipeline leads to in a new process, which applies nothing else."""
        passes = self.passes_request(pipeline.passes)
        answer = self._pool.ask_new("apply", {"verb": "reach", "source": self._source, "passes": passes})
        return Failure.from_json(answer["failure"]) if "failure" in answer else str(answer["state"])

    def _worker_with(self, state: str) -> Worker:
        # A new process finds most states in the folder that workers share. Passes are applied again for the rest only.
        worker = self._pool.compiler()
        try:
            if not self._holds(worker, state):
                self._reach_again(worker, state)
        except WorkerDied as error:
            # The request was not sent, so this says nothing about its pass, and must not be kept as its failure.
            raise WorkerDied(str(error), kind=error.kind if error.kind in ACCIDENTS else "infra") from error
        return worker

    def _holds(self, worker: Worker, state: str) -> bool:
        return bool(self._ask_worker(worker, {"verb": "hold", "state": state}).get("held"))

    def _reach_again(self, worker: Worker, state: str) -> None:
        """Apply the cheapest pipeline to a state, from the last state on it that the worker still holds."""
        steps = self.graph.steps_to(state)
        # From the end, because the last state that the worker holds leaves the fewest passes to apply.
        held = next((place for place in reversed(range(len(steps))) if self._holds(worker, steps[place][0])), None)
        if held is None:
            current = self._state_of(self._ask_worker(worker, load_request(self._source, summary=False)))
        else:
            current = steps[held][0]
        remaining = steps[held or 0 :]
        _log.debug("applying %d passes again to reach state %s", len(remaining), state)
        for _, step in remaining:
            request = {"verb": "apply", "state": current, **self.step_request(step)}
            current = self._state_of(self._ask_worker(worker, request))
        if current != state:
            raise WorkerDied(f"state {state} could not be reached again", kind="unstable")

    @staticmethod
    def _state_of(answer: Mapping[str, Any]) -> str:
        """Return the state that an answer names, or an empty text.

        Raises:
            WorkerDied: The machine failed.
        """
        error = answer.get("error", {})
        if error.get("kind") in MACHINE_FAULTS:
            raise WorkerDied(f"a state could not be reached again: {error['reason']}", kind=error["kind"])
        return str(answer.get("state", ""))

    def _ask_worker(self, worker: Worker, request: Mapping[str, Any]) -> dict[str, Any]:
        return worker.ask(request, deadline_s=self._session.limits.deadline_of(request["verb"]))


def load_request(source: Mapping[str, Any], *, summary: bool) -> dict[str, Any]:
    """Return the request to import a model file."""
    return {"verb": "load", "source": source, "summary": summary}
