"""A search that keeps the bits of a reference: what has them, what is refused for them, and what that costs."""

from dataclasses import replace

from passsearch.core import Candidate, Failure, have_same_bits
from passsearch.dialects.case_inputs import is_sample
from passsearch.errors import TimeTooShort, UserError
from passsearch.evaluate import Built, Session, WorkerEvaluator
from passsearch.results import Build, KeptBits
from passsearch.search.evaluation import BaselineFailed
from passsearch.search.pass_selection import NetworkAnalysis
from passsearch.search.recommendation import Recommendation, Rejected
from passsearch.search.recommended_sequence import recommended_sequences
from passsearch.search.records import Scored, SearchOutcome

NOT_MEASURED = "not measured: candidates with other bits are not timed"
NONE_REFUSED = "no candidate was refused for its bits"
UNKNOWN_TIME = "the check of one of the two says no time"


def reference_candidate(session: Session, analysis: NetworkAnalysis) -> Candidate | None:
    """Return the candidate whose bits a search keeps; ``None`` where any bits are allowed."""
    if session.same_bits is None:
        return None
    return session.same_bits.candidate or recommended_sequences(session, analysis)[0]


class BitsKeeper:
    """Keeps a search within the bits of one candidate.

    Attributes:
        candidate: The candidate.
    """

    def __init__(self, evaluator: WorkerEvaluator, candidate: Candidate) -> None:
        self._evaluator, self.candidate = evaluator, candidate
        self._built: Built | None = None

    def require(self) -> None:
        """Build the candidate, and refuse all others with other bits from now on.

        Raises:
            BaselineFailed: There is nothing to compare with.
            UserError: It fails, or has other bits than an earlier run has recorded of it.
            EnvironmentFault: The machine fails.
        """
        evaluator, asked = self._evaluator, self._evaluator.session.same_bits
        assert asked is not None
        # Before all others, as it may doubt what outputs are compared with.
        baseline = evaluator.build_candidate(evaluator.session.dialect.baseline)
        if isinstance(baseline, Failure):  # a search that tries it again would admit any bits
            raise BaselineFailed(baseline)
        built = evaluator.build_candidate(self.candidate)
        if isinstance(built, Failure):
            detail = f"{built.kind} in {built.stage}: {built.reason}"
            raise built.as_error(f"`{asked.reference}`, whose bits are to be kept, fails on this network, {detail}.")
        bits = built.agreement.bits
        # Samples are another user's.
        recorded = {case: digest for case, digest in (asked.bits or {}).items() if not is_sample(case)}
        if asked.bits is not None and not have_same_bits(bits, recorded):
            raise UserError(
                f"The pipeline of `{asked.reference}` has other bits here than were recorded, so there is nothing to "
                "keep; bits hold for one version of TVM and one target. See: passsearch audit"
            )
        self._built = built
        evaluator.builder.verification.require_bits(bits)

    def keeps(self, scored: Scored) -> bool:
        """Return whether a candidate has the bits; only the baseline may have others."""
        required = self._evaluator.builder.verification.bits
        return required is None or have_same_bits(scored.built.agreement.bits, required) is True

    def offered(self, outcome: SearchOutcome) -> SearchOutcome:
        """Return an outcome without a baseline with other bits on its Pareto front."""
        others = {key for key, scored in outcome.scored.items() if not self.keeps(scored)}
        return replace(outcome, unoffered=outcome.unoffered | others)

    def kept(self, recommendation: Recommendation, scored: dict[str, Scored]) -> Recommendation:
        """Return what is recommended, or the reference itself in place of a baseline with other bits.

        Raises:
            TimeTooShort: The reference was not measured.
        """
        if self.keeps(recommendation.best):
            return recommendation
        assert self._built is not None
        own = scored.get(self._built.key)
        if own is None:
            raise TimeTooShort(
                "The time limit ended before a candidate with the bits that are to be kept was measured; give it more "
                "--timeout."
            )
        baseline = recommendation.best.candidate.name or "the baseline"
        reason = f"{baseline} has other bits than those that are to be kept"
        return Recommendation(own, None, Rejected(recommendation.best, None, reason))

    def stated(self, best: Scored) -> KeptBits:
        """Return the bits that were kept, and what that costs."""
        verification, asked = self._evaluator.builder.verification, self._evaluator.session.same_bits
        assert asked is not None
        refused = verification.refused
        timed = {name: run_s for name, run_s in refused.items() if run_s}
        fastest = min(timed, key=lambda name: timed[name], default=None)
        best_s = best.built.run_s
        reason = UNKNOWN_TIME if refused else NONE_REFUSED
        check_ratio = best_s / timed[fastest] if fastest is not None and best_s else None
        return KeptBits(
            name=self.candidate.name,
            pipeline=str(self.candidate.pipeline),
            build=Build.from_json(self.candidate.build.to_json()),
            reference=asked.reference,
            bits=dict(verification.bits or {}),
            refused=len(refused),
            fastest=fastest,
            check_ratio=check_ratio,
            ratio=None,
            unavailable={"ratio": NOT_MEASURED, **({} if check_ratio else {"fastest": reason, "check_ratio": reason})},
        )
