"""The kernel store: times of kernels, each built and timed once, whatever state, network or run has it."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import asdict, dataclass
from threading import Event, local
from time import monotonic
from typing import Any, cast

from passsearch.core import Failure, Json, PassSpec
from passsearch.dialects.contract import Kernel
from passsearch.evaluate.apply import Applier
from passsearch.evaluate.facts import ACCIDENTS, FactStore, read_fact
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.records import RECALLED
from passsearch.evaluate.session import Session
from passsearch.measure import cache_bytes
from passsearch.store import Fact
from passsearch.worker import DEVICE_WAIT_S

STOP_POLL_S = 0.2
"""Time between two attempts to end what the processes side by side do."""

MOST_COLD_CACHES = 2
"""Most constants that are read between two runs of a kernel, in sizes of the cache; with more nothing changes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Region:
    """A place of the network that a pass decides on by itself.

    Attributes:
        key: Name of the region in the pass's argument.
        like: What is there, as text; regions with equal texts share their decision.
    """

    key: str
    like: str


@dataclass(frozen=True)
class NetworkKernels:
    """The kernels of a state.

    Attributes:
        state: The state.
        kernels: The kernels in the order of their first calls.
        constant_bytes: Size of the constants they read.
    """

    state: str
    kernels: tuple[Kernel, ...]
    constant_bytes: int

    @classmethod
    def from_fact(cls, state: str, fact: Fact) -> "NetworkKernels":
        """Read the answer to ``kernels``."""
        return cls(state, tuple(Kernel(**kernel) for kernel in fact["kernels"]), fact["constant_bytes"])


class _OwnPool(local):
    """The processes of one thread that times kernels beside others."""

    pool: WorkerPool | None = None


