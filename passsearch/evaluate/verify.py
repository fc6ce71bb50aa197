"""The check before timing: outputs must be near the reference's, and give the same class."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from passsearch.core import (
    CHANGE_MARGIN,
    MOST_ALLOWED,
    OTHER_BITS,
    Bits,
    ErrorBudget,
    Failure,
    allowed_deviation,
    differing_cases,
)
from passsearch.dialects.case_inputs import is_sample
from passsearch.dialects.reference import ROUNDED, ROUNDED_MEAN
from passsearch.evaluate.class_loss import class_fault
from passsearch.evaluate.session import OUTPUT_CASES
from passsearch.results import Deviation, Outputs
from passsearch.standalone.deployment.input_values import EDGES
from passsearch.store import Fact

DEVIATION = "outputs deviate"
"""Beginning of the reason where values are wrong; other reasons name the type or the shape of an output."""

NO_SCORES = "not exactly one output is a table of class scores"
NEAR_TIES = "the reference's first two classes are nearer to each other than outputs may deviate"

MEAN_SHARE, LEAST_MEAN = 1 / 4, 1e-3
"""Share of the limit of the largest deviation that the mean deviation may have, and the least that it may have.

Rounding moves values of an 8-bit network by whole steps, but few of them, and to both sides.
"""

PLAIN_MEAN_FACTOR = 2.0
"""The same for mean deviations, which chance moves less."""

PLAIN_FACTOR, LEAST_STEPS = 4.0, 2 * 2**-7
"""Times the error of the plain build, and the least, that outputs of a network in 16 or 8 bits may deviate by: two
steps of an 8-bit integer, as few roundings are a matter of chance."""

ROUNDED_FACTOR = 2.0
"""Times the change of a quantised network's outputs when its constants move by one rounding that outputs may deviate
by. Two right ways to compute it differ by as little, and its integers make as much of that: ten such networks deviate
by 0.5 to 1.1 of that change in ONNX Runtime with its optimisations, and by 2.5 to 11 on another input
(docs/evidence/measurement.md)."""

SLICE_FACTOR, MOST_OF_SLICE = 100.0, 0.5
"""Times the limit that a slice may deviate by its own scale, and the largest share of it."""

UNSEEN_FACTOR = 2.0
"""Times an error budget that outputs may deviate by on random inputs on which nothing was decided: a decision uses its
budget up, and the largest deviation of others is larger or smaller."""

NAN = "nan"
"""Edge inputs on which a candidate that drops NaN is refused. Infinities may be dropped, which the result says: one
algorithm's sum overflows, or is infinity minus infinity, where another's is not."""

MOST_CHAOTIC = 2.0
"""Largest deviation on an edge case where rounding changes the reference by more than ``MOST_ALLOWED``, which tells no
right output from a wrong one: that of two unrelated outputs of one range. One rounding of large inputs changes the
reference of ``zoo:llama_large_decode`` by 0.87 of the largest, and correct builds deviate by as much."""

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
    "mean",
    "factor",
    "mean_change",
    "rounded",
    "slice",
    "slice_of",
    "scaled",
    "scaled_of",
    "special",
    "classes",
    "bits",
)
"""Keys of a verification that go into the fact of a build."""


@dataclass(frozen=True)
class VerifyFact:
    """Comparison of one artifact's outputs with the reference.

    Attributes:
        deviation: Largest deviation, as a share of the largest reference output.
        case: Inputs on which it was found: a seed, or one of ``EDGES``.
        leads: Lead of the reference's class in the artifact's scores, one value for each random input; negative where
            the artifact has another class. ``None`` where outputs are no class scores.
        peak_rss: Memory the artifact adds to a process that runs it, in bytes.
        cases: Number of inputs that were compared; ``None`` in logs from before it was recorded.
        device_bytes: Memory of a GPU that the artifact takes; ``None`` on a CPU, and in logs from before it was
            recorded.
        deviations: Deviation by case; in logs from before it was recorded that of ``case`` alone.
        changes: Change of the reference's outputs by edge case, when the inputs move by one rounding.
        mean: Largest mean deviation of an output on random inputs, as a share of its mean magnitude.
        factor: Share by which all values of an output are too large or too small together.
        mean_change: Mean change of the reference when inputs move by one rounding; ``None`` if it is unknown.
        rounded: Largest change of the reference, and mean change, when the constants of a quantised network move by
            one rounding, as ``ROUNDED`` and ``ROUNDED_MEAN``; empty for others, and where it is unknown.
        slice_share: Largest deviation of a slice of an output, as a share of the slice's largest magnitude.
        slice_of: That slice in words.
        scaled_share: The same for outputs with several scales, where it is judged as the deviation of the whole.
        scaled_of: That slice in words.
        special: What became of values that are not finite in the reference: how many are ``lost``, and how many others
            are not finite any more (``spread``), by edge case.
        classes: Rows by the class that they get; see ``compare_classes``. Empty where outputs have no classes, and in
            logs from before it was recorded.
        bits: Digests of the outputs by case; empty in logs from before it was recorded.
    """

    deviation: float
    case: int | str
    leads: tuple[float, ...] | None = None
    peak_rss: int | None = None
    cases: int | None = None
    device_bytes: int | None = None
    deviations: Mapping[str, float] = field(default_factory=dict)
    changes: Mapping[str, float] = field(default_factory=dict)
    mean: float = 0.0
    factor: float = 0.0
    mean_change: float | None = None
    rounded: Mapping[str, float] = field(default_factory=dict)
    slice_share: float = 0.0
    slice_of: str = ""
    scaled_share: float = 0.0
    scaled_of: str = ""
    special: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    classes: Mapping[str, Any] = field(default_factory=dict)
    bits: Bits = field(default_factory=dict)

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
            mean=fact.get("mean") or 0.0,
            factor=fact.get("factor") or 0.0,
            mean_change=fact.get("mean_change"),
            rounded=fact.get("rounded") or {},
            slice_share=fact.get("slice") or 0.0,
            slice_of=fact.get("slice_of") or "",
            scaled_share=fact.get("scaled") or 0.0,
            scaled_of=fact.get("scaled_of") or "",
            special=fact.get("special") or {},
            classes=fact.get("classes") or {},
            bits=fact.get("bits") or {},
        )

    @property
    def lost_nan(self) -> int:
        """Number of values that are NaN in the reference and not here, on the inputs with NaN."""
        return self.special.get(NAN, {}).get("lost", 0)

    @property
    def by_case(self) -> Mapping[str, float]:
        """Deviation by case."""
        return self.deviations or {str(self.case): self.deviation}

    @property
    def plain_error(self) -> float:
        """Largest deviation on inputs that are no edge inputs."""
        return max((deviation for case, deviation in self.by_case.items() if case not in EDGES), default=0.0)

    def allowed(self, case: str, limit: float, *, step: float = 1.0) -> float:
        """Return the largest deviation that one case allows.

        An edge case on which the reference itself is unstable allows more; see ``allowed_deviation``.
        """
        change = self.changes.get(case, 0.0)
        return MOST_CHAOTIC if change > MOST_ALLOWED else allowed_deviation(limit, change, step=step)

    def by_rounding(self, name: str) -> float:
        """Return what a quantised network may deviate by, as its reference does when constants move by one rounding."""
        return min(ROUNDED_FACTOR * self.rounded.get(name, 0.0), MOST_ALLOWED)

    @property
    def text(self) -> str:
        """The deviation and the inputs it was found on, in words."""
        return _deviation_text(str(self.case), self.deviation)


def _deviation_text(case: str, deviation: float) -> str:
    inputs = f"inputs of seed {case}" if case.isdigit() else f"inputs `{case}`"
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
        dropped: Number of values that are NaN or infinite in the reference and no longer, by edge case; of NaN only
            for candidates that may change numerics, others are refused.
        spread: Number of further values that are not finite, by edge case.
        dropped_by_import: True if the import without passes drops as many NaN.
        dropped_by: Operators of the network that drop NaN, where it does.
        bits: Digests of the outputs by case; empty where nothing ran, or where they were not recorded.
    """

    deviation: float | None = 0.0
    limit: float = 0.0
    top1_agreement: float | None = None
    unavailable: str = NO_SCORES
    cannot_run_reason: str = ""
    cases: int | None = None
    unstable: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    spread: Mapping[str, int] = field(default_factory=dict)
    dropped_by_import: bool = False
    dropped_by: tuple[str, ...] = ()
    bits: Bits = field(default_factory=dict)

    @property
    def usual_deviation(self) -> float | None:
        """Largest deviation on ordinary inputs; ``None`` where nothing ran."""
        moved = [deviation for case, (deviation, _) in self.unstable.items() if case not in EDGES]
        return None if self.deviation is None else max((self.deviation, *moved))

    @property
    def usual_limit(self) -> float:
        """Largest deviation that ordinary inputs allow: above ``limit`` where one rounding moves outputs by more."""
        usual = [allowed for case, (_, allowed) in self.unstable.items() if case not in EDGES]
        return max((self.limit, *usual))

    @property
    def stated(self) -> Outputs:
        """The agreement as documents state it."""
        reason = {} if self.top1_agreement is not None else {"top1_agreement": self.unavailable}
        if self.deviation is None:
            reason = dict.fromkeys(("deviation", "top1_agreement"), self.cannot_run_reason)
        return Outputs(
            deviation=self.deviation,
            tolerance=self.limit,
            top1_agreement=self.top1_agreement,
            cases=self.cases,
            unavailable=reason,
            unstable={case: Deviation(*values) for case, values in self.unstable.items()} or None,
            dropped=self.dropped or None,
            dropped_by_import=self.dropped_by_import,
            dropped_by=self.dropped_by,
            spread=self.spread or None,
            bits=self.bits or None,
        )


