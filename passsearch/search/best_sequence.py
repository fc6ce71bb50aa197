"""The best of the catalog's sequences: what a user has without a search, so what a search must gain something over."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from passsearch.search.composition import COMPOSED
from passsearch.search.records import Scored
from passsearch.search.scoring import Scoring


@dataclass(frozen=True)
class BestSequence:
    """The best of the catalog's sequences that a search measured.

    Attributes:
        scored: The sequence.
        measured: Number of sequences it is the best of.
    """

    scored: Scored
    measured: int

    def is_same_binary_as(self, other: Scored) -> bool:
        """Return whether another candidate is the same binary, and so gains nothing over it."""
        return self.scored.built.digest == other.built.digest


def best_sequence(candidates: Iterable[Scored], scoring: Scoring, *, levels: Collection[str]) -> BestSequence | None:
    """Return the fastest sequence; ``None`` where none keeps the baseline's speed, or speed is not the objective.

    Args:
        candidates: Candidates of the search; a later measurement of one replaces an earlier one.
        scoring: Gains over the baseline.
        levels: Names of the compiler's levels, which are no sequences of the catalog.
    """
    if not scoring.objective.is_speed:
        return None
    others = {"", COMPOSED, *levels}
    sequences = {scored.built.key: scored for scored in candidates if scored.candidate.name not in others}
    ranked = scoring.rank(sequences.values())
    # Nobody would take one that is slower than the baseline, so a gain over it would be none.
    if not ranked or scoring.gain(scoring.objective, ranked[0]) < 1.0:
        return None
    return BestSequence(ranked[0], len(ranked))
