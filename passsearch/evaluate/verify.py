"""The check before timing: outputs must be near the reference's, and give the same class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from passsearch.core import Failure, Json, allowed_deviation
from passsearch.dialects.contract import SCALES
from passsearch.store import Fact

DEVIATION = "outputs deviate"
"""Beginning of the reason where values are wrong; other reasons name the type or the shape of an output."""

NO_SCORES = "not exactly one output is a table of class scores"
NEAR_TIES = "the reference's first two classes are nearer to each other than outputs may deviate"

VERIFIED = (
    "peak_rss",
    "device_bytes",
    "deviation",
    "case",
    "leads",
    "run_s",
    "is_cut",
    "cases",
    "deviations",
    "changes",
)
"""Keys of a verification that go into the fact of a build."""


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
        deviations: Deviation by case; in logs from before it was recorded that of ``case`` alone.
        changes: Change of the reference's outputs by edge case, when the inputs move by one rounding.
    """

    deviation: float
    case: int | str
    leads: tuple[float, ...] | None = None
    peak_rss: int | None = None
    cases: int | None = None
    device_bytes: int | None = None
    deviations: Mapping[str, float] = field(default_factory=dict)
    changes: Mapping[str, float] = field(default_factory=dict)

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
            deviations=fact.get("deviations") or {},
            changes=fact.get("changes") or {},
        )

    @property
    def by_case(self) -> Mapping[str, float]:
        """Deviation by case."""
        return self.deviations or {str(self.case): self.deviation}

    def allowed(self, case: str, limit: float) -> float:
        """Return the largest deviation that one case allows.

        An edge case on which the reference itself is unstable allows more; see ``allowed_deviation``.
        """
        return allowed_deviation(limit, self.changes.get(case, 0.0))

    @property
    def text(self) -> str:
        """The deviation and the inputs it was found on, in words."""
        return _deviation_text(str(self.case), self.deviation)


def _deviation_text(case: str, deviation: float) -> str:
    inputs = f"inputs `{case}`" if case in SCALES else f"inputs of seed {case}"
    return f"{DEVIATION} on {inputs} by {deviation:.2g} of the largest"


@dataclass(frozen=True)
class Agreement:
    """Agreement of admitted outputs with the reference's.

    Attributes:
        deviation: Largest deviation, as a share of the largest output, without unstable cases; ``None`` where nothing
            ran.
        limit: Largest deviation that is allowed.
        top1_agreement: Share of the random inputs that get the reference's class; ``None`` where it is undefined.
        unavailable: Reason for an undefined ``top1_agreement``.
        cannot_run_reason: Reason why nothing ran; empty where outputs were compared.
        cases: Number of inputs that were compared; fewer than ``OUTPUT_CASES`` where this build or the reference is
            slow.
        unstable: Deviation and the deviation that is allowed, by edge case that allows more than ``limit``.
    """

    deviation: float | None = 0.0
    limit: float = 0.0
    top1_agreement: float | None = None
    unavailable: str = NO_SCORES
    cannot_run_reason: str = ""
    cases: int | None = None
    unstable: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Return the form of results."""
        reason: dict[str, Json] = {} if self.top1_agreement is not None else {"top1_agreement": self.unavailable}
        if self.deviation is None:
            reason = dict.fromkeys(("deviation", "top1_agreement"), self.cannot_run_reason)
        unstable: dict[str, Json] = {
            case: {"deviation": deviation, "tolerance": allowed} for case, (deviation, allowed) in self.unstable.items()
        }
        return {
            "deviation": self.deviation,
            "tolerance": self.limit,
            "top1_agreement": self.top1_agreement,
            "cases": self.cases,
            "unavailable": reason,
            **({"unstable": unstable} if unstable else {}),
        }


def judge(verification: VerifyFact, limit: float) -> Agreement | Failure:
    """Compare a verification with the limit of one candidate.

    Where the reference's two largest scores are nearer to each other than the limit, there is no class to agree on.
    """
    by_case = verification.by_case
    allowed = {case: verification.allowed(case, limit) for case in by_case}
    # Not `deviation > allowed`: every comparison with NaN is false, and NaN must be refused.
    wrong = [case for case, deviation in by_case.items() if not deviation <= allowed[case]]
    if wrong:
        worst = max(wrong, key=lambda case: by_case[case])
        return wrong_result(f"{_deviation_text(worst, by_case[worst])}; {allowed[worst]:.2g} is allowed")
    unstable = {case: (by_case[case], allowed[case]) for case in by_case if allowed[case] > limit}
    deviation = max((by_case[case] for case in by_case if case not in unstable), default=0.0)
    cases = verification.cases
    if verification.leads is None:
        return Agreement(deviation, limit, cases=cases, unstable=unstable)
    # Rounding alone may exchange two scores that are nearer to each other than the limit.
    clear = [lead for lead in verification.leads if abs(lead) > limit]
    lost = [-lead for lead in clear if lead < 0]
    if lost:
        lead = f"by up to {max(lost):.2g} of the largest, {limit:.2g} is a tie"
        return wrong_result(
            f"{DEVIATION}: {len(lost)} of {len(clear)} have another class than the reference's, that led {lead}"
        )
    return Agreement(deviation, limit, 1.0 if clear else None, NEAR_TIES, cases=cases, unstable=unstable)


def wrong_result(reason: str) -> Failure:
    """Return the failure of a candidate whose outputs are not admitted."""
    return Failure("wrong_result", "measure", "", reason)
