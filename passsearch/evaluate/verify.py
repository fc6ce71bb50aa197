"""The check before timing: outputs must be near the reference's, and give the same class."""

from collections.abc import Sequence
from dataclasses import dataclass

from passsearch.core import Failure, Json
from passsearch.dialects.contract import SCALES
from passsearch.store import Fact

DEVIATION = "outputs deviate"
"""Beginning of the reason where values are wrong; other reasons name the type or the shape of an output."""

NO_SCORES = "not exactly one output is a table of class scores"
NEAR_TIES = "the reference's first two classes are nearer to each other than outputs may deviate"


@dataclass(frozen=True)
class VerifyFact:
    """Comparison of one artifact's outputs with the reference.

    Attributes:
        deviation: Largest deviation, as a share of the largest reference output.
        case: Inputs on which it was found: a seed, or one of ``SCALES``.
        leads: Lead of the reference's class in the artifact's scores, one value for each random input; negative where
            the artifact has another class. ``None`` where outputs are no class scores.
        peak_rss: Memory the artifact adds to a process that runs it, in bytes.
        cases: Number of inputs that were compared; ``None`` in logs from before it was recorded.
        device_bytes: Memory of a GPU that the artifact takes; ``None`` on a CPU, and in logs from before it was
            recorded.
    """

    deviation: float
    case: int | str
    leads: tuple[float, ...] | None = None
    peak_rss: int | None = None
    cases: int | None = None
    device_bytes: int | None = None

    @classmethod
    def from_fact(cls, fact: Fact) -> "VerifyFact":
        """Read the answer to ``verify``."""
        leads: Sequence[float] | None = fact["leads"]
        return cls(
            deviation=fact["deviation"],
            case=fact["case"],
            leads=None if leads is None else tuple(leads),
            peak_rss=fact.get("peak_rss"),
            cases=fact.get("cases"),
            device_bytes=fact.get("device_bytes"),
        )

    @property
    def text(self) -> str:
        """The deviation and the inputs it was found on, in words."""
        inputs = f"inputs `{self.case}`" if self.case in SCALES else f"inputs of seed {self.case}"
        return f"{DEVIATION} on {inputs} by {self.deviation:.2g} of the largest"


@dataclass(frozen=True)
class Agreement:
    """Agreement of admitted outputs with the reference's.

    Attributes:
        deviation: Largest deviation, as a share of the largest output; ``None`` where nothing ran.
        limit: Largest deviation that is allowed.
        top1_agreement: Share of the random inputs that get the reference's class; ``None`` where it is undefined.
        unavailable: Reason for an undefined ``top1_agreement``.
        cannot_run_reason: Reason why nothing ran; empty where outputs were compared.
        cases: Number of inputs that were compared; fewer than ``OUTPUT_CASES`` where the unoptimised network is slow.
    """

    deviation: float | None = 0.0
    limit: float = 0.0
    top1_agreement: float | None = None
    unavailable: str = NO_SCORES
    cannot_run_reason: str = ""
    cases: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the form of results."""
        reason: dict[str, Json] = {} if self.top1_agreement is not None else {"top1_agreement": self.unavailable}
        if self.deviation is None:
            reason = dict.fromkeys(("deviation", "top1_agreement"), self.cannot_run_reason)
        return {
            "deviation": self.deviation,
            "tolerance": self.limit,
            "top1_agreement": self.top1_agreement,
            "cases": self.cases,
            "unavailable": reason,
        }


def judge(verification: VerifyFact, limit: float) -> Agreement | Failure:
    """Compare a verification with the limit of one candidate.

    Where the reference's two largest scores are nearer to each other than the limit, there is no class to agree on.
    """
    # Not `deviation > limit`: every comparison with NaN is false, and NaN must be refused.
    if not verification.deviation <= limit:
        return wrong_result(f"{verification.text}; {limit:.2g} is allowed")
    if verification.leads is None:
        return Agreement(verification.deviation, limit, cases=verification.cases)
    # Rounding alone may exchange two scores that are nearer to each other than the limit.
    clear = [lead for lead in verification.leads if abs(lead) > limit]
    lost = [-lead for lead in clear if lead < 0]
    if lost:
        lead = f"by up to {max(lost):.2g} of the largest, {limit:.2g} is a tie"
        return wrong_result(
            f"{DEVIATION}: {len(lost)} of {len(clear)} have another class than the reference's, that led {lead}"
        )
    return Agreement(verification.deviation, limit, 1.0 if clear else None, NEAR_TIES, cases=verification.cases)


def wrong_result(reason: str) -> Failure:
    """Return the failure of a candidate whose outputs are not admitted."""
    return Failure("wrong_result", "measure", "", reason)