class KernelStore:
    """Lists and times the kernels of states.

    Attributes:
        recalled: Keys of the times that an earlier run has taken; they say what to try, and no result shows them.
    """

    def __init__(
        self, session: Session, *, pool: WorkerPool, applier: Applier, facts: FactStore, shared: FactStore
    ) -> None:
        """Prepare a store.

        Args:
            session: Deadline, factories and phases.
            pool: Its timing process builds and runs the kernels; siblings of it do so beside each other on a GPU.
            applier: Reaches states.
            facts: Facts of this network.
            shared: Facts that hold for all networks.
        """
        self._session, self._pool, self._applier = session, pool, applier
        self._facts, self._shared = facts, shared
        self.recalled: set[str] = set()
        self._cache_bytes = cache_bytes()
        self._threads: ThreadPoolExecutor | None = None
        self._own = _OwnPool()
        self._side_pools: list[WorkerPool] = []
        self._running: list[Future[list[Fact]]] = []
        self._is_stopping = Event()

    def stop_time_ahead(self) -> None:
        """End the processes that time kernels side by side, and what they do."""
        if self._threads is None:
            return
        self._is_stopping.set()
        # Again and again, because a process may be starting just now. Not by `shutdown`, which tells nobody who waits.
        while left := wait(self._running, STOP_POLL_S).not_done:
            for future in left:
                future.cancel()
            for pool in self._side_pools:
                pool.interrupt()
        self._threads.shutdown()
        for pool in self._side_pools:
            pool.close()
        self._threads, self._own = None, _OwnPool()
        self._side_pools.clear()
        self._running.clear()
        self._is_stopping.clear()

    def kernels(self, state: str) -> NetworkKernels | Failure:
        """Return the kernels of a state."""
        weights: dict[str, Json] = {}
        for case in self._session.model.cases:
            # Several sizes of a function that stays symbolic are cases of one entry.
            weights[case.entry] = case.weight + cast(float, weights.get(case.entry, 0.0))
        fact = self._facts.recall_or_record("kernels", state, lambda: self._ask("kernels", state, weights=weights))
        return read_fact(fact, lambda answer: NetworkKernels.from_fact(state, answer))

    def regions(self, state: str, function: str) -> tuple[Region, ...] | Failure:
        """Return the regions of a state that ``module:function`` lists."""
        key = f"{state}|{function}"
        fact = self._facts.recall_or_record("regions", key, lambda: self._ask("regions", state, function=function))
        return read_fact(fact, lambda answer: tuple(Region(**region) for region in answer["regions"]))

    def variants(
        self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec]
    ) -> Mapping[PassSpec, float] | Failure:
        """Return the seconds of one run of a kernel, by the pass that schedules it; failures are left out.

        If every schedule fails, return the failure of the first. Outputs are compared with those of the first, and so
        are times: it runs in turns with every other one. In a search that keeps bits, schedules with other bits than
        the first are left out.
        """
        keys = {step: self._key(network, kernel, step) for step in steps}
        facts = {step: self._recall(key) for step, key in keys.items()}
        self.recalled |= {keys[step] for step, fact in facts.items() if fact and fact.get(RECALLED)}
        if missing := [step for step, fact in facts.items() if fact is None]:
            answers = self._time(network, kernel, missing, reference=steps[0])
            facts |= self._record(network, kernel, missing, answers)
        timed = {step: fact for step, fact in facts.items() if fact and "seconds" in fact}
        if self._session.same_bits is not None:
            bits = timed.get(steps[0], {}).get("bits")
            timed = {step: fact for step, fact in timed.items() if fact["bits"] == bits}
        if not timed:
            return _failure(cast(Fact, facts[steps[0]]), steps[0])
        own_s = timed[steps[0]]["seconds"] if steps[0] in timed else None
        return {step: _paired_s(fact, reference=steps[0], reference_s=own_s) for step, fact in timed.items()}

    def _recall(self, key: str) -> Fact | None:
        """Return what is known of a schedule; facts of earlier versions have no bits, which a search may need."""
        fact = self._shared.recall("variant", key)
        return None if self._session.same_bits and fact and "seconds" in fact and "bits" not in fact else fact

    def is_timed(self, network: NetworkKernels, kernel: Kernel, step: PassSpec) -> bool:
        """Return whether the run has recorded the time of a schedule of a kernel, or that it fails."""
        return self._shared.is_known("variant", self._key(network, kernel, step))

    def time_ahead(self, network: NetworkKernels, kernels: Sequence[Kernel], steps: Sequence[PassSpec]) -> bool:
        """Time schedules of kernels on a GPU, so that ``variants`` finds them; return False on a CPU, which does not.

        Generating the code takes most of the time, and other cores do that meanwhile; kernels run in turns.
        """
        if self._session.device_lock is None or self._session.explorers == 1:
            return False
        lacking = {kernel: self._missing(network, kernel, steps) for kernel in kernels}
        lacking = {kernel: missing for kernel, missing in lacking.items() if missing}
        # The processes beside the first one read the state from the disk.
        if lacking and "failure" in self._applier.compiler.ask("apply", "share", state=network.state):
            return False
        if self._threads is None:
            # The threads stay, because a process ends with the thread that started it.
            self._threads = ThreadPoolExecutor(self._session.explorers, "kernels")
        begin = monotonic()
        running: dict[Future[list[Fact]], Kernel] = {}
        try:
            for kernel, missing in lacking.items():
                future = self._threads.submit(self._time_beside, network, kernel, missing, reference=steps[0])
                running[future] = kernel
                self._running.append(future)
            for done in as_completed(running):
                self._record_lasting(network, running[done], lacking[running[done]], done.result())
        finally:
            # With the waiting for the device, which several of them do at once.
            self._pool.seconds["measure"] += monotonic() - begin
        return True

    def _record_lasting(
        self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec], answers: Sequence[Fact]
    ) -> None:
        """Record times; what failed by an accident or an interruption is timed again by ``variants``."""
        if not any(answer.get("failure", {}).get("kind") in ACCIDENTS for answer in answers):
            self._record(network, kernel, steps, answers)

    def _missing(self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec]) -> list[PassSpec]:
        """Return the schedules of a kernel of which no time is known."""
        return [step for step in steps if self._shared.recall("variant", self._key(network, kernel, step)) is None]

    def _time_beside(
        self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec], *, reference: PassSpec
    ) -> list[Fact]:
        if self._own.pool is None:
            self._own.pool = self._pool.sibling()
            self._side_pools.append(self._own.pool)
        return self._time(network, kernel, steps, reference=reference, pool=self._own.pool)

    def _key(self, network: NetworkKernels, kernel: Kernel, step: PassSpec) -> str:
        conditions = f"{self._cold_bytes(network, kernel)}{self._session.plans_key('variants', 'kernel_limit')}"
        return f"{kernel.digest}|{conditions}|{step}"

    def _cold_bytes(self, network: NetworkKernels, kernel: Kernel) -> int:
        """Return the size of the memory from which a kernel alone reads its constants; 0 if it reads its own.

        It is that of the network's constants, rounded up to a power of two, so that networks of similar sizes share the
        times of kernels. Constants that fit into the cache stay in it.
        """
        if self._session.device != "cpu" or not kernel.has_constants:
            return 0
        caches = 1 if network.constant_bytes <= self._cache_bytes else MOST_COLD_CACHES
        return min(1 << (network.constant_bytes - 1).bit_length(), caches * self._cache_bytes)

    def _record(
        self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec], answers: Sequence[Fact]
    ) -> dict[PassSpec, Fact]:
        return {
            step: self._shared.record("variant", self._key(network, kernel, step), fact=fact)
            for step, fact in zip(steps, answers, strict=True)
        }

    def _time(
        self,
        network: NetworkKernels,
        kernel: Kernel,
        steps: Sequence[PassSpec],
        *,
        reference: PassSpec,
        pool: WorkerPool | None = None,
    ) -> list[Fact]:
        """Time schedules beside the reference; if a process crashes, find out which of them crashes it."""
        _log.debug("timing %d variants of kernel %s", len(steps), kernel.name)

        def time(*part: PassSpec) -> list[Fact]:
            return self._time_at_once(network, kernel, part, reference=reference, pool=pool)

        facts, others = time(*steps), [step for step in steps if step != reference]
        # One variant that crashes ends the process of all. To split a request that took too long would take longer.
        if not others or facts[0].get("failure", {}).get("kind") != "crash" or self._is_stopping.is_set():
            return facts
        (own,) = time(reference)
        if "failure" in own:
            # Perhaps none but the reference crashes.
            reason = f"the schedule to compare with does not run: {own['failure']['reason']}"
            unknown: Fact = {"failure": Failure("infra", "measure", "", reason).to_json()}
            by_step = dict.fromkeys(others, unknown)
        else:
            by_step = {step: facts[-1] if len(others) == 1 else time(step)[0] for step in others}
        return [own if step == reference else by_step[step] for step in steps]

    def _time_at_once(
        self,
        network: NetworkKernels,
        kernel: Kernel,
        steps: Sequence[PassSpec],
        *,
        reference: PassSpec,
        pool: WorkerPool | None,
    ) -> list[Fact]:
        """Time schedules beside the reference in one process, whose failure is that of all."""
        lock = self._session.device_lock
        compiler, request = self._applier.compiler, list(dict.fromkeys([reference, *steps]))
        answer = self._ask(
            "variants",
            network.state,
            kernel=kernel.name,
            steps=[compiler.step_request(step) for step in request],
            cold_bytes=self._cold_bytes(network, kernel),
            device=self._session.device,
            device_lock=None if lock is None else str(lock),
            limit=self._session.plans.kernel_limit,
            plan=asdict(self._session.plans.variants),
            pool=pool,
        )
        if "failure" in answer:
            return [{"failure": answer["failure"]}] * len(steps)
        first, variants = answer["variants"][0], answer["variants"][len(request) - len(steps) :]
        beside = {"reference": str(reference), "reference_s": first.get("seconds")}
        return [
            variant if step == reference else variant | beside for step, variant in zip(steps, variants, strict=True)
        ]

    def _ask(self, verb: str, state: str, *, pool: WorkerPool | None = None, **request: Any) -> dict[str, Any]:
        message: Mapping[str, Json] = {"verb": verb, "state": state, **request}
        is_beside, pool = pool is not None, pool or self._pool
        # The process waits for the device itself, and no longer than this.
        extra_s = DEVICE_WAIT_S if request.get("device_lock") else 0.0
        answer = pool.ask(pool.timer, "measure", request=message, extra_s=extra_s)
        if "missing" in answer and not is_beside:
            # The compiling process writes the states that it reaches, as far as the disk's share for them suffices.
            self._applier.compiler.ask("apply", "share", state=state)
            answer = pool.ask(pool.timer, "measure", request=message, extra_s=extra_s)
        if "missing" in answer:
            return {"failure": Failure("infra", "measure", "", f"state {state} was lost").to_json()}
        return answer


def _failure(fact: Fact, step: PassSpec) -> Failure:
    """Return why a schedule has no time."""
    if "failure" in fact:
        return Failure.from_json(fact["failure"])
    return Failure("compile_error", "build", step.name, fact["reason"])


def _paired_s(fact: Fact, *, reference: PassSpec, reference_s: float | None) -> float:
    """Return the seconds of a schedule, corrected for the process that timed it.

    The result is the ratio of the schedule's time to the reference's in the same process, times ``reference_s``. It is
    the time as recorded where ``reference_s`` or the reference's time in that process is unknown. One schedule takes up
    to 1.7 times as long in one process as in another, where it lies at other addresses.

    Args:
        fact: What was recorded of the schedule.
        reference: The schedule that the others are compared with.
        reference_s: Its seconds in one process, the same for all schedules; ``None`` if it does not run.
    """
    seconds, beside_s = float(fact["seconds"]), fact.get("reference_s")
    # Another reference, or none, in facts of earlier versions.
    if reference_s is None or beside_s is None or fact["reference"] != str(reference):
        return seconds
    return seconds / float(beside_s) * reference_s
