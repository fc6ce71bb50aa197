"""Outputs of artifacts, compared with the reference by the process that times, and judged for each candidate."""

import hashlib
import logging
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from passsearch.core import (
    OTHER_BITS,
    STRICT_LIMITS,
    TF32,
    TF32_STEP,
    Bits,
    Candidate,
    CheckInputs,
    Failure,
    limit_or_none,
    strict_limit,
)
from passsearch.dialects.case_inputs import checked_cases
from passsearch.evaluate.facts import read_fact
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.records import Network
from passsearch.evaluate.session import DEPLOYMENT_SEED, Session
from passsearch.evaluate.signature import Origin, is_signed, sign
from passsearch.evaluate.source_reference import SourceReference, has_case
from passsearch.evaluate.verify import (
    LEAST_STEPS,
    PLAIN_FACTOR,
    Agreement,
    Allowance,
    VerifyFact,
    judge,
    wrong_result,
)
from passsearch.frontends import digest_files
from passsearch.store import Fact

BASELINE_S, CANDIDATE_S = 10.0, 60.0
"""Seconds after which a baseline, the reference or a candidate runs on no further inputs to compare its outputs."""

BASELINE_SHARE = 0.1
"""Largest share of a run's time limit that a baseline takes for that; a slow one could take all of a short limit."""

TIMED_ONLY = "(timed only)"
"""Name of a candidate whose kernels are timed, and which is never a result: its outputs may be anything."""

_log = logging.getLogger(__name__)


