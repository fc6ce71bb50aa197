"""One compiling worker that holds whatever state it is asked about."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from passsearch.core import Failure, PassSpec
from passsearch.errors import WorkerDied
from passsearch.evaluate.pool import Workers
from passsearch.evaluate.state_graph import StateGraph
from passsearch.store import Fact
from passsearch.worker import Worker


class Compiler:
    """Applies, builds and saves states in one process; after a crash what is needed is applied again, no more."""

    def __init__(
        self,
        workers: Workers,
        graph: Callable[[], StateGraph],
        *,
        source: Mapping[str, Any],
        factories: Mapping[str, str],
        phases: Mapping[str, Sequence[str]],
        deadline_s: float,
    ) -> None:
        """Start nothing yet.

        Args:
            workers: Whose compiling process is used.
            graph: Ways to states; asked for once the network is loaded.
            source: Model file as the worker's ``load`` takes it.
            factories: ``module:function`` of every pass.
            phases: In which an IR must be for a pass to be applied, by pass; any for those not named.
            deadline_s: How long one request may take.
        """
        self._workers, self._graph, self._source = workers, graph, source
        self._factories, self._phases, self._deadline_s = factories, phases, deadline_s

    def load(self, *, summary: bool) -> dict[str, Any]:
        """Import the network; answers what the worker's ``load`` does."""
        request = {"verb": "load", "source": self._source, "summary": summary}
        return self._workers.compiler().ask(request, deadline_s=self._deadline_s)

    def apply(self, state: str, step: PassSpec, *, identify: bool = False) -> Fact:
        """One pass on one state: ``seconds``, and ``state`` or ``failure``; ``identify`` what is unchanged as well."""
        answer = self.ask("apply", "apply", state=state, step=step.name, identify=identify, **self.step(step))
        return {"seconds": 0.0, **answer}

    def ask(self, stage: str, verb: str, *, state: str, step: str = "", **request: Any) -> dict[str, Any]:
        """Any request about one state."""
        told = {"verb": verb, "state": state, **request}
        answer = self._workers.ask(partial(self._holding, state), stage, request=told, step=step)
        if "missing" in answer:
            return {"failure": Failure("infra", stage, step, f"state {state} was lost").to_json()}
        return answer

    def step(self, step: PassSpec) -> dict[str, Any]:
        """A pass as requests name it."""
        data: dict[str, Any] = {"name": step.name, "arguments": step.bound}
        return {"pass": data, "factory": self._factories[step.name], "phases": list(self._phases.get(step.name, ()))}

    def _holding(self, state: str) -> Worker:
        worker = self._workers.compiler()
        if not self._holds(worker, state):
            self._replay(worker, state)
        return worker

    def _holds(self, worker: Worker, state: str) -> bool:
        return bool(worker.ask({"verb": "hold", "state": state}, deadline_s=self._deadline_s).get("held"))

    def _replay(self, worker: Worker, state: str) -> None:
        """Apply the cheapest way to a state from the last place on it that is still held."""
        way = self._graph().way(state)
        held = next((place for place in range(len(way) - 1, -1, -1) if self._holds(worker, way[place][0])), None)
        here = way[held][0] if held is not None else self.load(summary=False).get("state", "")
        for _, step in way[held or 0 :]:
            request = {"verb": "apply", "state": here, **self.step(step)}
            here = worker.ask(request, deadline_s=self._deadline_s).get("state", "")
        if here != state:
            raise WorkerDied(f"state {state} could not be reached again", kind="unstable")