def is_unseen(case: str) -> bool:
    """Return whether a case is random inputs on which no error budget decided."""
    return case.isdecimal() and int(case) not in OUTPUT_CASES


@dataclass(frozen=True)
class Allowance:
    """What the outputs of one candidate may differ by.

    Attributes:
        limit: Largest deviation, as a share of the largest reference output.
        is_tolerated: True if that is the user's tolerance, which the mean deviation may have as well.
        may_drop: True for a candidate with a pass that may change numerics: it may drop values that are not finite.
        is_budget: True for the user's error budget, which is for inputs of the kind that the network is for: weights in
            fewer bits move outputs by more than rounding, and edge inputs may amplify that without limit. There,
            outputs have to be finite where the reference is. Random inputs on which nothing was decided, such as those
            of an audit, may deviate by ``UNSEEN_FACTOR`` times as much.
        lost_nan: Number of values that are NaN in the reference, and that the import without passes drops, too.
        classes: The budget by which the classes of the samples are judged; ``None`` where it is none of classes.
        plain_mean: Mean deviation of the plain build from the network's own framework, where ``limit`` follows from it.
        bits: The bits that outputs must have; ``None`` for any.
        step: Number of roundings of the reference in one of the candidate's.
    """

    limit: float
    is_tolerated: bool = False
    may_drop: bool = False
    lost_nan: int = 0
    is_budget: bool = False
    classes: ErrorBudget | None = None
    plain_mean: float | None = None
    bits: Bits | None = None
    step: float = 1.0

    def judged(self, found: VerifyFact) -> Mapping[str, float]:
        """Return the deviations that are judged, by case."""
        usual = {case: deviation for case, deviation in found.by_case.items() if case not in EDGES}
        return usual if self.is_budget else found.by_case

    def limit_of(self, case: str) -> float:
        """Return the largest deviation on one case, before what edge cases allow."""
        return UNSEEN_FACTOR * self.limit if self.is_budget and is_unseen(case) else self.limit

    def allowed(self, found: VerifyFact, case: str) -> float:
        """Return the largest deviation on one case: more where rounding changes the reference itself."""
        limit = self.limit_of(case)
        if case in EDGES:
            return found.allowed(case, limit, step=self.step)
        return limit if self.is_tolerated or self.is_budget else max(limit, found.by_rounding(ROUNDED))

    def widest(self, found: VerifyFact) -> "Allowance":
        """Return what all judged inputs but edge inputs together may differ by."""
        usual = [case for case in self.judged(found) if case not in EDGES]
        return replace(self, limit=max((self.allowed(found, case) for case in usual), default=self.limit))

    def mean_allowed(self, found: VerifyFact) -> float:
        """Return the largest mean deviation, as a share of the mean magnitude."""
        if found.mean_change is None and not found.rounded:  # only the common factor is told from rounding
            return math.inf
        allowed = max(self.mean_limit, CHANGE_MARGIN * (found.mean_change or 0.0))
        return allowed if self.is_tolerated else max(allowed, found.by_rounding(ROUNDED_MEAN))

    def class_fault(self, found: VerifyFact) -> str:
        """Return which loss of classes is above the budget, on samples or on inputs that decided; empty if none is."""
        cases = [*self.judged(found)]
        is_judged = any(map(is_sample, cases)) or not any(map(is_unseen, cases))
        return class_fault(found.classes, self.classes) if self.classes and is_judged else ""

    @property
    def mean_limit(self) -> float:
        """Largest mean deviation, as a share of the mean magnitude, and largest common factor."""
        if self.plain_mean is not None and not self.is_tolerated:
            return max(PLAIN_MEAN_FACTOR * self.plain_mean, LEAST_MEAN)
        return max(self.limit if self.is_tolerated else MEAN_SHARE * self.limit, LEAST_MEAN)