class Verification:
    """Compares each binary once, and remembers which ones were admitted.

    Attributes:
        strict_limit: Largest deviation of a candidate without a tolerance.
        bits: The bits that candidates must have; ``None`` for any.
        refused: Seconds of the fastest inference of candidates that were refused for their bits alone, by pipeline.
    """

    def __init__(
        self,
        session: Session,
        *,
        network: Network,
        pool: WorkerPool,
        file: Path,
        origin: Origin,
        ask_source: Callable[[], SourceReference],
    ) -> None:
        """Compare nothing yet; a reference that another user may have written is deleted.

        Args:
            session: The session.
            network: The imported network.
            pool: Runs what is compared.
            file: File of the reference.
            origin: What its signature says of it.
            ask_source: Lets the network's own framework write that file, once something is compared.
        """
        self._session, self._network, self._pool = session, network, pool
        self._file, self._ask_source, self._taken_key = file, ask_source, ""
        self._origin = origin
        if not is_signed(file, origin):
            file.unlink(missing_ok=True)
        self._verified: dict[str, Fact] = {}  # by digest of the binary
        self._admitted: set[tuple[str, float]] = set()  # digests, and the limits that their outputs were judged by
        self._allowances: dict[str, Allowance] = {}  # by folder of an artifact
        self._plain: VerifyFact | None = None
        self._bound: float | None = None
        self.bits: Bits | None = None
        self.refused: dict[str, float | None] = {}
        # The limit follows from the coarsest type the network computes in (docs/evidence/measurement.md).
        summary = network.summary
        rounded = summary.rounded_types
        limit = strict_limit(summary.computed_types, quantizes=summary.quantizes, rounded=rounded)
        # An import that computes in a coarser type than its source must not be judged by that type.
        self.strict_limit = limit if session.model.limit is None else min(limit, session.model.limit)

    @cached_property
    def source(self) -> SourceReference:
        """What computed the reference."""
        return self._ask_source()

    @property
    def reference(self) -> Path:
        """File with the outputs that all others are compared with."""
        assert self.source is not None  # a source writes the file before anybody looks for it
        return self._file

    @property
    def reference_key(self) -> str:
        """The part of a build's key that names a reference other than the import."""
        key = "+".join(filter(None, (self._taken_key or self.source.key, self._labels_key)))
        return f"|{key}" if key else ""

    @cached_property
    def _labels_key(self) -> str:
        """The part of a build's key that names the classes that its outputs are compared by, and their labels."""
        budget = self._session.budget
        if budget is None or not budget.is_of_classes:
            return ""
        return f"classes{digest_files([budget.labels])[:8] if budget.labels else ''}"

    @property
    def cases(self) -> tuple[int | str, ...]:
        """Inputs on which outputs are compared with the reference."""
        return checked_cases(self._network.check, self._session.output_cases)

    @property
    def check(self) -> CheckInputs:
        """The inputs of the network's check."""
        return self._network.check

    @property
    def has_admitted(self) -> bool:
        """True once the outputs of some artifact were judged right."""
        return bool(self._admitted)

    def limit(self, candidate: Candidate) -> float:
        """Return the largest deviation that a candidate's outputs may have, as a share of the largest output."""
        strict = max(self.strict_limit, STRICT_LIMITS[TF32]) if self._is_in_tf32(candidate) else self.strict_limit
        limit = self._session.deviation_limit(candidate, strict=strict)
        return limit if self._bound is None or not self._session.has_budget(candidate) else min(limit, self._bound)

    def bound_error(self, bound: float) -> None:
        """Allow weights in fewer bits this deviation of outputs at most, where the user's budget is of classes.

        Exact passes may deviate by the strict limit, and so may weights that lose nothing.
        """
        self._bound = max(bound, self.strict_limit)

    def require_bits(self, bits: Bits) -> None:
        """Refuse all candidates with other bits from now on, but the baseline, which others are compared with."""
        self.bits = bits

    def allowance(self, candidate: Candidate) -> Allowance:
        """Return what a candidate's outputs may differ by."""
        step = TF32_STEP if self._is_in_tf32(candidate) else 1.0
        allowance = replace(self._allowance(candidate), step=step)
        if self.bits is None or candidate.name == TIMED_ONLY:
            return allowance
        is_baseline = replace(candidate, name="") == replace(self._session.dialect.baseline, name="")
        return allowance if is_baseline else replace(allowance, bits=self.bits)

    def _is_in_tf32(self, candidate: Candidate) -> bool:
        # On a CPU the passes leave float32 as it is.
        return candidate.pipeline.is_in_tf32 and self._session.device_kind == "gpu"

    def note_refused(self, failure: Failure, candidate: Candidate, run_s: float | None) -> None:
        """Remember a candidate that is refused for its bits alone."""
        if failure.kind == OTHER_BITS:
            self.refused[str(candidate)] = run_s

    def _allowance(self, candidate: Candidate) -> Allowance:
        if candidate.name == TIMED_ONLY:
            return Allowance(math.inf, is_tolerated=True, may_drop=True)
        approximates = self._session.catalog.approximates(candidate)
        limit, plain = self.limit(candidate), self._plain
        is_tolerated = self._session.tolerated(candidate) is not None
        if (budget := self._session.budget) is not None and self._session.has_budget(candidate):
            classes = budget if budget.is_of_classes else None
            return Allowance(limit, is_tolerated, approximates, is_budget=True, classes=classes)
        if plain is None or is_tolerated or not candidate.pipeline.passes or not self.is_coarse:
            return Allowance(limit, is_tolerated, approximates)
        # What rounding does to this network is known, so the widest that it does to any does not count.
        least = max(PLAIN_FACTOR * plain.plain_error, LEAST_STEPS)
        return Allowance(min(limit, least), may_drop=approximates, plain_mean=plain.mean)

    @property
    def is_coarse(self) -> bool:
        """True for a network that computes in 16 or 8 bits and whose own framework computed the reference."""
        return self.strict_limit > LEAST_STEPS and bool(self.source.key)

    def note_plain(self, found: VerifyFact) -> None:
        """Keep the error of the build without passes, by which others are judged in a network in 16 or 8 bits."""
        self._plain = self._plain or found

    def allow(self, folder: Path, candidate: Candidate) -> None:
        """Judge the artifact in this folder by a candidate's allowance from now on."""
        self._allowances[str(folder)] = self.allowance(candidate)

    def allowed(self, folder: Path | str) -> Allowance | None:
        """Return what the artifact in this folder may differ by; ``None`` if no candidate has it."""
        return self._allowances.get(str(folder))

    def admit(self, digest: str, limit: float) -> None:
        """Remember that a binary's outputs are right by this limit."""
        self._admitted.add((digest, limit))

    def is_admitted(self, digest: str, limit: float) -> bool:
        """Return whether a binary's outputs were judged right by this limit."""
        return (digest, limit) in self._admitted

    def remember(self, digest: str, fact: Fact) -> None:
        """Keep the comparison of a binary: it has the same outputs every time."""
        self._verified[digest] = fact

    def remembered(self, digest: str) -> Fact | None:
        """Return the comparison of a binary; ``None`` before the first, which may make the reference."""
        return self._verified.get(digest) if self.reference.exists() else None

    def forget(self) -> None:
        """Delete the reference and all that was judged by it."""
        self.reference.unlink(missing_ok=True)
        self._verified.clear()
        self._admitted.clear()

    def take_reference(self, file: Path, network: Network) -> None:
        """Take another toolchain's reference.

        Args:
            file: The reference.
            network: The network with the inputs that the reference was made on.
        """
        self._network = network
        shutil.copyfile(file, self.reference)
        # What an earlier command recorded was judged by another reference.
        self._taken_key = hashlib.sha256(file.read_bytes()).hexdigest()[:16]

    def compare(
        self,
        folder: Path,
        *,
        is_baseline: bool,
        longest_s: float = math.inf,
        deadline_s: float = math.inf,
        cases: Sequence[int | str] | None = None,
    ) -> Fact:
        """Compare outputs with the reference, or make the reference; a mismatch is a failure of the build.

        Args:
            folder: Folder of the artifact.
            is_baseline: True for the network as imported.
            longest_s: Longest inference in seconds that is of interest.
            deadline_s: Longest time of the comparison in seconds.
            cases: Inputs; those of the session by default.
        """
        request = {
            **self.device_request("verify", folder),
            "cases": self.cases if cases is None else cases,
            "outputs": str(self.reference),
            "reference": str(self.reference) if self.reference.exists() else None,
            "longest_s": limit_or_none(longest_s),
            # The gate is for candidates. A baseline that takes long need not run on all inputs.
            "with_bits": cases is None,  # which take one inference more
            "total_s": min(BASELINE_S, BASELINE_SHARE * self._session.limits.timeout_s) if is_baseline else CANDIDATE_S,
        }
        answer = self._pool.ask(self._pool.timer, "measure", request=request, deadline_s=deadline_s)
        if request["reference"] is None and self.reference.exists():
            sign(self.reference, self._origin)
        # The worker reports another type, shape or integer as infinite. No candidate's limit admits that, so it is a
        # failure of the build and needs no judgement by candidate.
        if "failure" not in answer and not math.isfinite(answer["deviation"]):
            reason = answer["mismatch"] or VerifyFact.from_fact(answer).text
            return {"failure": wrong_result(reason).to_json()}
        return answer

    def judge(self, fact: Fact, candidate: Candidate) -> Agreement | Failure:
        """Judge what ``compare`` answered by a candidate's allowance."""
        return read_fact(fact, lambda verified: judge(VerifyFact.from_fact(verified), self.allowance(candidate)))

    def expected_outputs(self, folder: Path, candidate: Candidate) -> Fact | Failure:
        """Return digests of an artifact's outputs on the inputs that a deployment is checked with, and of its kernels.

        Returns:
            The answer to ``expect``; without digests where nothing runs. A failure if it fails or the source computes
            something else.
        """
        if self._session.cannot_run_reason:
            return {"expected": [], "kernel_bits": None}
        # A slow source ran on fewer inputs.
        if self.source.key and has_case(self.reference, DEPLOYMENT_SEED):
            # Its bits were judged where it was built, on inputs that these need not be among.
            compared = self.compare(folder, cases=[DEPLOYMENT_SEED], is_baseline=False)
            allowance = replace(self.allowance(candidate), bits=None)
            agreement = read_fact(compared, lambda verified: judge(VerifyFact.from_fact(verified), allowance))
            if isinstance(agreement, Failure):
                _log.warning("the outputs of the deployment are wrong: %s", agreement.reason)
                return agreement
        request = {**self.device_request("expect", folder), "seed": DEPLOYMENT_SEED}
        answer = self._pool.ask(self._pool.timer, "measure", request=request)
        return read_fact(answer, lambda fact: fact)

    def timing_request(self) -> dict[str, Any]:
        """Return what a request to time artifacts says about the reference, with which they are compared afterwards."""
        return {"reference": str(self.reference), "cases": self.cases} if self.reference.exists() else {}

    def judge_after(self, folder: str, after: Mapping[str, Any]) -> Failure | None:
        """Return why an artifact is wrong after it was timed; ``None`` if it is still right."""
        if after["changed"] or after["mismatch"]:
            return wrong_result(after["changed"] or after["mismatch"])
        allowance = self.allowed(folder) or Allowance(self.strict_limit)
        # What is compared after timing has no bits: the same file had them before.
        judged = judge(VerifyFact.from_fact({**after, "leads": None}), replace(allowance, bits=None))
        if not isinstance(judged, Failure):
            return None
        return wrong_result(f"after the calls that were timed, {judged.reason}")

    def device_request(self, verb: str, folder: Path) -> dict[str, Any]:
        """Return a request to run the artifact in a folder."""
        device = self._session.device
        return {"verb": verb, "folder": str(folder), "device": device, **self._network.request()}
