"""The kernel store: times of kernels, each built and timed once, whatever state, network or run has it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
        temperature = "cold" if network.constant_bytes > self._cache_bytes else "warm"
        measured = f"{temperature}{self._session.plans_key('variants', 'kernel_limit')}"
        keys = {step: f"{kernel.digest}|{measured}|{step}" for step in steps}
        facts = {step: self._shared.recall("variant", key) for step, key in keys.items()}
        if missing := [step for step, fact in facts.items() if fact is None]:
            answers = self._time(network, kernel, missing, reference=steps[0])
            for step, fact in zip(missing, answers, strict=True):
                facts[step] = self._shared.record("variant", keys[step], fact=fact)
        timed = {step: fact for step, fact in facts.items() if fact and "seconds" in fact}
        own_s = timed[steps[0]]["seconds"] if steps[0] in timed else None
        return {step: _paired_s(fact, reference=steps[0], reference_s=own_s) for step, fact in timed.items()}

    def _time(
        self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec], *, reference: PassSpec
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
            return [fact for step in steps for fact in self._time(network, kernel, [step], reference=reference)]
        return [{"failure": answer["failure"]}] * len(steps)

    def _ask(self, verb: str, state: str, **request: Any) -> dict[str, Any]:
        message: Mapping[str, Json] = {"verb": verb, "state": state, **request}
        answer = self._pool.ask(self._pool.timer, "measure", request=message)
        if "missing" in answer:
            # The compiling process writes the states that it reaches, as far as the disk's share for them suffices.
            self._applier.compiler.ask("apply", "share", state=state)
            answer = self._pool.ask(self._pool.timer, "measure", request=message)
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
