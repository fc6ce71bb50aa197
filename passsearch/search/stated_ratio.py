"""Ratios as documents state them."""

from typing import overload

from passsearch.measure import Ratio
from passsearch.results import StatedRatio


@overload
def stated(ratio: Ratio) -> StatedRatio: ...
@overload
def stated(ratio: Ratio | None) -> StatedRatio | None: ...
def stated(ratio: Ratio | None) -> StatedRatio | None:
    """Return a ratio as documents state it, without an interval of too few repetitions."""
    return None if ratio is None else StatedRatio.from_json(ratio.to_json())
