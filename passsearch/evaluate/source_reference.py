"""The outputs of the network's own framework, which every build is compared with, the first import among them."""

import hashlib
import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import IMPORT, SOURCE, Json
from passsearch.dialects.case_inputs import checked_cases
from passsearch.errors import EnvironmentFault, UserError, WorkerDied
from passsearch.evaluate.facts import FactStore
from passsearch.evaluate.pool import LOG
from passsearch.evaluate.records import Network
from passsearch.evaluate.session import AUDIT_CASES, DEPLOYMENT_SEED, RecordedReference, Session
from passsearch.evaluate.signature import Origin, is_signed, sign
from passsearch.evaluate.source_process import ask_source
from passsearch.store import Fact

SOURCE_S, SOURCE_SHARE = 60.0, 0.1
"""Seconds after which the source runs on no further inputs, and the largest share of a run's time limit for that."""

OVERFLOWING_HALVES = ("large", "huge")
"""Edge inputs on which a network overflows in float16. Its source does not where it computes such a network in float32,
as ONNX Runtime does on a CPU."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceReference:
    """What all outputs are compared with.

    Attributes:
        runtime: Name and version of the framework that computed the expected outputs; empty where the import itself,
            built without passes, is the reference.
        reason: Reason why the import is not compared with its source; empty where it is.
        outputs: Names of the outputs in order, where the framework names them.
        seconds: Time that the framework took, its start included.
    """

    runtime: str = ""
    reason: str = ""
    outputs: tuple[str, ...] = ()
    seconds: float = 0.0

    @classmethod
    def from_fact(cls, fact: Fact) -> "SourceReference":
        """Read the fact ``source``."""
        return cls(fact["runtime"], fact["reason"], tuple(fact["outputs"]), fact["seconds"])

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SourceReference":
        """Read the form of results."""
        return cls(data["runtime"] or "", data["reason"], tuple(data["outputs"]), data["seconds"])

    def to_fact(self) -> Fact:
        """Return this reference as the content of the fact ``source``."""
        seconds, outputs = self.seconds, list(self.outputs)
        return {"runtime": self.runtime, "reason": self.reason, "outputs": outputs, "seconds": seconds}

    @property
    def key(self) -> str:
        """A short name of what computed the outputs, for the keys of facts; empty for the import."""
        return hashlib.sha256(self.runtime.encode()).hexdigest()[:8] if self.runtime else ""

    def to_json(self) -> dict[str, Json]:
        """Return the form of results and pipeline files."""
        return {
            "kind": SOURCE if self.runtime else IMPORT,
            "runtime": self.runtime or None,
            "reason": self.reason,
            "outputs": [*self.outputs],
            "seconds": round(self.seconds, 3),
        }


def source_reference(
    session: Session, *, network: Network, facts: FactStore, file: Path, origin: Origin
) -> SourceReference:
    """Write the outputs of the network's own framework to a file, once in a run.

    Args:
        session: The session.
        network: The imported network, whose inputs the framework gets.
        facts: The facts of the run.
        file: File that gets the outputs.
        origin: What its signature says of it.
    """
    if session.recorded is not None:
        own_cases = checked_cases(network.check, session.output_cases)
        return _recorded(session.recorded, file, cases=own_cases, origin=origin)
    if reason := _exemption(session):
        return SourceReference(reason=reason)
    fact = facts.recall("source", network.root)
    # Without a signature, another user may have written the file.
    if fact is not None and (fact["reason"] or is_signed(file, origin)):
        return SourceReference.from_fact(fact)
    start = time.monotonic()
    total_s = min(SOURCE_S, SOURCE_SHARE * session.limits.timeout_s)
    cases = _source_cases(session, network)
    request = {"cases": cases, "outputs": str(file), "total_s": total_s, **network.request()}
    try:
        answer = ask_source(session, request, log=file.with_name(LOG))
    except UserError as error:
        answer = {"runtime": "", "mismatch": str(error), "outputs": []}
    except (WorkerDied, EnvironmentFault) as error:  # perhaps an accident, so it is not recorded
        return SourceReference(reason=f"the network's own framework did not run ({error})")
    # What computes no number on ordinary inputs can be no reference.
    reason = answer["mismatch"]
    if reason:
        _log.warning("the import of %s is unproven: %s", session.model.source, reason)
    else:
        sign(file, origin)
    runtime, seconds = "" if reason else answer["runtime"], time.monotonic() - start
    _log.info("%s computed the expected outputs in %.2f s", runtime or "nothing", seconds)
    # Another user's run has its file, but not this user's signature of it.
    if fact is None or fact["runtime"] != runtime:
        fact = {"runtime": runtime, "reason": reason, "outputs": answer["outputs"], "seconds": seconds}
        facts.record("source", network.root, fact=fact)
    return SourceReference.from_fact(fact)


def _source_cases(session: Session, network: Network) -> list[int | str]:
    """Return the inputs on which the source runs, the most important ones first."""
    # Deployments and audits are checked on inputs of their own, and the source may be gone by then.
    cases = (*checked_cases(network.check, session.output_cases), DEPLOYMENT_SEED, *AUDIT_CASES)
    left_out = OVERFLOWING_HALVES if "float16" in network.summary.computed_types else ()
    return [case for case in dict.fromkeys(cases) if case not in left_out]


def has_case(file: Path, case: int | str) -> bool:
    """Return whether the file of a reference has the outputs on the inputs of a case."""
    with np.load(file) as arrays:
        return f"{case}_0" in arrays.files


def _recorded(
    recorded: RecordedReference, file: Path, *, cases: Sequence[int | str], origin: Origin
) -> SourceReference:
    """Take what a finished run compared outputs with; its own import where the run's outputs are gone.

    Args:
        recorded: What the run compared outputs with.
        file: File that gets the outputs.
        cases: Inputs on which outputs are compared now.
        origin: What the file's signature says of it.
    """
    reference = SourceReference.from_json(recorded.record)
    if not reference.runtime:
        return reference
    if not recorded.file.exists():
        return SourceReference(reason=f"the outputs that {reference.runtime} computed are gone: {recorded.file}")
    if not any(has_case(recorded.file, case) for case in cases):
        return SourceReference(reason=f"{reference.runtime} was too slow to run on further inputs")
    shutil.copyfile(recorded.file, file)
    sign(file, origin)
    return reference


def _exemption(session: Session) -> str:
    """Return why no framework is asked; empty if one is."""
    if session.reference == IMPORT:
        return f"the user chose --reference {IMPORT}"
    if session.model.format == "ir" and session.model.live is None:
        return "a compiler's module has no framework of its own"
    return session.cannot_run_reason
