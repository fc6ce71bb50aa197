"""Artifacts: states built with options, verified against the reference, deleted and restored."""

import logging
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from passsearch.core import BuildOptions, Candidate, Failure, PassSpec, safe_file_name
from passsearch.evaluate.apply import Applier
from passsearch.evaluate.artifact_files import ArtifactFiles
from passsearch.evaluate.disk_limit import DiskLimit, delete_folder
from passsearch.evaluate.facts import FactStore, read_fact
from passsearch.evaluate.import_proof import ImportProof
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.records import RECALLED, BuildFact, Built, FreshCompile, Network
from passsearch.evaluate.session import Session
from passsearch.evaluate.signature import Origin
from passsearch.evaluate.source_reference import SourceReference
from passsearch.evaluate.verification import Verification
from passsearch.evaluate.verify import VERIFIED, Agreement, Allowance, judge
from passsearch.store import Fact

REFERENCE = "reference.npz"
"""Name of the file, among the artifacts, with the outputs that all others are compared with."""


OF_REFERENCE = "of_reference"
"""Key of a failure that is the reference's and not the candidate's."""

_log = logging.getLogger(__name__)


class Builder:
    """Builds each state with each set of options once, and judges the outputs for every candidate.

    Attributes:
        verification: Compares outputs.
        proof: The proof of the import.
        files: The files of the artifacts.
    """

    def __init__(
        self,
        session: Session,
        *,
        network: Network,
        facts: FactStore,
        pool: WorkerPool,
        applier: Applier,
        folder: Path,
        disk: DiskLimit,
        origin: Origin,
        ask_source: Callable[[], SourceReference] = SourceReference,
    ) -> None:
        """Build nothing yet; artifacts will go to ``folder``, which must not grow beyond ``disk``.

        ``origin`` is what the signatures of the artifacts say of them. ``ask_source`` writes the outputs of the
        network's own framework; without it the import is the reference.
        """
        self._session, self._facts = session, facts
        self._pool, self._applier, self._folder, self._disk = pool, applier, folder, disk
        parts: Any = {"network": network, "pool": pool}
        self.verification = Verification(
            session, **parts, file=folder / REFERENCE, origin=origin, ask_source=ask_source
        )
        parts |= {"facts": facts, "verification": self.verification}
        self.proof = ImportProof(session, **parts, build=self._build_import)
        self.files = ArtifactFiles(folder, origin)
        self._attempts: set[str] = set()  # keys of the builds that this start asked for
        self._slowest_build_s = 0.0
        # Once a baseline has disagreed with the reference, every later run makes it without passes.
        is_doubted = facts.recall("reference", applier.graph.root) is not None
        self._reference_steps = () if is_doubted else session.reference_steps

    @property
    def reference(self) -> Path:
        """File with the outputs that all others are compared with."""
        return self.verification.reference

    @property
    def source(self) -> SourceReference:
        """What computed them."""
        return self.verification.source

    def build(self, state: str, candidate: Candidate, *, longest_s: float = math.inf) -> Built | Failure:
        """Build a state with a candidate's options, and judge its outputs by the candidate's limit.

        The reference is the imported network, built by the passes that the dialect names for it or by none, and is
        made first.

        Args:
            state: The state.
            candidate: The candidate.
            longest_s: Longest inference in seconds that is of interest; a longer one is compared on one input only.
        """
        key, folder = self._place(state, candidate.build)
        parts: Any = {"folder": folder, "longest_s": longest_s}
        deadline_s = min(self._longest_build_s(state, candidate.build), self._pool.left_s())
        fact = self._facts.recall("build", key, deadline_s=deadline_s)
        # A failure of the imported network itself would end every later run, so it is not taken from the log or cache.
        if fact is not None and "failure" in fact and state == self._applier.graph.root and key not in self._attempts:
            fact = None
        # A fact of a run on a machine without the device says nothing about outputs.
        if fact and not self._session.cannot_run_reason and "failure" not in fact and fact.get("deviation") is None:
            fact = None
        # The facts of earlier versions have no bits.
        if fact and self.verification.bits is not None and "failure" not in fact and not fact.get("bits"):
            fact = None
        # What an earlier run built is built again, unless its outputs are wrong: its times say nothing about today.
        if fact is not None and fact.get(RECALLED) and not isinstance(self._judge(fact, candidate)[1], Failure):
            fact = None
        self._attempts.add(key)
        # An earlier search may have given this build up because its reference was faster than today's.
        if fact is None or (fact.get("is_cut") and fact["run_s"] <= longest_s):
            fact = self._build_after_reference(state, candidate.build, **parts, deadline_s=deadline_s)
            # It is not the candidate's failure, so no later run shall take it for one.
            fact = fact if OF_REFERENCE in fact else self._facts.record("build", key, fact=fact)
        record, agreement = self._judge(fact, candidate)
        if isinstance(agreement, Failure) and self._doubts_reference(agreement, state, candidate.build):
            fact = self._build_after_reference(state, candidate.build, **parts)
            record, agreement = self._judge(self._facts.record("build", key, fact=fact), candidate)
        agreement = self.proof.note(agreement)
        if record is not None:
            self._slowest_build_s = max(self._slowest_build_s, record.seconds)
            if record.verification and not fact.get("is_cut"):
                self.verification.remember(record.digest, fact)
        if isinstance(agreement, Failure):
            delete_folder(folder)
            self.verification.note_refused(agreement, candidate, record.run_s if record else None)
            _log.debug("%s: %s", key, agreement.reason)
            return agreement
        assert record is not None
        self.verification.allow(folder, candidate)
        self.verification.admit(record.digest, agreement.limit)
        return Built.of(record, agreement, state=state, options=candidate.build, key=key, folder=folder)

    def prove_import(self, built: Path | None = None, candidate: Candidate | None = None) -> SourceReference:
        """Prove the import, unless an earlier run has, and return what proves it; see ``ImportProof.require``.

        Args:
            built: Folder of an artifact with this import, which proves it where its outputs are right.
            candidate: The artifact's candidate.
        """
        if built is not None and candidate is not None and self.source.key:
            self.proof.note(self.verification.judge(self.verification.compare(built, is_baseline=True), candidate))
        return self.proof.require()

    def key(self, state: str, options: BuildOptions) -> str:
        """Return the key of a build."""
        # It has no limit in it: the deviation is a fact of the build, and two candidates with the same IR may have
        # different limits.
        return f"{state}|{options.key}{self.verification.reference_key}"

    def _place(self, state: str, options: BuildOptions) -> tuple[str, Path]:
        """Return the key and the folder of a build."""
        key = self.key(state, options)
        # A log of another user may name any state.
        return key, self._folder / safe_file_name(key.replace("|", "-").replace("+", "x"))

    def _judge(self, fact: Fact, candidate: Candidate) -> tuple[BuildFact | None, Agreement | Failure]:
        """Return a build, ``None`` where it failed, and whether a candidate's outputs agree with the reference."""
        record = read_fact(fact, BuildFact.from_fact)
        if isinstance(record, Failure):
            return None, record
        allowance, reason = self.verification.allowance(candidate), self._session.cannot_run_reason
        if reason:
            return record, Agreement(None, allowance.limit, cannot_run_reason=reason)
        assert record.verification is not None
        if not candidate.pipeline.passes:
            self.verification.note_plain(record.verification)
        agreement = judge(record.verification, allowance)
        return record, self.proof.allow_lost_nan(record.verification, agreement, allowance)

    def restore(self, built: Built) -> Built | Failure:
        """Make sure that the files exist: a resumed run may have lost them, a search may have deleted them.

        Another binary than before is judged anew.
        """
        if self.files.has(built.folder):
            return built
        fact = self._build_after_reference(built.state, built.options, folder=built.folder)
        record = read_fact(fact, BuildFact.from_fact)
        if isinstance(record, Failure) or record.digest == built.digest:
            return record if isinstance(record, Failure) else built
        self._facts.record("build", built.key, fact=fact)
        allowance = replace(self.verification.allowed(built.folder) or Allowance(0.0), limit=built.agreement.limit)
        agreement = judge(record.verification, allowance) if record.verification else built.agreement
        if isinstance(agreement, Failure):
            delete_folder(built.folder)
            return agreement
        self.verification.admit(record.digest, agreement.limit)
        return replace(built, digest=record.digest, kernels=record.kernels, bytes=record.bytes, agreement=agreement)

    def discard(self, built: Built) -> None:
        """Delete the files of an artifact; ``restore`` makes them again."""
        delete_folder(built.folder)

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Compile a candidate in a process of its own; see ``Evaluator.compile_fresh``."""
        fact, folder = self._facts.recall("fresh", key), self._folder / safe_file_name(key)
        # A confirmation deletes the files once they are timed. A resumed run compiles again only if they were not.
        lost = fact is not None and "failure" not in fact and not self.files.has(folder)
        if fact is None or (lost and any(self._facts.recall(kind, timing_key) is None for kind in kinds)):
            fact = self._facts.record("fresh", key, fact=self._compile_fresh(folder, candidate))
        self.verification.allow(folder, candidate)
        # Not the folder that the log names: the log may be another user's, or the run folder may have moved.
        return read_fact({**fact, "folder": str(folder)}, FreshCompile.from_fact)

    def take_reference(self, file: Path, network: Network) -> None:
        """Take another toolchain's reference, which stays whatever a baseline of this one says.

        Args:
            file: The reference.
            network: The network with the inputs that the reference was made on.
        """
        # Where the file exists, no build makes a reference of its own.
        self.verification.take_reference(file, network)
        self._reference_steps = ()

    def _doubts_reference(self, failure: Failure, state: str, options: BuildOptions) -> bool:
        """Delete a reference that has passes if the baseline to beat disagrees with it; return whether it did.

        This run and all later ones then make a reference without passes.
        """
        if failure.kind != "wrong_result" or not self._reference_steps or self.source.key:
            return False
        # Only this baseline, which is built before all others: nothing was judged by the reference yet.
        if (state, options) != (self._applier.graph.root, self._session.dialect.baseline.build):
            return False
        _log.warning("the reference is built without passes, because a baseline disagrees: %s", failure.reason)
        self._reference_steps = ()
        self._facts.record("reference", self._applier.graph.root, fact={"passes": False})
        self.verification.forget()
        return True

    def _build_import(self, passes: Sequence[PassSpec]) -> Fact:
        """Build the network as imported, after some passes, and compare its outputs; nothing of it stays."""
        folder = self._folder / "import"
        fact = self._build(self._applier.graph.root, BuildOptions(), folder=folder, passes=passes)
        delete_folder(folder)
        return fact

    def _build_after_reference(
        self,
        state: str,
        options: BuildOptions,
        *,
        folder: Path,
        longest_s: float = math.inf,
        deadline_s: float | None = None,
    ) -> Fact:
        """Build, and before that make the reference where there is none yet."""
        if not self._session.cannot_run_reason and not self.reference.exists():
            reference = self._make_reference()
            key, _ = self._place(self._applier.graph.root, BuildOptions())
            is_without_passes = not self._reference_steps
            if is_without_passes and key == self._place(state, options)[0]:
                return reference  # the very build that is asked for
            if "failure" in reference:
                failure = Failure.from_json(reference["failure"])
                reason = f"the build that outputs are compared with failed: {failure.reason}"
                # What the compiler refuses is no fault of the machine, unless the reference was built before.
                kind = "infra" if self.verification.has_admitted else failure.kind
                return {"failure": replace(failure, kind=kind, reason=reason).to_json(), OF_REFERENCE: True}
            # It is a baseline, too. A run that is started again knows it already.
            if is_without_passes and self._facts.recall("build", key) is None:
                self._facts.record("build", key, fact=reference)
        return self._build(state, options, folder=folder, longest_s=longest_s, deadline_s=deadline_s)

    def _make_reference(self) -> Fact:
        """Build what all outputs are compared with: the imported network, by the reference's passes or by none."""
        root, options = self._applier.graph.root, BuildOptions()
        if self._reference_steps:
            folder = self._folder / "reference"
            fact = self._build(root, options, folder=folder, passes=self._reference_steps)
            delete_folder(folder)
            if "failure" not in fact:
                return fact
            _log.warning("the reference is built without passes: %s", Failure.from_json(fact["failure"]).reason)
            self._reference_steps = ()
        return self._build(root, options, folder=self._place(root, options)[1])

    def _build(
        self,
        state: str,
        options: BuildOptions,
        *,
        folder: Path,
        longest_s: float = math.inf,
        deadline_s: float | None = None,
        passes: Sequence[PassSpec] = (),
    ) -> Fact:
        """Build into a folder that gets its name only when it is complete and its outputs are compared.

        Only the reference has ``passes``, which lead to no state; only a candidate of a search has ``deadline_s``.
        """
        self._disk.require_room()
        _log.info("building state %s with %s", state, options.key)
        # An interrupted build leaves a `.partial` folder, which no later start takes for an artifact.
        unfinished = folder.with_name(folder.name + ".partial")
        shutil.rmtree(unfinished, ignore_errors=True)
        request: dict[str, Any] = {"options": options.to_json(), "folder": str(unfinished)}
        if passes:
            request["passes"] = self._applier.compiler.passes_request(passes)
        is_searched = deadline_s is not None
        deadline_s = self._longest_build_s(state, options) if deadline_s is None else deadline_s
        answer = self._applier.compiler.ask("build", "build", state=state, deadline_s=deadline_s, **request)
        verified: Fact = answer
        if "failure" in answer:
            verified = {"deadline_s": deadline_s, **answer}
        elif not self._session.cannot_run_reason:
            # One binary has the same outputs every time. The first verification also makes the reference's file.
            same = self.verification.remembered(answer["digest"])
            left_s = self._pool.left_s() if is_searched else math.inf
            verified = same or self._verify(unfinished, state, longest_s=longest_s, deadline_s=left_s)
        if "failure" in verified:
            shutil.rmtree(unfinished, ignore_errors=True)
            return verified
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
        self.files.sign(folder)
        return {**answer, **{name: verified.get(name) for name in VERIFIED}}

    def _longest_build_s(self, state: str, options: BuildOptions) -> float:
        limits = self._session.limits
        # What all others are compared with is waited for, until the time limit is over.
        if state == self._applier.graph.root and options in (BuildOptions(), self._session.dialect.baseline.build):
            return min(limits.deadline_s, self._left_s())
        return limits.longest_build_s(self._slowest_build_s)

    def _left_s(self) -> float:
        """Return the seconds until this start has used the run's time limit; at least some.

        They are unlimited once something was judged: what is made again then is needed for the result.
        """
        return math.inf if self.verification.has_admitted else self._pool.left_s()

    def _verify(self, folder: Path, state: str, *, longest_s: float = math.inf, deadline_s: float = math.inf) -> Fact:
        is_baseline = state == self._applier.graph.root
        deadline_s = min(deadline_s, self._left_s()) if is_baseline else deadline_s
        return self.verification.compare(folder, is_baseline=is_baseline, longest_s=longest_s, deadline_s=deadline_s)

    def _compile_fresh(self, folder: Path, candidate: Candidate) -> Fact:
        self._disk.require_room()
        shutil.rmtree(folder, ignore_errors=True)
        _log.info("compiling %s in a new process", candidate.name or candidate.pipeline)
        answer = self._pool.ask_new("build", self._applier.compiler.compile_request(candidate, folder))
        if "failure" in answer:
            return answer
        failure = self._fault_of_fresh(folder, answer, candidate)
        if failure is not None:
            delete_folder(folder)
            return {"failure": failure.to_json()}
        self.files.sign(folder)
        return {**answer, "folder": str(folder)}

    def _fault_of_fresh(self, folder: Path, answer: Fact, candidate: Candidate) -> Failure | None:
        """Return why a fresh compile may not be timed: it has another IR, or is another binary with wrong outputs."""
        state = self._applier.reach(candidate.pipeline)
        if isinstance(state, Failure):
            return state
        # A pass may depend on what its process did before. TVM's ToMixedPrecision changed the module that it was given,
        # so the IR of a long-lived compiler was one that no deployment could make. A state's name ends with "+" where
        # another IR of the search has the same hash; a new process knows no other.
        if answer["state"] != state.rstrip("+"):
            return Failure("unstable", "apply", "", "a fresh process reached another IR by the same pipeline")
        binary = (answer["digest"], self.verification.limit(candidate))
        # `bench` judges no build here, and compares outputs itself.
        if not self.verification.has_admitted or self.verification.is_admitted(*binary):
            return None
        if self._session.cannot_run_reason:
            return None
        reference = {} if self.reference.exists() else self._make_reference()
        if "failure" in reference:
            return replace(Failure.from_json(reference["failure"]), kind="infra")
        agreement = self.verification.judge(self._verify(folder, state), candidate)
        if isinstance(agreement, Failure):
            return agreement
        self.verification.admit(*binary)
        return None
