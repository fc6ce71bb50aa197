"""The facts of a run: found in its log or in the fact cache, recorded once, and read as typed records."""

import logging
import secrets
from collections.abc import Callable, Mapping
from typing import TypeVar

from passsearch.core import NOTICE_LOG, Failure
from passsearch.evaluate.disk_limit import DiskLimit
from passsearch.evaluate.fact_shapes import is_fact
from passsearch.evaluate.records import BUSY, RECALLED
from passsearch.evaluate.session import Session
from passsearch.store import Fact, Log

# Times hold for the load of the machine at that moment, so what a result shows or a plan rests on (`samples`, `timed`,
# `fresh`, `consumed`) stays in the log of its run. An `edge` and a `build` say to a later run where a pass leads and
# whether outputs are wrong, a `gain` and a `variant` what to try first. `steady` and `census` are names of recorded
# logs: deterministic passes, operator counts.
SHARED_KINDS = frozenset(
    {
        *("load", "edge", "steady", "census", "hash", "reference", "build", "gain", "exploring"),
        *("kernels", "regions", "variant", "import"),
    }
)
"""Kinds of facts that hold for later runs too."""

ONCE_KINDS = frozenset({"build", "gain"})
"""Kinds of facts that later runs make again for their times; the fact cache keeps the first."""

LASTING_FAILURES = frozenset({None, "compile_error", "crash", "wrong_result"})
"""Kinds of failures that hold for later runs too. A full disk or a busy machine does not."""

ACCIDENTS = frozenset({"infra", "oom", "unstable"})
"""Kinds of failures that hold for one start of a run only; the next start tries again."""

VERBS = {"edge": "apply", "variant": "variants"}
"""Verbs of the requests that facts answer, where a fact's kind has another name."""

Record = TypeVar("Record")

_log = logging.getLogger(__name__)
_notices = logging.getLogger(NOTICE_LOG)


