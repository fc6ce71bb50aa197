"""The compiler processes of one session: one that compiles, one that times, and short-lived ones for fresh requests."""

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from tempfile import gettempdir
from threading import current_thread
from time import monotonic
from typing import Any

from filelock import FileLock

from passsearch.core import MACHINE_FAULTS, Failure, TimeLimit
from passsearch.errors import EnvironmentFault, UserError, WorkerDied
from passsearch.evaluate.machine_health import machine_problem
from passsearch.evaluate.session import Session
from passsearch.store import STATES
from passsearch.toolchain import cache_folder
from passsearch.worker import MOST_LOG_BYTES, Worker, is_temporary, shorten_log

ON_DEVICE = frozenset({"verify", "measure", "consume", "expect", "places", "profile", "consume_kernels", "round"})
"""Requests that run kernels, for which this process holds the device's lock. ``variants`` takes it itself, after it has
built its kernels.
"""

MOST_STARTS = 3
"""Number of times that a worker is started until it answers."""

LOG = "workers.log"
"""File with the output of the compiler."""

OVERTIME, LEAST_LEFT_S = 0.1, 2.0
"""Share of a time limit by which a confirmation and the end of a run may exceed it, and seconds that a build gets."""

CUT_BY_RUN = frozenset({"apply", "variants"})
"""Verbs of the requests that end with the time limit of the run; the result may need all that is built or measured."""

RETRIED = frozenset({"crash", "oom", "infra"})
"""Kinds of failures that are tried once more, as the machine may have caused them."""

SPOILS = MACHINE_FAULTS
"""Kinds of failures after which the worker may be alive but spoilt, as by a pass that used up its descriptors."""

DOUBTFUL = RETRIED | {"compile_error", "timeout"}
"""Kinds of failures that are no fact while the machine is not well: on a full disk, a linker fails or does not end."""

_log = logging.getLogger(__name__)


