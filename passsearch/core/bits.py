"""Numerics classes: digests of outputs by the inputs of a check. Equal digests are equal bits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from passsearch.core.candidate import Candidate

Bits: TypeAlias = Mapping[str, str]
"""Digests of all outputs on the inputs of one case, by case."""

OTHER_BITS: Final = "other_bits"
"""Kind of the failure of a candidate whose outputs are right, and have other bits than those that were asked for."""

RECOMMENDED = "recommended"
"""Word for the recommended sequence, which is known once the network is analysed."""


@dataclass(frozen=True)
class SameBits:
    """The bits that a user wants to keep.

    Attributes:
        reference: The user's word for what has them.
        candidate: What has them; ``None`` for the recommended sequence.
        bits: The bits as an earlier run has recorded them; ``None`` for those that the candidate has now.
    """

    reference: str
    candidate: Candidate | None
    bits: Bits | None = None


def differing_cases(bits: Bits, others: Bits) -> list[str] | None:
    """Return the cases on which bits differ; ``None`` where no case is in both."""
    common = [case for case in others if case in bits]
    return [case for case in common if bits[case] != others[case]] if common else None


def have_same_bits(bits: Bits | None, others: Bits | None) -> bool | None:
    """Return whether all common cases have the same bits; ``None`` where that is unknown."""
    differing = differing_cases(bits or {}, others or {})
    return None if differing is None else not differing