def judge(verification: VerifyFact, allowance: Allowance) -> Agreement | Failure:
    """Compare a verification with the limit of one candidate.

    Where the reference's two largest scores are nearer to each other than the limit, there is no class to agree on.

    Args:
        verification: The comparison with the reference.
        allowance: What the candidate may differ by.
    """
    limit = allowance.limit
    by_case = allowance.judged(verification)
    allowed = {case: allowance.allowed(verification, case) for case in by_case}
    # Not `deviation > allowed`: every comparison with NaN is false, and NaN must be refused.
    wrong = [case for case, deviation in by_case.items() if not deviation <= allowed[case]]
    if wrong:
        worst = max(wrong, key=lambda case: by_case[case])
        return wrong_result(f"{_deviation_text(worst, by_case[worst])}; {allowed[worst]:.2g} is allowed")
    if reason := _finer_fault(verification, allowance.widest(verification)):
        return wrong_result(reason)
    if reason := allowance.class_fault(verification):
        return wrong_result(f"{DEVIATION}: {reason}")
    lost = {case: found["lost"] for case, found in verification.special.items() if found["lost"]}
    if verification.lost_nan > allowance.lost_nan and not allowance.may_drop:
        return wrong_result(f"{DEVIATION} on inputs `{NAN}`: {lost[NAN]} values are NaN in the reference only")
    unstable = {case: (by_case[case], allowed[case]) for case in by_case if allowed[case] > allowance.limit_of(case)}
    agreement = Agreement(
        max((by_case[case] for case in by_case if case not in unstable), default=0.0),
        limit,
        cases=verification.cases,
        unstable=unstable,
        dropped=lost,
        dropped_by_import=0 < verification.lost_nan <= allowance.lost_nan,
        spread={case: found["spread"] for case, found in verification.special.items() if found["spread"]},
        bits=verification.bits,
    )
    if verification.leads is None or allowance.classes:
        return _with_bits(agreement, allowance)
    limit = allowance.widest(verification).limit
    # Rounding alone may exchange two scores that are nearer to each other than the limit.
    clear = [lead for lead in verification.leads if abs(lead) > limit]
    others = [-lead for lead in clear if lead < 0]
    if others:
        lead = f"by up to {max(others):.2g} of the largest, {limit:.2g} is a tie"
        return wrong_result(
            f"{DEVIATION}: {len(others)} of {len(clear)} have another class than the reference's, that led {lead}"
        )
    agreement = replace(agreement, top1_agreement=1.0 if clear else None, unavailable=NEAR_TIES)
    return _with_bits(agreement, allowance)


