"""What a search that keeps bits states of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.results.candidate import NamedPipeline
from passsearch.results.parts import Positive, StatedRatio


@dataclass(frozen=True, kw_only=True)
class KeptBits(NamedPipeline):
    """The bits that a search has kept, and what that costs.

    Attributes:
        reference: What has these bits, in the user's words.
        bits: The bits of its outputs; see ``Outputs``.
        refused: Number of candidates with right outputs and other bits.
        fastest: The one of them whose check ran the fastest; ``None`` where none was refused.
        check_ratio: Speed of ``fastest`` over the winner's, by the fastest inference of the check of each.
        ratio: The same as measured; ``None``, because candidates with other bits are not timed.
        unavailable: Reason why a value is ``None``, by key.
    """

    reference: str
    bits: Mapping[str, str]
    refused: int
    fastest: str | None
    check_ratio: Positive | None
    ratio: StatedRatio | None
    unavailable: Mapping[str, str]
