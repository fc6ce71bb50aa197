"""The proof that the network as imported computes what its source does."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from passsearch.core import IMPORT, Failure, PassSpec
from passsearch.errors import UserError
from passsearch.evaluate.facts import FactStore, read_fact
from passsearch.evaluate.first_difference import locate_difference
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.records import BuildFact, Network
from passsearch.evaluate.session import Session
from passsearch.evaluate.source_reference import SourceReference
from passsearch.evaluate.verification import Verification
from passsearch.evaluate.verify import Agreement, Allowance, VerifyFact, judge
from passsearch.store import Fact

PROOF = "import"
"""Kind of the fact that the import is right, which all runs on the network share."""


class WrongImport(UserError):
    """The network as imported is another one than its source runs."""


class ImportProof:
    """Builds and compares the network without the passes of candidates, once, where outputs are wrong."""

    def __init__(
        self,
        session: Session,
        *,
        network: Network,
        pool: WorkerPool,
        facts: FactStore,
        verification: Verification,
        build: Callable[[Sequence[PassSpec]], Fact],
    ) -> None:
        """Prove nothing yet.

        Args:
            session: The session.
            network: The imported network.
            pool: Starts the processes that look for the node.
            facts: The facts of the run.
            verification: Compares outputs.
            build: Builds the import after some passes, and compares its outputs.
        """
        self._session, self._network, self._pool, self._facts = session, network, pool, facts
        self._verification, self._build = verification, build
        self._is_over, self._doubt = False, ""

    @property
    def _steps(self) -> Sequence[Sequence[PassSpec]]:
        # Schedules first, because TVM's own default may take seconds to run; without any pass if these are at fault.
        return [*dict.fromkeys((self._session.reference_steps, ()))]

    def note(self, outcome: Agreement | Failure) -> Agreement | Failure:
        """Take the judgement of a candidate: a right one proves the import, wrong or tolerated ones ask for it.

        Returns:
            The judgement; where it is unknown whether the import is at fault, the failure says so.

        Raises:
            WrongImport: The import is wrong; the message names what differs, and from which node on.
        """
        # An import without a source is taken on faith.
        if self._is_over or not self._verification.source.key:
            return outcome
        if isinstance(outcome, Agreement):
            # A user's tolerance admits more than rounding explains.
            if outcome.deviation is not None and outcome.limit <= self._verification.strict_limit:
                self._end()
            elif outcome.deviation is not None:
                self._try()
            return outcome
        if outcome.kind != "wrong_result":
            return outcome
        self._try()
        return replace(outcome, reason=f"{outcome.reason}; {self._doubt}") if self._doubt else outcome

    def require(self) -> SourceReference:
        """Prove the import now, unless an earlier run has, and return what proves it; without a runtime, why none does.

        Raises:
            WrongImport: The import is wrong.
        """
        fact = None if self._session.reference == IMPORT else self._facts.recall(PROOF, self._network.root)
        if fact is not None:
            return SourceReference.from_fact(fact)
        source = self._verification.source
        if source.key and not self._is_over:
            self._try()
        return SourceReference(reason=self._doubt) if self._doubt else source

    def _try(self) -> None:
        self._doubt = self._doubt or self._prove()
        if not self._doubt:
            self._end()

    def _end(self) -> None:
        self._is_over, self._doubt = True, ""
        if self._facts.recall(PROOF, self._network.root) is None:
            self._facts.record(PROOF, self._network.root, fact=self._verification.source.to_fact())

    def lost_nan(self, steps: Sequence[PassSpec]) -> int:
        """Return how many values are NaN in the source and not in the import, built with these passes."""
        key = f"{self._network.root}{self._verification.reference_key}" + ("" if steps else "|without passes")

        def count() -> Fact:
            verification = self._compared(steps)
            return {"lost": verification.lost_nan if isinstance(verification, VerifyFact) else 0}

        return int(self._facts.recall_or_record("lost nan", key, count)["lost"])

    def allow_lost_nan(
        self, verification: VerifyFact, agreement: Agreement | Failure, allowance: Allowance
    ) -> Agreement | Failure:
        """Return the judgement of a candidate that may drop as many NaN as the import does."""
        if not self._verification.source.key or allowance.may_drop or not verification.lost_nan:
            return agreement
        # What the import drops, no pass of this candidate does.
        for steps in self._steps:
            if isinstance(agreement, Failure):
                allowance = replace(allowance, lost_nan=max(allowance.lost_nan, self.lost_nan(steps)))
                agreement = judge(verification, allowance)
        if isinstance(agreement, Failure) or not agreement.dropped_by_import:
            return agreement
        operators = {each.op for each in self._network.summary.operators}
        return replace(agreement, dropped_by=tuple(sorted(operators & self._session.dialect.drops_nan)))

    def _prove(self) -> str:
        """Return why it is unknown whether the import is right; empty if it is.

        Raises:
            WrongImport: It is wrong.
        """
        # TVM's own operators drop NaN: the result says so, and no network is refused for it.
        allowance = Allowance(self._verification.strict_limit, may_drop=True)
        for steps in self._steps:
            verification = self._compared(steps)
            judged = judge(verification, allowance) if isinstance(verification, VerifyFact) else verification
            if isinstance(judged, Agreement):
                return ""
        if isinstance(judged, Failure) and judged.kind != "wrong_result":
            return (
                "whether the import is at fault is unknown, because it does not build or run without passes "
                f"({judged.reason})"
            )
        assert isinstance(judged, Failure)
        raise self._refusal(judged, verification)

    def _compared(self, steps: Sequence[PassSpec]) -> VerifyFact | Failure:
        """Return the comparison of the import, built with these passes."""
        record = read_fact(self._build(steps), BuildFact.from_fact)
        if isinstance(record, Failure):
            return record
        assert record.verification is not None
        return record.verification

    def _refusal(self, failure: Failure, verification: VerifyFact | Failure) -> WrongImport:
        """Return the error that refuses the import."""
        limit = self._verification.strict_limit
        case = _telling_case(verification, self._verification.cases, limit=limit)
        place = locate_difference(self._session, case=case, network=self._network, pool=self._pool, limit=limit)
        return WrongImport(
            f"`{self._session.model.source}` is imported as another network than {self._verification.source.runtime} "
            f"runs: {failure.reason}; {place}. Export it otherwise, choose another toolchain, or measure the import as "
            f"it is with --reference {IMPORT}, which the result and its export then say."
        )


def _telling_case(verification: VerifyFact | Failure, cases: Sequence[int | str], *, limit: float) -> int | str:
    """Return the inputs on which to look for the first node that differs: random ones where they differ too."""
    # On an edge case a value may be the difference of equal numbers, which says nothing about its node.
    seeds = [case for case in cases if isinstance(case, int)]
    if isinstance(verification, Failure):
        return seeds[0]
    wrong = (case for case in seeds if not verification.by_case.get(str(case), 0.0) <= limit)
    return next(wrong, verification.case)