class FactStore:
    """The log of one run, and behind it the fact cache that all runs on the network share."""

    def __init__(
        self,
        session: Session,
        log: Log,
        *,
        cache: Log | None,
        seconds: Mapping[str, float],
        disk: DiskLimit | None = None,
    ) -> None:
        """Combine a log with a fact cache.

        Args:
            session: The session; its deadline is stored with every fact, so that a timeout can be tried again under a
                longer one.
            log: The log of this run.
            cache: Facts of earlier runs on the same network, compiler and device; ``None`` to use none.
            seconds: Wall time by stage. It is stored with every fact, so that a resumed run goes on counting.
            disk: Limit of the log; ``None`` for no limit.
        """
        self._disk = disk
        self._run_log, self._cache = log, cache
        self._session, self._seconds = session, seconds
        self._failed: set[tuple[str, str]] = set()  # accidents and timeouts that this start does not try again

    @property
    def is_shared(self) -> bool:
        """True if new facts reach later runs; false while another run writes the fact cache."""
        return self._cache is not None and self._cache.writable

    def recall(self, kind: str, key: str, *, deadline_s: float | None = None) -> Fact | None:
        """Return a recorded fact, or ``None``.

        An accident of an earlier start does not count, nor does a timeout of an earlier start under a shorter limit.

        Args:
            kind: Kind of the fact.
            key: Its key.
            deadline_s: Longest time that the request for it might take now, in seconds; by default that of its verb.
        """
        fact = _valid_fact(kind, key, self._run_log.recall(kind, key))
        if fact is None and self._cache is not None and kind in SHARED_KINDS:
            fact = _valid_fact(kind, key, self._cache.recall(kind, key))
            # Copied, so that the run can be continued from its own log, and so that the log knows when the run first
            # used the fact: `precedes_sampling` and the clock of a resumed search depend on that time.
            copy = {"spent": self._spent, RECALLED: True}
            fact = fact and self._run_log.record(kind, key, fact={**fact, **copy}, durable=False)
        failure = fact.get("failure", {}).get("kind") if fact else None
        if fact is None or (kind, key) in self._failed:
            return fact
        if failure == "timeout":
            deadline_s = self._deadline_s(kind) if deadline_s is None else deadline_s
            if fact.get("deadline_s", 0.0) < deadline_s:
                return None
            self._failed.add((kind, key))  # the limit of a build grows with the slowest one
        return None if _is_accident(kind, failure) else fact

    def record(self, kind: str, key: str, *, fact: Fact) -> Fact:
        """Write a fact to the log, and to the fact cache if it holds for later runs; return it as it was written.

        ``deadline_s`` in it is the longest time that its request might take; without it, the session's deadline.

        Raises:
            EnvironmentFault: The log is larger than it may be; the fact is in it.
        """
        fact = {"deadline_s": self._deadline_s(kind), **fact}
        failure = fact.get("failure", {}).get("kind")
        in_cache = False
        if self._cache is not None and self._is_lasting(kind, key, fact):
            in_cache = self._record_in_cache(self._cache, kind, key, _without_log(fact))
        if failure == "timeout" or _is_accident(kind, failure):
            self._failed.add((kind, key))
        if failure is not None:
            _log.info("%s %s failed: %s", kind, key or "(network)", fact["failure"]["reason"])
        # The fact cache has synced the fact to disk already; a second fsync would cost as long again.
        recorded = self._run_log.record(kind, key, fact={**fact, "spent": self._spent}, durable=not in_cache)
        if self._disk is not None:
            self._disk.require_room_in_log()
        return recorded

    @staticmethod
    def _record_in_cache(cache: Log, kind: str, key: str, fact: Fact) -> bool:
        """Leave a fact to later runs; return whether it is on disk. No run ends for a cache that is full."""
        try:
            cache.record(kind, key, fact=fact)
        except OSError as error:
            _notices.warning("%s cannot be written (%s); new facts stay in the run folder", cache.path, error)
            cache.stop_writing()
        return cache.writable

    def _is_lasting(self, kind: str, key: str, fact: Fact) -> bool:
        """Return whether a fact says something to later runs that the fact cache does not have yet."""
        failure = fact.get("failure", {}).get("kind")
        if kind not in SHARED_KINDS or fact.get(BUSY) or not (kind == "steady" or failure in LASTING_FAILURES):
            return False
        earlier = self._cache.peek(kind, key) if kind in ONCE_KINDS and self._cache else None
        return earlier is None or "failure" in earlier or not is_fact(kind, earlier)

    def run_number(self, *, is_new: bool) -> str:
        """Return a number that no other run has; empty for a run of an earlier version. ``is_new`` is of this start."""
        if is_new:
            return str(self.recall_or_record("run", "", lambda: {"number": secrets.token_hex(8)})["number"])
        return str((self.recall("run", "") or {}).get("number", ""))

    def remembered(self, kind: str) -> dict[str, Fact]:
        """Return the facts of one kind that earlier runs recorded, by key; none of them is used up by that."""
        facts = {} if self._cache is None else self._cache.of_kind(kind)
        return {key: fact for key, fact in facts.items() if is_fact(kind, fact)}

    def recall_or_record(self, kind: str, key: str, make: Callable[[], Fact]) -> Fact:
        """Return the recorded fact, or make and record it."""
        fact = self.recall(kind, key)
        return self.record(kind, key, fact=make()) if fact is None else fact

    def is_known(self, kind: str, key: str) -> bool:
        """Return whether this run has a fact that is not made again; the clock of the log stays as it is."""
        fact = self._run_log.peek(kind, key)
        return fact is not None and fact.get("failure", {}).get("kind") in LASTING_FAILURES

    def precedes_sampling(self, kind: str, key: str) -> bool:
        """Return whether this run had the fact when its sampler started."""
        times = self._run_log.times
        if (kind, key) not in times or self._run_log.is_of_further_measurement(kind, key):
            return False
        return times[kind, key] <= times["explored", ""]

    def _deadline_s(self, kind: str) -> float:
        return self._session.limits.deadline_of(VERBS.get(kind, kind))

    @property
    def _spent(self) -> dict[str, float]:
        return {stage: round(seconds, 3) for stage, seconds in self._seconds.items()}


def _without_log(fact: Fact) -> Fact:
    """Return a fact for other runs, which do not have the log with the traceback of its failure."""
    if "failure" not in fact:
        return fact
    return {**fact, "failure": {key: value for key, value in fact["failure"].items() if key != "log"}}


def _valid_fact(kind: str, key: str, fact: Fact | None) -> Fact | None:
    """Return a fact; ``None`` if it lacks the content of its kind."""
    if fact is None or is_fact(kind, fact):
        return fact
    _log.warning("a recorded fact lacks the content of its kind, so it is made again: %s %s", kind, key or "(network)")
    return None


def _is_accident(kind: str, failure: str | None) -> bool:
    # A nondeterministic pass is recorded as a failure of kind `unstable`. Elsewhere that kind is an accident; as a fact
    # of kind `steady` it is a property of the pass.
    return failure in ACCIDENTS and kind != "steady"


def read_fact(fact: Fact, record: Callable[[Fact], Record]) -> Record | Failure:
    """Return the failure a fact holds, else the record made from it."""
    return Failure.from_json(fact["failure"]) if "failure" in fact else record(fact)
