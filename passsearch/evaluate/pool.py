"""The processes of one run: one that compiles, one that times, and passing ones for what must be fresh."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import current_thread
from time import monotonic
from typing import Any

from filelock import FileLock

from passsearch.core import Failure
from passsearch.errors import WorkerDied
from passsearch.worker import Worker

ON_DEVICE = frozenset({"verify", "measure", "consume", "expect"})
"""Requests that run kernels."""


class Workers:
    """Started when they are needed and again when they have died; every second they take is put down to a stage.

    Attributes:
        seconds: Wall time by stage: ``apply``, ``build``, ``measure``.
        turn: Held while kernels run on the device; whoever holds it may take it again.
    """

    def __init__(
        self, start: Callable[[int], Worker], *, threads: int, deadline_s: float, lock: Path | None = None
    ) -> None:
        """Start nothing yet.

        Args:
            start: Starts a worker with so many kernel threads.
            threads: Kernel threads while timing.
            deadline_s: How long one request may take.
            lock: File that whoever runs kernels on the device locks meanwhile; ``None`` where nobody asks for turns.
        """
        self._start, self._threads, self._deadline_s = start, threads, deadline_s
        self.turn: AbstractContextManager[object] = nullcontext() if lock is None else FileLock(lock)
        self._compiler: Worker | None = None
        self._timer: Worker | None = None
        self._starter = current_thread()
        self.seconds = {"apply": 0.0, "build": 0.0, "measure": 0.0}

    def compiler(self) -> Worker:
        """The one that holds states; it runs no kernels, so one thread is enough and forking it is safe."""
        # A process dies with the thread that started it, a moment later.
        if self._compiler is None or not self._compiler.alive or not self._starter.is_alive():
            if self._compiler is not None:
                self._compiler.close()
            self._compiler, self._starter = self._start(1), current_thread()
        return self._compiler

    def timer(self) -> Worker:
        """The one whose forks run kernels."""
        if self._timer is None or not self._timer.alive:
            if self._timer is not None:
                self._timer.close()
            self._timer = self._start(self._threads)
        return self._timer

    def close(self) -> None:
        """End both."""
        for worker in (self._compiler, self._timer):
            if worker is not None:
                worker.close()
        self._compiler = self._timer = None

    def ask(
        self,
        worker: Callable[[], Worker],
        stage: str,
        *,
        request: Mapping[str, Any],
        step: str = "",
        more_s: float = 0.0,
    ) -> dict[str, Any]:
        """Ask, and turn whatever goes wrong with the candidate into a typed failure.

        ``more_s`` lengthens the deadline of a request that takes long by intent.
        """
        with self._turn_for(request):
            start = monotonic()
            try:
                answer = worker().ask(request, deadline_s=self._deadline_s + more_s)
            except WorkerDied as error:
                answer = {"error": {"kind": error.kind, "reason": str(error)}}
            finally:
                self.seconds[stage] += monotonic() - start
        if "error" in answer:
            found = answer["error"]
            return {"failure": Failure(found["kind"], stage, step, found["reason"]).to_json()}
        return answer

    def ask_new(self, stage: str, request: Mapping[str, Any], *, more_s: float = 0.0) -> dict[str, Any]:
        """Ask a process that is started for this request alone: a build has one thread, a measurement all.

        The answer's ``wall_s`` is what all of it took.
        """
        started: list[Worker] = []

        def start() -> Worker:
            started.append(self._start(1 if stage == "build" else self._threads))
            return started[0]

        with self._turn_for(request):
            began = monotonic()
            try:
                return {**self.ask(start, stage, request=request, more_s=more_s), "wall_s": monotonic() - began}
            finally:
                for worker in started:
                    worker.close()

    def _turn_for(self, request: Mapping[str, Any]) -> AbstractContextManager[object]:
        """Whoever else measures on the device is waited for; that time is nobody's."""
        return self.turn if request["verb"] in ON_DEVICE else nullcontext()
