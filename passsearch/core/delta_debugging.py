"""Delta debugging: fewest items of a sequence that still show a fault (Zeller and Hildebrandt, 2002)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def fewest(items: Sequence[T], shows: Callable[[Sequence[T]], bool], *, least: int = 1) -> list[T]:
    """Return items of which none can be left out alone without losing the fault.

    Halves are tried first, then quarters, and so on. What ``shows`` confirms is what stays, so the result shows the
    fault wherever ``items`` do, even if the fault comes and goes in between.

    Args:
        items: Items that show the fault together.
        shows: Says whether some of them, in the same order, still show it.
        least: Fewest items that mean anything.
    """
    kept, size = list(items), max(1, len(items) // 2)
    while True:
        begin, has_dropped = 0, False
        while begin < len(kept):
            fewer = kept[:begin] + kept[begin + size :]
            if len(fewer) >= least and shows(fewer):
                kept, has_dropped = fewer, True
            else:
                begin += size
        if size == 1 and not has_dropped:
            return kept
        # With one item left out, another that was needed may be needless.
        size = max(1, min(size // 2, len(kept) // 2))