class WorkerPool:
    """Workers that start when they are needed, and again when they have died.

    Attributes:
        seconds: Wall time of the requests by stage: ``apply``, ``build``, ``measure``.
        device_turn: Lock that is held while kernels run on the device. A process that has it may take it again.
    """

    def __init__(self, session: Session, folder: Path, *, time_limit: TimeLimit) -> None:
        """Prepare a pool; no process starts yet.

        Args:
            session: Toolchain, target and deadline of the workers.
            folder: Folder for the workers' log and for the states they share.
            time_limit: Time limit of this start of the run.
        """
        self._session, self._folder = session, folder
        lock = session.device_lock
        self.device_turn: AbstractContextManager[object] = nullcontext() if lock is None else FileLock(lock)
        self._compiler: Worker | None = None
        self._timer: Worker | None = None
        self._starting: Worker | None = None  # the timer, whose compiler is imported meanwhile
        self._compiler_thread = current_thread()
        self._interruptions, self._time_limit = 0, time_limit
        self.seconds = {"apply": 0.0, "build": 0.0, "measure": 0.0}

    def compiler(self) -> Worker:
        """Return the worker that holds states. It runs no kernels, so it needs one thread and may fork safely."""
        # The system kills a worker a moment after the thread that started it has ended (PR_SET_PDEATHSIG). Until then
        # the worker looks alive.
        if self._compiler is None or not self._compiler.alive or not self._compiler_thread.is_alive():
            if self._compiler is not None:
                _log.info("the compiling process has ended; starting another one")
                self._compiler.close()
            self._compiler, self._compiler_thread = self.start(threads=1), current_thread()
        return self._compiler

    def timer(self) -> Worker:
        """Return the worker whose forks run kernels."""
        if self._timer is None or not self._timer.alive:
            if self._timer is not None:
                _log.info("the timing process has ended; starting another one")
                self._timer.close()
            self._timer = self._started_timer() or self.start(threads=self._session.threads)
        return self._timer

    def start_timer(self) -> None:
        """Start the worker whose forks run kernels, and wait for it only when it is needed."""
        if self._timer is None and self._starting is None:
            self._starting = self._start_once(self._session.threads, wait=False)

    def _started_timer(self) -> Worker | None:
        """Return the worker that ``start_timer`` started; ``None`` if it started none or it does not answer."""
        worker = self._starting
        if worker is None:
            return None
        try:
            # `close` and `interrupt` know it until it is ready: Ctrl-C may end the wait.
            worker.wait_until_ready()
            self._require_recorded_version(worker)
        except EnvironmentFault:
            worker.close()
            worker = None
        self._starting = None
        return worker

    def start(self, *, threads: int) -> Worker:
        """Start a worker whose kernels may use this many threads."""
        for _ in range(MOST_STARTS - 1):
            # A busy machine may take longer than the deadline of a start.
            with suppress(EnvironmentFault):
                return self._start_once(threads)
            _log.warning("a worker did not start; trying again")
        return self._start_once(threads)

    def _start_once(self, threads: int, *, wait: bool = True) -> Worker:
        session = self._session
        # It may have been deleted meanwhile. If its run folder was deleted too, nothing of it is made again.
        self._folder.mkdir(exist_ok=True)
        worker = Worker(
            session.toolchain.python,
            bridge=session.dialect.bridge,
            target=session.target,
            threads=threads,
            log=self._folder / LOG,
            paths=session.paths,
            gpu=session.gpu,
            states=self._folder / STATES,
            worker_count=session.explorers,
            memory_bytes=session.limits.memory_bytes,
            wait=wait,
        )
        self._require_recorded_version(worker)
        return worker

    def _require_recorded_version(self, worker: Worker) -> None:
        """Refuse a compiler of another version: facts are remembered by the version that was recorded."""
        recorded = self._session.toolchain
        if worker.tvm_version not in ("", recorded.tvm_version):
            worker.close()
            raise UserError(
                f"The toolchain `{recorded.name}` was recorded with TVM {recorded.tvm_version} and has "
                f"{worker.tvm_version} now. "
                f"Run: passsearch toolchain remove {recorded.name}, and add or install it again."
            )

    def sibling(self) -> "WorkerPool":
        """Return a pool with processes of its own, which shares the folder of states."""
        return WorkerPool(self._session, self._folder, time_limit=self._time_limit)

    def left_s(self) -> float:
        """Return the seconds until this start has used the run's time limit; at least some."""
        return max(self._time_limit.left_s(), LEAST_LEFT_S)

    def close(self) -> None:
        """End the workers."""
        for worker in (self._compiler, self._timer, self._starting):
            if worker is not None:
                worker.close()
        self._compiler = self._timer = self._starting = None

    def interrupt(self) -> None:
        """Let the requests that other threads wait for fail at once; the next request starts new workers."""
        self._interruptions += 1
        for worker in (self._compiler, self._timer, self._starting):
            if worker is not None:
                worker.kill()

    def ask(
        self,
        worker: Callable[[], Worker],
        stage: str,
        *,
        request: Mapping[str, Any],
        step: str = "",
        extra_s: float = 0.0,
        deadline_s: float = math.inf,
        once: bool = False,
    ) -> dict[str, Any]:
        """Send a request; an error of the candidate becomes a typed failure in the answer.

        What may be an accident of the machine is tried once more, in a new process. It is a failure of the candidate if
        it happens again while the machine is well, and else of kind ``infra``.

        Args:
            worker: Returns the worker to ask, started if need be.
            stage: Stage that the time is charged to.
            request: The request.
            step: Pass that a failure names.
            extra_s: Time that the deadline is extended by, for requests that are long by intent.
            deadline_s: Longest time of the request, if it is shorter than that of its verb.
            once: True for a request that is made to find failures, which is not tried again.
        """
        left_s = self.left_s() if request["verb"] in CUT_BY_RUN else math.inf
        deadline_s = min(self._session.limits.deadline_of(request["verb"]), deadline_s, left_s) + extra_s
        interruptions = self._interruptions
        answer = self._ask_once(worker, stage, request=request, step=step, deadline_s=deadline_s)
        if once or self._interruptions != interruptions:
            return answer
        kind, trouble = answer.get("failure", {}).get("kind"), self._trouble(answer)
        if kind not in RETRIED and not trouble:
            return answer
        failure = answer["failure"]
        _log.warning("%s %s: %s; trying once more", request["verb"], step, trouble or failure["reason"])
        if kind in SPOILS:
            self.close()
        answer = self._ask_once(worker, stage, request=request, step=step, deadline_s=deadline_s)
        if trouble := self._trouble(answer):
            reason = f"{trouble}; {answer['failure']['reason']}"
            return {**answer, "failure": {**answer["failure"], "kind": "infra", "reason": reason}}
        return answer

    def _trouble(self, answer: Mapping[str, Any]) -> str:
        """Return what is wrong with the machine after a failed request; empty if nothing is or nothing failed."""
        failure = answer.get("failure", {})
        if failure.get("kind") not in DOUBTFUL:
            return ""
        return machine_problem((self._folder, Path(gettempdir()), cache_folder()), reason=failure["reason"])

    def _ask_once(
        self, worker: Callable[[], Worker], stage: str, *, request: Mapping[str, Any], step: str, deadline_s: float
    ) -> dict[str, Any]:
        with self._turn_for(request):
            # After the lock: waiting for another search on the same device is charged to no stage.
            start, interruptions = monotonic(), self._interruptions
            try:
                asked = worker()
                if self._interruptions != interruptions:  # while it started
                    raise WorkerDied("the search was interrupted", kind="infra")
                # A worker that died is replaced by the next request and not here: the request that killed it would kill
                # the next one too.
                answer = asked.ask(request, deadline_s=deadline_s)
            except WorkerDied as error:
                answer = {"error": {"kind": error.kind, "reason": str(error)}}
            finally:
                self.seconds[stage] += monotonic() - start
                shorten_log(self._folder / LOG, most_bytes=MOST_LOG_BYTES)
        _log.debug("%s %s took %.2f s", request["verb"], step or request.get("state", ""), monotonic() - start)
        if "error" in answer:
            kind, reason = answer["error"]["kind"], answer["error"]["reason"]
            log = "" if is_temporary(self._folder) else f"{self._folder.name}/{LOG}"
            # A later start with more time tries again what ended by its deadline.
            deadline = {"deadline_s": deadline_s} if kind == "timeout" else {}
            return {"failure": Failure(kind, stage, step, reason, log).to_json(), **deadline}
        return answer

    def ask_new(self, stage: str, request: Mapping[str, Any], *, extra_s: float = 0.0) -> dict[str, Any]:
        """Send a request to a process that is started for it alone, with one thread to build and all to measure.

        ``wall_s`` in the answer is the time of the process from start to end.
        """
        started: list[Worker] = []

        def start() -> Worker:
            for earlier in started:  # a request that is sent again must not share the device with its first process
                earlier.close()
            started.append(self.start(threads=1 if stage == "build" else self._session.threads))
            return started[-1]

        # The lock is taken here and again in `ask`, so that `wall_s` has the start of the process in it and no waiting.
        with self._turn_for(request):
            begin = monotonic()
            try:
                return {**self.ask(start, stage, request=request, extra_s=extra_s), "wall_s": monotonic() - begin}
            finally:
                for worker in started:
                    worker.close()

    def _turn_for(self, request: Mapping[str, Any]) -> AbstractContextManager[object]:
        """Return the lock of the device for requests that run kernels."""
        return self.device_turn if request["verb"] in ON_DEVICE else nullcontext()
