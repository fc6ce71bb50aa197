"""The kernel store: times of kernels, each built and timed once, whatever state, network or run has it."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from threading import local
from typing import Any, cast

from passsearch.core import Failure, Json, PassSpec
from passsearch.dialects.contract import Kernel
from passsearch.evaluate.apply import Applier
from passsearch.evaluate.facts import FactStore, read_fact
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.session import Session
from passsearch.measure import cache_bytes
from passsearch.store import Fact

# Beyond twice the cache nothing of a constant is left in it; more copies would only take memory.
MOST_COLD_CACHES = 2
"""Size of the constants that are read between two runs of a kernel, in caches, at most."""

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


class KernelStore:
    """Lists and times the kernels of states."""

    def __init__(
        self, session: Session, *, pool: WorkerPool, applier: Applier, facts: FactStore, shared: FactStore
    ) -> None:
        """Prepare a store.

        Args:
            session: Deadline, factories and phases.
            pool: Its timing process builds and runs the kernels.
            applier: Reaches states.
            facts: Facts of this network.
            shared: Facts that hold for all networks.
        """
        self._session, self._pool, self._applier = session, pool, applier
        self._facts, self._shared = facts, shared
        self._cache_bytes = cache_bytes()
        self._threads: ThreadPoolExecutor | None = None
        self._own = local()  # the pool of a thread that times kernels beside others
        self._side_pools: list[WorkerPool] = []

    def close(self) -> None:
        """End the processes that time kernels side by side."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            for pool in self._side_pools:
                pool.interrupt()
            self._threads.shutdown()
        for pool in self._side_pools:
            pool.close()

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

    def variants(self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec]) -> dict[PassSpec, float]:
        """Return the seconds of one run of a kernel, by the pass that schedules it; failures are left out.

        Outputs are compared with those of the first schedule, and so are times: it runs in turns with every other one.
        """
        facts = {step: self._shared.recall("variant", self._key(network, kernel, step)) for step in steps}
        if missing := [step for step, fact in facts.items() if fact is None]:
            answers = self._time(network, kernel, missing, reference=steps[0])
            facts |= self._record(network, kernel, missing, answers)
        timed = {step: fact for step, fact in facts.items() if fact and "seconds" in fact}
        own_s = timed[steps[0]]["seconds"] if steps[0] in timed else None
        return {step: _paired_s(fact, reference=steps[0], reference_s=own_s) for step, fact in timed.items()}

    def time_ahead(self, network: NetworkKernels, kernels: Sequence[Kernel], steps: Sequence[PassSpec]) -> None:
        """Time schedules of kernels on a GPU, so that ``variants`` finds them; does nothing on a CPU.

        Generating the code takes most of the time, and other cores do that meanwhile; kernels run in turns.
        """
        if self._session.device_lock is None or self._session.explorers == 1:
            return
        lacking: dict[Kernel, list[PassSpec]] = {}
        for kernel in kernels:
            keys = {step: self._key(network, kernel, step) for step in steps}
            if missing := [step for step, key in keys.items() if self._shared.recall("variant", key) is None]:
                lacking[kernel] = missing
        if len(lacking) < 2:
            return
        # The processes beside the first one read the state from the disk.
        self._applier.compiler.ask("apply", "share", state=network.state)
        if self._threads is None:
            # The threads stay, because a process ends with the thread that started it.
            self._threads = ThreadPoolExecutor(self._session.explorers, "kernels")
        running = {
            kernel: self._threads.submit(self._time_beside, network, kernel, missing, reference=steps[0])
            for kernel, missing in lacking.items()
        }
        for kernel, answers in running.items():
            self._record(network, kernel, lacking[kernel], answers.result())

    def _time_beside(
        self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec], *, reference: PassSpec
    ) -> list[Fact]:
        if not hasattr(self._own, "pool"):
            self._own.pool = self._pool.sibling()
            self._side_pools.append(self._own.pool)
        return self._time(network, kernel, steps, reference=reference, pool=self._own.pool)

    def _key(self, network: NetworkKernels, kernel: Kernel, step: PassSpec) -> str:
        temperature = "cold" if network.constant_bytes > self._cache_bytes else "warm"
        return f"{kernel.digest}|{temperature}{self._session.plans_key('variants', 'kernel_limit')}|{step}"

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
        _log.debug("timing %d variants of kernel %s", len(steps), kernel.name)
        lock = self._session.device_lock
        compiler, request = self._applier.compiler, list(dict.fromkeys([reference, *steps]))
        answer = self._ask(
            "variants",
            network.state,
            kernel=kernel.name,
            steps=[compiler.step_request(step) for step in request],
            cold_bytes=min(network.constant_bytes, MOST_COLD_CACHES * self._cache_bytes),
            device=self._session.device,
            device_lock=None if lock is None else str(lock),
            limit=self._session.plans.kernel_limit,
            plan=asdict(self._session.plans.variants),
            pool=pool,
        )
        if "failure" not in answer:
            first, variants = answer["variants"][0], answer["variants"][len(request) - len(steps) :]
            beside = {"reference": str(reference), "reference_s": first.get("seconds")}
            return [
                variant if step == reference else variant | beside
                for step, variant in zip(steps, variants, strict=True)
            ]
        # One variant that crashes ends the process of all. To split a request that took too long would take longer.
        if len(steps) > 1 and answer["failure"]["kind"] == "crash":
            return [
                fact for step in steps for fact in self._time(network, kernel, [step], reference=reference, pool=pool)
            ]
        return [{"failure": answer["failure"]}] * len(steps)

    def _ask(self, verb: str, state: str, *, pool: WorkerPool | None = None, **request: Any) -> dict[str, Any]:
        message: Mapping[str, Json] = {"verb": verb, "state": state, **request}
        pool = pool or self._pool
        answer = pool.ask(pool.timer, "measure", request=message)
        if "missing" in answer:
            # The compiling process writes the states that it reaches, as far as the disk's share for them suffices.
            self._applier.compiler.ask("apply", "share", state=state)
            answer = pool.ask(pool.timer, "measure", request=message)
        if "missing" in answer:
            return {"failure": Failure("infra", "measure", "", f"state {state} was lost").to_json()}
        return answer


def _paired_s(fact: Fact, *, reference: PassSpec, reference_s: float | None) -> float:
    """Return the seconds of a schedule, as a multiple of those of the schedule that ran in turns with it.

    One schedule takes up to 1.7 times as long in one process as in another, where it lies at other addresses.

    Args:
        fact: What was recorded of the schedule.
        reference: The schedule that the others are compared with.
        reference_s: Its seconds; ``None`` if it does not run.
    """
    seconds, beside_s = float(fact["seconds"]), fact.get("reference_s")
    # Another reference, or none, in facts of earlier versions.
    if reference_s is None or beside_s is None or fact["reference"] != str(reference):
        return seconds
    return seconds / float(beside_s) * reference_s