def _with_bits(agreement: Agreement, allowance: Allowance) -> Agreement | Failure:
    """Return right outputs, or the failure of those that have other bits than the allowed ones."""
    if allowance.bits is None:
        return agreement
    differing = differing_cases(agreement.bits, allowance.bits)
    if differing is None:
        return Failure(OTHER_BITS, "measure", "", "outputs are right, and their bits are unknown")
    if differing:
        number = sum(case in agreement.bits for case in allowance.bits)
        reason = f"outputs are right, and have other bits on {len(differing)} of {number} inputs"
        return Failure(OTHER_BITS, "measure", "", reason)
    return agreement


def _finer_fault(found: VerifyFact, allowance: Allowance) -> str:
    """Return which mean or slice deviates by more than rounding explains; empty if none does."""
    limit, least = allowance.limit, allowance.mean_limit
    mean = allowance.mean_allowed(found)
    share = max(limit, min(SLICE_FACTOR * limit, MOST_OF_SLICE))
    if not found.factor <= least:
        return f"{DEVIATION}: all values by one factor, {found.factor:.2g} off; {least:.2g} is allowed"
    if not found.mean <= mean:
        return f"{DEVIATION} by {found.mean:.2g} of their mean magnitude on average; {mean:.2g} is allowed"
    if not found.scaled_share <= limit:
        of = f"{found.scaled_share:.2g} of its own largest value, as the output has several scales"
        return f"{DEVIATION}: {found.scaled_of} by {of}; {limit:.2g} is allowed"
    if not found.slice_share <= share:
        of = f"{found.slice_share:.2g} of its own largest value"
        return f"{DEVIATION}: {found.slice_of} by {of}; {share:.2g} is allowed"
    return ""


def used_share(found: VerifyFact, allowance: Allowance) -> float:
    """Return the largest share of what a candidate's outputs may differ by that a comparison uses, without classes.

    Above 1, ``judge`` refuses the candidate.
    """
    limit, least = allowance.limit, allowance.mean_limit
    by_case = allowance.judged(found).items()
    shares = [deviation / found.allowed(case, limit, step=allowance.step) for case, deviation in by_case]
    mean = allowance.mean_allowed(found)
    of_slices = max(limit, min(SLICE_FACTOR * limit, MOST_OF_SLICE))
    finer = (found.factor / least, found.mean / mean, found.slice_share / of_slices, found.scaled_share / limit)
    return max(*shares, *finer)


def wrong_result(reason: str) -> Failure:
    """Return the failure of a candidate whose outputs are not admitted."""
    return Failure("wrong_result", "measure", "", reason)
