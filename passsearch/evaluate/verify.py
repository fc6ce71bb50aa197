"""The gate before timing: whether outputs are near enough to the reference's, and to the class it gives."""

from dataclasses import dataclass

from passsearch.core import Failure, Json
from passsearch.dialects.contract import SCALES
from passsearch.store import Fact

DEVIATION = "outputs deviate"
"""How the reason begins where values are wrong, and not the type or shape of an output."""

NO_SCORES = "not exactly one output is a table of class scores"
NEAR_TIES = "the reference's first two classes are nearer to each other than outputs may deviate"


@dataclass(frozen=True)
class Agreement:
    """How outputs that passed stand to the reference's.

    Attributes:
        deviation: The largest, as a share of the largest output; ``None`` where nothing ran.
        limit: What was allowed.
        top1_agreement: Share of the random inputs whose class is the reference's; ``None`` where that cannot be told.
        unavailable: Why not.
        unread: Why nothing ran.
    """

    deviation: float | None = 0.0
    limit: float = 0.0
    top1_agreement: float | None = None
    unavailable: str = NO_SCORES
    unread: str = ""

    def to_json(self) -> dict[str, Json]:
        """The form of results."""
        reason: dict[str, Json] = {} if self.top1_agreement is not None else {"top1_agreement": self.unavailable}
        if self.deviation is None:
            reason = dict.fromkeys(("deviation", "top1_agreement"), self.unread)
        return {
            "deviation": self.deviation,
            "tolerance": self.limit,
            "top1_agreement": self.top1_agreement,
            "unavailable": reason,
        }


def judge(verified: Fact, limit: float, *, unread: str = "") -> Agreement | Failure:
    """Hold what ``passsearch.measure.outputs.verify`` found against a limit.

    ``unread`` says why nothing ran, where that is so. Where the reference's two largest scores are nearer to each other
    than the limit there is no class to agree on.
    """
    if unread:
        return Agreement(None, limit, unread=unread)
    if not verified["deviation"] <= limit:
        return wrong(f"{deviation_text(verified)}; {limit:.2g} is allowed")
    if verified["leads"] is None:
        return Agreement(verified["deviation"], limit)
    clear = [lead for lead in verified["leads"] if abs(lead) > limit]
    lost = [-lead for lead in clear if lead < 0]
    if lost:
        lead = f"by up to {max(lost):.2g} of the largest, {limit:.2g} is a tie"
        return wrong(
            f"{DEVIATION}: {len(lost)} of {len(clear)} have another class than the reference's, that led {lead}"
        )
    return Agreement(verified["deviation"], limit, 1.0 if clear else None, NEAR_TIES)


def wrong(reason: str) -> Failure:
    """Outputs that no limit admits, or not this candidate's."""
    return Failure("wrong_result", "measure", "", reason)


def deviation_text(verified: Fact) -> str:
    """How far outputs deviate, and on which inputs."""
    case = verified["case"]
    inputs = f"inputs `{case}`" if case in SCALES else f"inputs of seed {case}"
    return f"{DEVIATION} on {inputs} by {verified['deviation']:.2g} of the largest"
